// `geminga admin`: finds the group and the command, asks the broker, prints the answer.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin/admin_client.h"
#include "cli/admin/arguments.h"
#include "cli/admin/command.h"
#include "cli/admin/help.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/version.h"

namespace geminga {

namespace admin_cli {

namespace {

constexpr Group (*kGroups[])() = {
    tenants_group,   namespaces_group,       topics_group,          topic_policies_group,
    schemas_group,   clusters_group,         brokers_group,         broker_stats_group,
    isolation_group, resource_groups_group,  resource_quotas_group, transactions_group,
    bookies_group,   functions_group,        sources_group,         sinks_group,
    packages_group,  functions_worker_group, proxy_stats_group};

struct Settings {
  ClientOptions client;
  std::string output;  // "", "json", "text"
};

// "key=value" of a Pulsar client.conf.
std::optional<std::string> value_of(const std::string& line, std::string_view key) {
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != '=') return {};
  return line.substr(key.size() + 1);
}

Status set_token(Settings& settings, const std::string& params) {
  if (params.starts_with("token:")) {
    settings.client.token = params.substr(6);
  } else if (params.starts_with("file:")) {
    const std::string path = params.substr(params.starts_with("file://") ? 7 : 5);
    std::ifstream file(path);
    if (!file || !std::getline(file, settings.client.token))
      return Status::Io("cannot read the token from " + path);
  } else {
    settings.client.token = params;
  }
  return Status::ok();
}

Status read_client_conf(Settings& settings) {
  const char* path = std::getenv("PULSAR_CLIENT_CONF");
  if (path == nullptr) return Status::ok();
  std::ifstream file(path);
  if (!file) return Status::Io(std::string("cannot read PULSAR_CLIENT_CONF=") + path);
  for (std::string line; std::getline(file, line);) {
    if (const auto url = value_of(line, "webServiceUrl"); url && !url->empty())
      settings.client.url = *url;
    if (const auto params = value_of(line, "authParams"); params && !params->empty())
      GM_RETURN_IF_ERROR(set_token(settings, *params));
  }
  return Status::ok();
}

// Takes the options before the group out of `words`.
Status take_options(std::vector<std::string>& words, Settings& settings) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with('-')) {
    std::string name = words[at];
    if (name == "-h" || name == "--help" || name == "-v" || name == "--version") break;
    std::optional<std::string> value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--tls-allow-insecure" || name == "--tls-enable-hostname-verification") {
      ++at;
      continue;
    }
    if (!value) {
      if (at + 1 >= words.size()) return Status::InvalidArgument(name + " needs a value");
      value = words[++at];
    }
    ++at;
    if (name == "--admin-url") {
      settings.client.url = *value;
    } else if (name == "--auth-params") {
      GM_RETURN_IF_ERROR(set_token(settings, *value));
    } else if (name == "--auth-plugin") {
      if (*value != "token" && !value->ends_with("AuthenticationToken"))
        return Status::Unsupported("--auth-plugin " + *value + ": only tokens are known");
    } else if (name == "--request-timeout") {
      const char* end = value->data() + value->size();
      const auto read = std::from_chars(value->data(), end, settings.client.timeout_s);
      if (read.ec != std::errc() || read.ptr != end || settings.client.timeout_s <= 0)
        return Status::InvalidArgument("--request-timeout: '" + *value +
                                       "' is no number of seconds");
    } else if (name == "-o" || name == "--output") {
      settings.output = *value;
    } else if (name == "--tls-trust-cert-path" || name == "--tls-provider") {
      continue;  // matters with https only, which is refused
    } else {
      return Status::InvalidArgument("there is no option " + name);
    }
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
  if (!settings.output.empty() && settings.output != "json" && settings.output != "text")
    return Status::InvalidArgument("--output: '" + settings.output + "' is not json or text");
  return Status::ok();
}

// -o may also stand behind the command, unless the command has such an option itself.
void take_output(std::vector<std::string>& words, const Arguments& arguments, Settings& settings) {
  for (const Option& option : arguments.options)
    for (const std::string& name : option.names)
      if (name == "-o") return;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "-o" && words[i] != "--output") continue;
    settings.output = words[i + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    return;
  }
}

const Command* find_command(const Group& group, std::string_view name) {
  for (const Command& command : group.commands) {
    if (has_name(command.names, name)) return &command;
  }
  return nullptr;
}

Status run(const Command& command, const std::vector<std::string>& words,
           const Arguments& arguments, const Settings& settings) {
  GM_ASSIGN_OR_RETURN(const auto values, parse_arguments(arguments, words));
  GM_ASSIGN_OR_RETURN(const auto client, AdminClient::make(settings.client));
  const bool json = settings.output == "json";
  Call call{*client, values, json || (settings.output.empty() && isatty(STDOUT_FILENO) == 0), json};
  if (command.run != nullptr) return command.run(call);
  const Request request = make_request(command, values);
  GM_ASSIGN_OR_RETURN(const Answer answer,
                      client->must(request.method, request.target, request.body));
  Print print = json && command.print != Print::Nothing ? Print::Json : command.print;
  const auto* indent = values.if_contains("indent");
  if (print == Print::Raw && indent != nullptr && indent->as_bool()) print = Print::Gson;
  print_text(render(print, answer.body, !call.as_json));
  return Status::ok();
}

bool asks_for_help(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (word == "--help" || word == "-h") return true;
  return false;
}

int usage_error(std::string_view program, const std::string& text, const std::string& next) {
  std::fprintf(stderr, "%s\n`%s %s--help` tells what is allowed\n", text.c_str(),
               std::string(program).c_str(), next.c_str());
  return kExitFailed;
}

// `domain`: what a topic's name without one begins with; empty: persistent.
int run_group(std::string_view program, const Group& group, std::vector<std::string> words,
              Settings& settings, std::string_view domain) {
  const std::string group_name(first_name(group.names));
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::fputs(help_of(program, group).c_str(), words.empty() ? stderr : stdout);
    return words.empty() ? kExitFailed : kExitOk;
  }
  const std::string name = words[0];
  words.erase(words.begin());
  const Command* command = find_command(group, name);
  Group of = group;
  // Policies of topics were commands of `topics` before.
  if (command == nullptr && group_name == "topics") {
    of = topic_policies_group();
    command = find_command(of, name);
    if (command == nullptr && (name == "enable-deduplication" || name == "disable-deduplication")) {
      command = find_command(of, "set-deduplication");
      words.emplace_back(name.starts_with("enable") ? "-e" : "-d");
    }
  }
  if (!domain.empty() && name == "list") words.emplace_back("--topic-domain=non_persistent");
  if (command == nullptr)
    return usage_error(program, group_name + " has no command '" + name + "'", group_name + " ");
  if (asks_for_help(words)) {
    std::fputs(help_of(program, of, *command).c_str(), stdout);
    return kExitOk;
  }
  Arguments arguments = describe(command->arguments);
  arguments.domain = domain;
  take_output(words, arguments, settings);
  const Status done = run(*command, words, arguments, settings);
  if (done.is_ok()) return kExitOk;
  std::fflush(stdout);
  if (done.is(ErrorCode::InvalidArgument)) {
    return usage_error(program, done.message(),
                       group_name + " " + std::string(first_name(command->names)) + " ");
  }
  if (done.is(ErrorCode::PreconditionFailed)) {
    // The broker's refusal, twice, as pulsar-admin prints it.
    std::fprintf(stderr, "%s\n\nReason: %s\n", done.message().c_str(), done.message().c_str());
  } else {
    std::fprintf(stderr, "%s\n", done.message().c_str());
  }
  return kExitFailed;
}

}  // namespace

std::span<const Group> groups() {
  static const std::vector<Group> all = [] {
    std::vector<Group> made;
    for (const auto make : kGroups) made.push_back(make());
    return made;
  }();
  return all;
}

bool has_name(std::string_view names, std::string_view name) {
  while (true) {
    const std::size_t end = names.find('|');
    if (names.substr(0, end) == name) return true;
    if (end == std::string_view::npos) return false;
    names.remove_prefix(end + 1);
  }
}

std::string_view first_name(std::string_view names) { return names.substr(0, names.find('|')); }

}  // namespace admin_cli

int admin_main(int argc, char** argv) {
  using namespace admin_cli;
  const std::string program =
      std::getenv("GEMINGA_ADMIN_NAME") != nullptr ? std::getenv("GEMINGA_ADMIN_NAME") : argv[0];
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "__complete") {
    words.erase(words.begin());
    for (const std::string& word : completions(words)) std::printf("%s\n", word.c_str());
    return kExitOk;
  }
  Settings settings;
  Status taken = read_client_conf(settings);
  if (taken) taken = take_options(words, settings);
  if (!taken) return usage_error(program, taken.message(), "");
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::fputs(help_of_all(program).c_str(), words.empty() ? stderr : stdout);
    return words.empty() ? kExitFailed : kExitOk;
  }
  if (words[0] == "--version" || words[0] == "-v") {
    std::printf("Current version of pulsar admin client is: geminga %s\n", kVersion);
    return kExitOk;
  }
  if (words[0] == "completion") {
    const std::string script = completion_script(words.size() > 1 ? words[1] : "");
    if (script.empty()) return usage_error(program, "completion: say bash or zsh", "");
    std::fputs(script.c_str(), stdout);
    return kExitOk;
  }
  const std::string name = words[0];
  words.erase(words.begin());
  for (const Group& group : groups()) {
    if (!has_name(group.names, name)) continue;
    return run_group(program, group, std::move(words), settings,
                     name == "non-persistent" ? "non-persistent://" : "");
  }
  return usage_error(program, "there is no group '" + name + "'", "");
}

}  // namespace geminga
