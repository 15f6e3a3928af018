// `geminga`: finds the subcommand and runs it.
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/version.h"

namespace {

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view summary;
};

constexpr Command kCommands[] = {
    {"standalone", geminga::standalone_main,
     "one broker with its own durable store: all that is needed"},
    {"perf", geminga::perf_main,
     "load generator for Geminga and Pulsar: produce, consume, latency"},
    {"admin", geminga::admin_main, "administer a running broker, with the grammar of pulsar-admin"},
    {"doctor", geminga::doctor_main, "check a data folder offline and name every damaged record"},
};

void print_help(std::FILE* to) {
  std::fprintf(to,
               "geminga %s: a message and stream platform that speaks Apache Pulsar's protocols\n\n"
               "usage: geminga COMMAND [OPTIONS]\n\ncommands:\n",
               geminga::kVersion);
  for (const Command& command : kCommands) {
    std::fprintf(to, "  %-12s %s\n", std::string(command.name).c_str(),
                 std::string(command.summary).c_str());
  }
  std::fprintf(to,
               "\n`geminga COMMAND --help` tells its options; `geminga --version` the version.\n"
               "To begin: geminga standalone\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return geminga::kExitUsage;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return geminga::kExitOk;
  }
  if (name == "--version" || name == "version") {
    std::printf("geminga %s\n", geminga::kVersion);
    return geminga::kExitOk;
  }
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    std::string program = "geminga " + std::string(name);
    std::vector<char*> rest{program.data()};
    for (char* argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(2)) {
      rest.push_back(argument);
    }
    const int count = static_cast<int>(rest.size());
    rest.push_back(nullptr);
    return command.run(count, rest.data());
  }
  std::fprintf(stderr, "geminga: there is no command '%s'; `geminga --help` lists them\n", argv[1]);
  return geminga::kExitUsage;
}
