#include "broker/live_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <optional>

#include "base/log.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr char kPath[] = "/admin/configuration";
constexpr int kAttempts = 32;  // of a compare-and-set that others win

constexpr std::string_view kNames[] = {
#define GM_CONFIG_DYNAMIC(key) #key,
#include "base/config_keys_dynamic.inc"
#undef GM_CONFIG_DYNAMIC
};

bool may_change(std::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Status apply_one(BrokerConfig& config, const std::string& name, const std::string& value) {
  const ConfigSetting setting{name, value, "dynamic configuration"};
  ConfigNotes notes;
  return apply_settings(config, {&setting, 1}, notes);
}

Result<std::map<std::string, std::string>> parse(const std::optional<MetadataValue>& node) {
  std::map<std::string, std::string> values;
  if (!node || node->value.empty()) return values;
  boost::system::error_code error;
  const json::value stored = json::parse(node->value, error);
  if (error || !stored.is_object()) {
    return Status::Corruption(fmt::format("{} is not the JSON object it must be", kPath));
  }
  for (const auto& entry : stored.get_object()) {
    if (entry.value().is_string()) values[entry.key()] = entry.value().get_string();
  }
  return values;
}

}  // namespace

LiveConfig::LiveConfig(MetadataStore& metadata, const BrokerConfig& started_with)
    : metadata_(metadata),
      started_with_(started_with),
      now_(std::make_shared<const BrokerConfig>(started_with)) {}

std::vector<std::string> LiveConfig::names() { return {std::begin(kNames), std::end(kNames)}; }

void LiveConfig::take(const Values& values) {
  auto config = std::make_shared<BrokerConfig>(started_with_);
  for (const auto& [name, value] : values) {
    if (const Status applied = apply_one(*config, name, value); !applied)
      GM_LOG_WARN("{} is passed over: {}", name, applied.message());
  }
  now_.store(std::move(config));
}

Task<Result<std::map<std::string, std::string>>> LiveConfig::changed() {
  const auto node = co_await metadata_.get(kPath);
  if (!node) co_return node.status();
  co_return parse(*node);
}

Task<Status> LiveConfig::open() {
  const auto values = co_await changed();
  if (!values) co_return values.status();
  take(*values);
  co_return Status::ok();
}

Task<Status> LiveConfig::store(std::string name, std::string value, bool remove) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto node = co_await metadata_.get(kPath);
    if (!node) co_return node.status();
    auto values = parse(*node);
    if (!values) co_return values.status();
    if (remove) {
      values->erase(name);
    } else {
      (*values)[name] = value;
    }
    json::object document;
    for (const auto& [key, kept] : *values) document[key] = kept;
    MetadataPut options;
    options.expected_version = node->has_value() ? (*node)->stat.version : -1;
    const auto put = co_await metadata_.put(kPath, json::serialize(document), options);
    if (put.is(ErrorCode::BadVersion)) continue;
    if (put) take(*values);
    co_return put.status();
  }
  co_return Status::Conflict("others kept changing the configuration; try again");
}

Task<Status> LiveConfig::set(std::string name, std::string value) {
  if (!may_change(name))
    co_return Status::PreconditionFailed("Can't update non-dynamic configuration");
  BrokerConfig tried = started_with_;
  const Status possible = apply_one(tried, name, value);
  if (!possible) co_return Status::PreconditionFailed(possible.message());
  co_return co_await store(std::move(name), std::move(value), false);
}

Task<Status> LiveConfig::reset(std::string name) {
  if (!may_change(name))
    co_return Status::PreconditionFailed("Can't delete non-dynamic configuration");
  co_return co_await store(std::move(name), std::string(), true);
}

}  // namespace geminga
