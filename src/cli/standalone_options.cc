#include "cli/standalone_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/isolation_groups.h"
#include "broker/entry_stamp.h"
#include "broker/unacked_budget.h"
#include "cli/exit_codes.h"
#include "runtime/runtime.h"

namespace geminga {

namespace {

// Below it there is no room for one largest message in each place that must hold one.
constexpr std::size_t kLeastMemory = 64 << 20;

struct Flags {
  std::string config_file;
  std::optional<int> broker_port;
  std::optional<int> web_port;
  std::optional<std::string> bind_address;
  std::optional<std::string> advertised_address;
  std::string memory;
  bool print_config_reference = false;
};

std::size_t default_memory() {
  const std::size_t machine = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  const std::size_t usable = usable_memory();
  // A cgroup's limit was set for this process: half of it. A whole machine is shared with others.
  const std::size_t share = usable < machine ? usable / 2 : usable / 8;
  return std::clamp<std::size_t>(share, kLeastMemory, 2ULL << 30);
}

Status resolve_memory(const std::string& flag, StandaloneOptions& options) {
  if (!flag.empty()) {
    auto size = parse_size(flag);
    if (!size) return size.status().with_context("--memory");
    options.memory = *size;
    options.memory_source = "--memory";
  } else if (const char* jvm = std::getenv("PULSAR_MEM"); jvm != nullptr) {
    auto size = memory_of_jvm_options(jvm);
    if (!size) return size.status().with_context("environment variable PULSAR_MEM");
    options.memory = *size;
    options.memory_source = "PULSAR_MEM";
  }
  if (options.memory == 0) {
    options.memory = default_memory();
    options.memory_source = "default";
  }
  if (options.memory < kLeastMemory) {
    return Status::InvalidArgument("a memory budget of " + std::to_string(options.memory) +
                                   " bytes (from " + options.memory_source +
                                   ") is too small; give at least 64M, for example --memory 256M");
  }
  return Status::ok();
}

Status resolve_config(const Flags& flags, StandaloneOptions& options) {
  std::vector<ConfigSetting> settings;
  if (!flags.config_file.empty()) {
    GM_ASSIGN_OR_RETURN(settings, read_properties_file(flags.config_file));
  }
  for (auto& setting : settings_of_environment(environ)) settings.push_back(std::move(setting));
  const auto add = [&](const char* key, const char* option, std::string value) {
    settings.push_back({key, std::move(value), option});
  };
  if (flags.broker_port)
    add("brokerServicePort", "--broker-port", std::to_string(*flags.broker_port));
  if (flags.web_port) add("webServicePort", "--web-port", std::to_string(*flags.web_port));
  if (flags.bind_address) add("bindAddress", "--bind-address", *flags.bind_address);
  if (flags.advertised_address) {
    add("advertisedAddress", "--advertised-address", *flags.advertised_address);
  }
  GM_RETURN_IF_ERROR(apply_settings(options.config, settings, options.notes));
  for (const ConfigSetting& setting : settings) {
    Status possible;
    if (setting.key == "isolationGroups") possible = parse_isolation_groups(setting.value).status();
    if (setting.key == "brokerEntryMetadataInterceptors")
      possible = parse_entry_stamp(setting.value).status();
    if (setting.key == "maxUnackedMessagesPerSubscriptionOnBrokerBlocked")
      possible = parse_share(setting.value).status();
    if (!possible) return possible.with_context(setting.source + ": " + setting.key);
  }
  // Serving everybody where the operator asked for authentication would be worse than not serving.
  if (options.config.authentication_enabled || options.config.authorization_enabled) {
    return Status::Unsupported(
        "authenticationEnabled and authorizationEnabled are not available yet; set both to false "
        "and keep the "
        "ports on an address that only trusted clients reach");
  }
  return Status::ok();
}

}  // namespace

bool read_standalone_options(int argc, char** argv, StandaloneOptions& options,
                             StandaloneExit& exit) {
  CLI::App app(
      "One broker with its own durable store. Data, metadata and logs are below --data-dir.",
      argv[0]);
  Flags flags;
  app.add_option("--data-dir", options.data_dir, "folder for everything that is kept")
      ->capture_default_str();
  app.add_option("--broker-port", flags.broker_port,
                 "port of the binary protocol (6650; 0: a free one)");
  app.add_option("--web-port", flags.web_port, "port of HTTP (8080; 0: a free one)");
  app.add_option("--bind-address", flags.bind_address, "address to listen on (127.0.0.1)");
  app.add_option("--advertised-address", flags.advertised_address,
                 "host name that clients are told (localhost)");
  app.add_option("--config", flags.config_file,
                 "a standalone.conf or broker.conf of Apache Pulsar");
  app.add_option("--memory", flags.memory, "memory budget, for example 512M");
  app.add_option("--shards", options.shards, "threads that serve (one a core)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--log-io", options.log_io, "how the log is written")
      ->check(CLI::IsMember({"auto", "uring", "thread"}))
      ->capture_default_str();
  app.add_flag("--print-config-reference", flags.print_config_reference,
               "print the page of configuration keys and leave");
  app.footer(
      "Stop it with Ctrl-C or SIGTERM. Exit codes: 0 stopped, 2 usage, 3 configuration, 4 data "
      "folder in use,\n"
      "5 data folder not usable, 6 damaged data, 7 port taken, 1 anything else.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const bool help = e.get_exit_code() == 0;
    exit = {help ? kExitOk : kExitUsage,
            help ? app.help()
                 : std::string(e.what()) + "\n`geminga standalone --help` lists the options\n"};
    return false;
  }
  if (flags.print_config_reference) {
    exit = {kExitOk, configuration_reference_markdown()};
    return false;
  }
  Status status = resolve_config(flags, options);
  if (status.is_ok()) status = resolve_memory(flags.memory, options);
  if (!status.is_ok()) {
    exit = {kExitConfig, "geminga standalone: " + status.message() + "\n"};
    return false;
  }
  return true;
}

}  // namespace geminga
