// Reading values into BrokerConfig, and the pages made of the table of keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>
#include <variant>

#include "base/config.h"

namespace geminga {

namespace {

struct IntRange {
  std::int64_t least;
  std::int64_t most;
};

struct Key {
  std::string_view name;
  std::variant<bool BrokerConfig::*, std::int64_t BrokerConfig::*, std::string BrokerConfig::*>
      member;
  IntRange range{0, 0};
  std::string_view allowed;  // choices, separated by '|'
  std::string_view unit;
  std::string_view text;
};

constexpr std::array kKeys = {
#define GM_CONFIG_BOOL(key, member, value, text) Key{#key, &BrokerConfig::member, {}, "", "", text},
#define GM_CONFIG_INT(key, member, value, least, most, unit, text) \
  Key{#key, &BrokerConfig::member, {least, most}, "", unit, text},
#define GM_CONFIG_TEXT(key, member, value, text) Key{#key, &BrokerConfig::member, {}, "", "", text},
#define GM_CONFIG_CHOICE(key, member, value, allowed, text) \
  Key{#key, &BrokerConfig::member, {}, allowed, "", text},
#include "base/config_keys.inc"
#undef GM_CONFIG_BOOL
#undef GM_CONFIG_INT
#undef GM_CONFIG_TEXT
#undef GM_CONFIG_CHOICE
};

// Keys of Pulsar 4.0 that are accepted and do nothing here.
constexpr std::string_view kWithoutMeaning[] = {
#define GM_CONFIG_IGNORED(key) #key,
#include "base/config_keys_ignored.inc"
#undef GM_CONFIG_IGNORED
};

const Key* find_key(std::string_view name) {
  const auto* found =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& k) { return k.name == name; });
  return found == kKeys.end() ? nullptr : found;
}

bool is_without_meaning(std::string_view name) {
  static const std::unordered_set<std::string_view> names(std::begin(kWithoutMeaning),
                                                          std::end(kWithoutMeaning));
  return names.contains(name);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string allowed_of(const Key& key) {
  if (std::holds_alternative<bool BrokerConfig::*>(key.member)) return "true or false";
  if (std::holds_alternative<std::int64_t BrokerConfig::*>(key.member)) {
    return fmt::format("a whole number from {} to {}{}{}", key.range.least, key.range.most,
                       key.unit.empty() ? "" : " ", key.unit);
  }
  if (key.allowed.empty()) return "text";
  std::string choices(key.allowed);
  std::replace(choices.begin(), choices.end(), '|', ',');
  return "one of " + choices;
}

Status refuse(const Key& key, const ConfigSetting& setting) {
  return Status::InvalidArgument(fmt::format("{}: {}={} is not possible; allowed: {}",
                                             setting.source, setting.key, setting.value,
                                             allowed_of(key)));
}

Status set_bool(BrokerConfig& config, bool BrokerConfig::*member, const Key& key,
                const ConfigSetting& setting) {
  const std::string value = lower(setting.value);
  if (value != "true" && value != "false") return refuse(key, setting);
  config.*member = value == "true";
  return Status::ok();
}

Status set_int(BrokerConfig& config, std::int64_t BrokerConfig::*member, const Key& key,
               const ConfigSetting& setting) {
  std::int64_t value = 0;
  const char* end = setting.value.data() + setting.value.size();
  const auto [stopped, error] = std::from_chars(setting.value.data(), end, value);
  if (error != std::errc() || stopped != end || value < key.range.least || value > key.range.most) {
    return refuse(key, setting);
  }
  config.*member = value;
  return Status::ok();
}

Status set_text(BrokerConfig& config, std::string BrokerConfig::*member, const Key& key,
                const ConfigSetting& setting) {
  if (key.allowed.empty()) {
    config.*member = setting.value;
    return Status::ok();
  }
  std::string_view rest = key.allowed;
  while (!rest.empty()) {
    const std::size_t bar = rest.find('|');
    const std::string_view choice = rest.substr(0, bar);
    if (lower(choice) == lower(setting.value)) {
      config.*member = std::string(choice);
      return Status::ok();
    }
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return refuse(key, setting);
}

Status apply_one(BrokerConfig& config, const Key& key, const ConfigSetting& setting) {
  if (const auto* member = std::get_if<bool BrokerConfig::*>(&key.member)) {
    return set_bool(config, *member, key, setting);
  }
  if (const auto* member = std::get_if<std::int64_t BrokerConfig::*>(&key.member)) {
    return set_int(config, *member, key, setting);
  }
  return set_text(config, std::get<std::string BrokerConfig::*>(key.member), key, setting);
}

std::string value_of(const BrokerConfig& config, const Key& key) {
  if (const auto* member = std::get_if<bool BrokerConfig::*>(&key.member)) {
    return config.**member ? "true" : "false";
  }
  if (const auto* member = std::get_if<std::int64_t BrokerConfig::*>(&key.member)) {
    return std::to_string(config.**member);
  }
  return config.*std::get<std::string BrokerConfig::*>(key.member);
}

}  // namespace

Status apply_settings(BrokerConfig& config, std::span<const ConfigSetting> settings,
                      ConfigNotes& notes) {
  for (const ConfigSetting& setting : settings) {
    const Key* key = find_key(setting.key);
    if (key != nullptr) {
      // Pulsar's files leave a key empty where it has no value.
      if (setting.value.empty()) continue;
      GM_RETURN_IF_ERROR(apply_one(config, *key, setting));
      continue;
    }
    const auto same_key = [&](const ConfigSetting& other) { return other.key == setting.key; };
    if (is_without_meaning(setting.key)) {
      auto& list = notes.without_meaning;
      if (std::find(list.begin(), list.end(), setting.key) == list.end())
        list.push_back(setting.key);
    } else if (std::none_of(notes.unknown.begin(), notes.unknown.end(), same_key)) {
      notes.unknown.push_back(setting);
    }
  }
  return Status::ok();
}

std::vector<std::pair<std::string, std::string>> config_values(const BrokerConfig& config) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Key& key : kKeys) values.emplace_back(std::string(key.name), value_of(config, key));
  return values;
}

std::string configuration_reference_markdown() {
  const BrokerConfig defaults;
  std::string page =
      "# Configuration\n\n"
      "Geminga reads `broker.conf` and `standalone.conf` of Apache Pulsar as they are (`--config "
      "FILE`), environment\n"
      "variables `PULSAR_PREFIX_<key>` and the options of `geminga standalone`; later ones win. "
      "These keys act. Other keys of\n"
      "Pulsar are accepted and named once in the log; a key that nobody knows is warned of; a "
      "value that is not possible\n"
      "stops the start with file, line and what is allowed.\n\n"
      "This page is made from `src/base/config_keys.inc`.\n\n"
      "| key | default | unit | meaning | allowed |\n| --- | --- | --- | --- | --- |\n";
  for (const Key& key : kKeys) {
    std::string allowed = allowed_of(key);
    page += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", key.name, value_of(defaults, key),
                        key.unit, key.text, allowed);
  }
  return page;
}

}  // namespace geminga
