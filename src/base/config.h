// Configuration: the files, environment variables and flags of Pulsar, read into one plain value.
//
// Sources, weakest first: defaults (base/config_keys.inc), a file in Java's properties format,
// environment variables PULSAR_PREFIX_<key>, options of the command line. Later ones win; within a
// file the last line wins. A value that cannot be right is refused with its source (file and line),
// key, the value and what is allowed. A key of Pulsar that has no meaning here is reported in one
// line for all of them; any other unknown key is warned of once. A BrokerConfig is filled once at
// start and then only read: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace geminga {

struct BrokerConfig {
#define GM_CONFIG_BOOL(key, member, value, text) bool member = value;
#define GM_CONFIG_INT(key, member, value, least, most, unit, text) std::int64_t member = value;
#define GM_CONFIG_TEXT(key, member, value, text) std::string member = value;
#define GM_CONFIG_CHOICE(key, member, value, allowed, text) std::string member = value;
#include "base/config_keys.inc"
#undef GM_CONFIG_BOOL
#undef GM_CONFIG_INT
#undef GM_CONFIG_TEXT
#undef GM_CONFIG_CHOICE
};

// One setting and where it came from ("standalone.conf:12", "environment", "--broker-port").
struct ConfigSetting {
  std::string key;
  std::string value;
  std::string source;
};

// What was said about keys rather than values; for the log at start.
struct ConfigNotes {
  std::vector<std::string> without_meaning;  // Pulsar's keys that do nothing here
  std::vector<ConfigSetting> unknown;        // in no list
};

// Parses properties text: `key=value`, `key:value` or `key value`, comments with # or !,
// continuation lines, escapes \t \n \r \f \\ \uXXXX. `name` is for messages. InvalidArgument for a
// broken escape or a text above 4 MiB.
Result<std::vector<ConfigSetting>> parse_properties(std::string_view text, std::string_view name);
// The file at `path`; NotFound or Io naming it.
Result<std::vector<ConfigSetting>> read_properties_file(const std::string& path);
// PULSAR_PREFIX_<key>=value of an environment ("name=value" strings, nullptr at the end, as
// `environ`).
std::vector<ConfigSetting> settings_of_environment(const char* const* environment);

// Applies settings in order. InvalidArgument names source, key, value and what is allowed.
Status apply_settings(BrokerConfig& config, std::span<const ConfigSetting> settings,
                      ConfigNotes& notes);

// Every key with its value, as text; in the order of the table.
std::vector<std::pair<std::string, std::string>> config_values(const BrokerConfig& config);
// docs/reference/configuration.md.
std::string configuration_reference_markdown();

// "512M", "2g", "64KiB", "1073741824": bytes. InvalidArgument otherwise.
Result<std::size_t> parse_size(std::string_view text);
// The sum of -Xmx and -XX:MaxDirectMemorySize in JVM options such as PULSAR_MEM's; 0 if neither is
// there. InvalidArgument if one cannot be read.
Result<std::size_t> memory_of_jvm_options(std::string_view options);

}  // namespace geminga
