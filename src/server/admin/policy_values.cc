#include "server/admin/policy_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <charconv>
#include <optional>
#include <span>

namespace geminga {

namespace json = boost::json;

namespace {

enum class FieldType { Integer, Boolean, Real, Text };

struct Field {
  const char* name;
  FieldType type;
  const char* if_absent;  // JSON, nullptr: left out
};

Status wrong_type(std::string_view wanted, std::string_view where) {
  return Status::Protocol(
      fmt::format("Cannot deserialize value of type `{}` for {}", wanted, where));
}

std::optional<std::int64_t> as_integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double() && value.get_double() >= -9e15 && value.get_double() <= 9e15) {
    return static_cast<std::int64_t>(value.get_double());
  }
  return std::nullopt;
}

// Numbers and booleans may stand in quotes: the real API takes them.
std::optional<json::value> unquoted(const json::value& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string_view text(value.get_string());
  if (text == "true" || text == "false") return json::value(text == "true");
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return json::value(number);
}

std::optional<json::value> convert(const json::value& given, FieldType type) {
  const auto plain = type == FieldType::Text ? std::nullopt : unquoted(given);
  const json::value& value = plain ? *plain : given;
  switch (type) {
    case FieldType::Integer:
      if (const auto number = as_integer(value)) return json::value(*number);
      return std::nullopt;
    case FieldType::Boolean:
      if (value.is_bool()) return value;
      return std::nullopt;
    case FieldType::Real:
      if (value.is_double()) return value;
      if (const auto number = as_integer(value)) return json::value(static_cast<double>(*number));
      return std::nullopt;
    case FieldType::Text:
      if (value.is_string()) return value;
      return std::nullopt;
  }
  return std::nullopt;
}

json::value literal(const char* text, FieldType type) {
  switch (type) {
    case FieldType::Boolean: return std::string_view(text) == "true";
    case FieldType::Real: return std::stod(text);
    case FieldType::Integer: return std::int64_t{std::stoll(text)};
    case FieldType::Text: break;
  }
  return json::string(text);
}

std::string_view type_name(FieldType type) {
  constexpr std::array<std::string_view, 4> kNames = {"int", "boolean", "double",
                                                      "java.lang.String"};
  return kNames[static_cast<std::size_t>(type)];
}

Result<json::object> read_object(const json::value& body, std::span<const Field> fields,
                                 std::string_view policy) {
  if (!body.is_object()) return wrong_type("object", policy);
  const json::object& given = body.get_object();
  json::object out;
  for (const Field& field : fields) {
    const json::value* value = given.if_contains(field.name);
    if (value != nullptr && !value->is_null()) {
      auto converted = convert(*value, field.type);
      if (!converted) return wrong_type(type_name(field.type), field.name);
      out[field.name] = std::move(*converted);
    } else if (field.if_absent != nullptr) {
      out[field.name] = literal(field.if_absent, field.type);
    }
  }
  return out;
}

Result<json::value> read_fields(const json::value& body, std::span<const Field> fields,
                                std::string_view policy) {
  GM_ASSIGN_OR_RETURN(json::object object, read_object(body, fields, policy));
  return json::value(std::move(object));
}

Result<std::int64_t> integer(const json::value& body, const PolicyTarget& target) {
  const auto number = as_integer(body);
  if (!number) return wrong_type("int", target.policy);
  return *number;
}

Result<json::value> one_of(const json::value& body, std::span<const std::string_view> names,
                           const PolicyTarget& target) {
  if (!body.is_string()) return wrong_type("enum", target.policy);
  const json::string& text = body.get_string();
  const std::string_view given(text.data(), text.size());
  if (std::find(names.begin(), names.end(), given) == names.end()) {
    return Status::InvalidArgument(fmt::format("Invalid value '{}' for {}", given, target.policy));
  }
  return body;
}

std::int64_t number_in(const json::value& object, const char* name) {
  if (!object.is_object()) return -1;
  const json::value* value = object.get_object().if_contains(name);
  return value != nullptr && value->is_int64() ? value->get_int64() : -1;
}

}  // namespace

Result<json::value> read_boolean(const json::value& body, const PolicyTarget& target) {
  if (!body.is_bool()) return wrong_type("boolean", target.policy);
  return body;
}

Result<json::value> read_text(const json::value& body, const PolicyTarget& target) {
  if (!body.is_string()) return wrong_type("java.lang.String", target.policy);
  return body;
}

Result<json::value> read_text_list(const json::value& body, const PolicyTarget& target) {
  if (!body.is_array()) return wrong_type("list", target.policy);
  for (const json::value& item : body.get_array()) {
    if (!item.is_string()) return wrong_type("java.lang.String", target.policy);
  }
  return body;
}

Result<json::value> read_number(const json::value& body, const PolicyTarget& target) {
  GM_ASSIGN_OR_RETURN(const std::int64_t number, integer(body, target));
  return json::value(number);
}

Result<json::value> read_limit(const json::value& body, const PolicyTarget& target) {
  GM_ASSIGN_OR_RETURN(const std::int64_t number, integer(body, target));
  if (number < 0)
    return Status::PreconditionFailed(fmt::format("{} must be 0 or more", target.policy));
  return json::value(number);
}

Result<json::value> read_ttl(const json::value& body, const PolicyTarget& target) {
  GM_ASSIGN_OR_RETURN(const std::int64_t number, integer(body, target));
  if (number < 0) {
    return Status::PreconditionFailed(target.of_topic
                                          ? "Invalid value for message TTL"
                                          : "Invalid value for message TTL, message TTL must >= 0");
  }
  return json::value(number);
}

Result<json::value> read_expiration(const json::value& body, const PolicyTarget& target) {
  GM_ASSIGN_OR_RETURN(const std::int64_t number, integer(body, target));
  if (number < 0)
    return Status::PreconditionFailed("Invalid value for subscription expiration time");
  return json::value(number);
}

Result<json::value> read_interval(const json::value& body, const PolicyTarget& target) {
  GM_ASSIGN_OR_RETURN(const std::int64_t number, integer(body, target));
  if (number < 0) return Status::PreconditionFailed("interval must be greater than or equal to 0");
  return json::value(number);
}

Result<json::value> read_retention(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"retentionTimeInMinutes", FieldType::Integer, "0"},
                                      {"retentionSizeInMB", FieldType::Integer, "0"}};
  GM_ASSIGN_OR_RETURN(json::object object, read_object(body, kFields, target.policy));
  const std::int64_t minutes = object["retentionTimeInMinutes"].as_int64();
  const std::int64_t megabytes = object["retentionSizeInMB"].as_int64();
  if (minutes < -1)
    return Status::InvalidArgument("Invalid retention policy: time limit must be >= -1");
  if (megabytes < -1)
    return Status::InvalidArgument("Invalid retention policy: size limit must be >= -1");
  if ((minutes == 0) != (megabytes == 0)) {
    return Status::InvalidArgument(
        "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of "
        "the limits has a "
        "non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable "
        "retention both "
        "limits must be set to 0.");
  }
  return json::value(std::move(object));
}

Result<json::value> read_persistence(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"bookkeeperEnsemble", FieldType::Integer, "2"},
                                      {"bookkeeperWriteQuorum", FieldType::Integer, "2"},
                                      {"bookkeeperAckQuorum", FieldType::Integer, "2"},
                                      {"managedLedgerMaxMarkDeleteRate", FieldType::Real, "0"},
                                      {"managedLedgerStorageClassName", FieldType::Text, nullptr}};
  GM_ASSIGN_OR_RETURN(json::object object, read_object(body, kFields, target.policy));
  const std::int64_t ensemble = object["bookkeeperEnsemble"].as_int64();
  const std::int64_t write = object["bookkeeperWriteQuorum"].as_int64();
  const std::int64_t ack = object["bookkeeperAckQuorum"].as_int64();
  if (ack < 0 || ack > write || write > ensemble) {
    return Status::InvalidArgument(fmt::format(
        "Bookkeeper Ensemble ({}) >= WriteQuorum ({}) >= AckQuorum ({})", ensemble, write, ack));
  }
  return json::value(std::move(object));
}

Result<json::value> read_dispatch_rate(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"dispatchThrottlingRateInMsg", FieldType::Integer, "0"},
                                      {"dispatchThrottlingRateInByte", FieldType::Integer, "0"},
                                      {"relativeToPublishRate", FieldType::Boolean, "false"},
                                      {"ratePeriodInSecond", FieldType::Integer, "0"}};
  return read_fields(body, kFields, target.policy);
}

Result<json::value> read_subscribe_rate(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {
      {"subscribeThrottlingRatePerConsumer", FieldType::Integer, "-1"},
      {"ratePeriodInSecond", FieldType::Integer, "30"}};
  return read_fields(body, kFields, target.policy);
}

Result<json::value> read_publish_rate(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"publishThrottlingRateInMsg", FieldType::Integer, "-1"},
                                      {"publishThrottlingRateInByte", FieldType::Integer, "-1"}};
  return read_fields(body, kFields, target.policy);
}

Result<json::value> read_backlog_quota(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"limit", FieldType::Integer, "0"},
                                      {"limitSize", FieldType::Integer, "0"},
                                      {"limitTime", FieldType::Integer, "0"},
                                      {"policy", FieldType::Text, nullptr}};
  static constexpr std::array<std::string_view, 3> kPolicies = {
      "producer_request_hold", "producer_exception", "consumer_backlog_eviction"};
  GM_ASSIGN_OR_RETURN(json::object object, read_object(body, kFields, target.policy));
  const json::value* policy = object.if_contains("policy");
  const bool known =
      policy != nullptr && std::find(kPolicies.begin(), kPolicies.end(),
                                     std::string_view(policy->as_string())) != kPolicies.end();
  if (!known) {
    return Status::InvalidArgument(
        fmt::format("Set namespace[{}] backlog quota failed because the data validation failed. "
                    "the attribute policy "
                    "cannot be null",
                    target.name_space));
  }
  // `limit` is the old name of `limitSize`; both are kept, equal.
  if (object["limitSize"].as_int64() == 0) object["limitSize"] = object["limit"];
  object["limit"] = object["limitSize"];
  return json::value(std::move(object));
}

Result<json::value> read_auto_topic_creation(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"allowAutoTopicCreation", FieldType::Boolean, "false"},
                                      {"topicType", FieldType::Text, nullptr},
                                      {"defaultNumPartitions", FieldType::Integer, nullptr}};
  GM_ASSIGN_OR_RETURN(json::object object, read_object(body, kFields, target.policy));
  if (!object["allowAutoTopicCreation"].as_bool()) return json::value(std::move(object));
  const auto refused = [](std::string_view detail) {
    return Status::PreconditionFailed(fmt::format(
        "Invalid configuration for autoTopicCreationOverride. the detail is {}", detail));
  };
  const json::value* type = object.if_contains("topicType");
  const json::value* partitions = object.if_contains("defaultNumPartitions");
  const std::string name = type == nullptr ? std::string("null") : std::string(type->as_string());
  if (name != "partitioned" && name != "non-partitioned") {
    return refused(fmt::format("Unknown topic type [{}]", name));
  }
  if (name == "partitioned") {
    if (partitions == nullptr)
      return refused("[defaultNumPartitions] cannot be null when the type is partitioned.");
    if (partitions->as_int64() <= 0) {
      return refused("[defaultNumPartitions] cannot be less than 1 for partition type.");
    }
  } else if (partitions != nullptr) {
    return refused(
        "[defaultNumPartitions] is not allowed to be set when the type is non-partition.");
  }
  return json::value(std::move(object));
}

Result<json::value> read_auto_subscription_creation(const json::value& body,
                                                    const PolicyTarget& target) {
  static constexpr Field kFields[] = {
      {"allowAutoSubscriptionCreation", FieldType::Boolean, "false"}};
  return read_fields(body, kFields, target.policy);
}

Result<json::value> read_inactive_topics(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"inactiveTopicDeleteMode", FieldType::Text, nullptr},
                                      {"maxInactiveDurationSeconds", FieldType::Integer, "0"},
                                      {"deleteWhileInactive", FieldType::Boolean, "false"}};
  return read_fields(body, kFields, target.policy);
}

Result<json::value> read_delayed_delivery(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"tickTime", FieldType::Integer, "0"},
                                      {"active", FieldType::Boolean, "false"},
                                      {"maxDeliveryDelayInMillis", FieldType::Integer, "0"}};
  return read_fields(body, kFields, target.policy);
}

Result<json::value> read_subscription_types(const json::value& body, const PolicyTarget& target) {
  static constexpr std::array<std::string_view, 4> kTypes = {"Exclusive", "Shared", "Failover",
                                                             "Key_Shared"};
  if (!body.is_array()) return wrong_type("list", target.policy);
  for (const json::value& item : body.get_array()) {
    GM_ASSIGN_OR_RETURN(const json::value type, one_of(item, kTypes, target));
  }
  return body;
}

Result<json::value> read_schema_strategy(const json::value& body, const PolicyTarget& target) {
  static constexpr std::array<std::string_view, 9> kStrategies = {
      "UNDEFINED", "ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE",  "BACKWARD",       "FORWARD",
      "FULL",      "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE"};
  return one_of(body, kStrategies, target);
}

Result<json::value> read_schema_auto_update(const json::value& body, const PolicyTarget& target) {
  static constexpr std::array<std::string_view, 8> kStrategies = {
      "AutoUpdateDisabled", "Backward",           "Forward",           "Full",
      "AlwaysCompatible",   "BackwardTransitive", "ForwardTransitive", "FullTransitive"};
  return one_of(body, kStrategies, target);
}

Result<json::value> read_entry_filters(const json::value& body, const PolicyTarget& target) {
  static constexpr Field kFields[] = {{"entryFilterNames", FieldType::Text, nullptr}};
  GM_ASSIGN_OR_RETURN(const json::object object, read_object(body, kFields, target.policy));
  const json::value* names = object.if_contains("entryFilterNames");
  if (names == nullptr || names->as_string().empty()) {
    return Status::InvalidArgument(
        "entryFilterNames can't be null. Please use remove-entry-filters to remove all.");
  }
  // Entry filters are Java classes: there is none here to be found.
  const std::string_view list(names->as_string());
  return Status::InvalidArgument(
      fmt::format("Entry filter '{}' not found", list.substr(0, list.find(','))));
}

json::object default_offload_policies() {
  json::object out;
  out["offloadersDirectory"] = "./offloaders";
  out["managedLedgerOffloadMaxThreads"] = 2;
  out["managedLedgerOffloadPrefetchRounds"] = 1;
  out["managedLedgerOffloadThresholdInSeconds"] = -1;
  out["managedLedgerOffloadThresholdInBytes"] = -1;
  out["managedLedgerExtraConfigurations"] = json::object();
  out["s3ManagedLedgerOffloadMaxBlockSizeInBytes"] = 67108864;
  out["s3ManagedLedgerOffloadReadBufferSizeInBytes"] = 1048576;
  out["s3ManagedLedgerOffloadRoleSessionName"] = "pulsar-s3-offload";
  out["gcsManagedLedgerOffloadMaxBlockSizeInBytes"] = 134217728;
  out["gcsManagedLedgerOffloadReadBufferSizeInBytes"] = 1048576;
  out["s3Driver"] = false;
  out["gcsDriver"] = false;
  out["fileSystemDriver"] = false;
  return out;
}

Result<json::value> read_offload(const json::value& body, const PolicyTarget& target) {
  if (!body.is_object()) return wrong_type("object", target.policy);
  json::object out = default_offload_policies();
  out.erase("managedLedgerOffloadThresholdInSeconds");
  out.erase("managedLedgerOffloadThresholdInBytes");
  for (const auto& member : body.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const bool ours = name.find("anagedLedger") != std::string_view::npos ||
                      name == "offloadersDirectory" || name.starts_with("fileSystem");
    // A later client sends what this protocol version does not know.
    if (!ours || name == "managedLedgerOffloadReadThreads" || member.value().is_null()) continue;
    out[member.key()] = member.value();
  }
  const json::value* driver = out.if_contains("managedLedgerOffloadDriver");
  const std::string name =
      driver != nullptr && driver->is_string() ? std::string(driver->get_string()) : "";
  out["s3Driver"] = name == "aws-s3" || name == "S3" || name == "s3";
  out["gcsDriver"] = name == "google-cloud-storage";
  out["fileSystemDriver"] = name == "filesystem";
  return json::value(std::move(out));
}

Status check_quota_against_retention(const json::value& quota, const json::value& retention) {
  const std::int64_t minutes = number_in(retention, "retentionTimeInMinutes");
  const std::int64_t megabytes = number_in(retention, "retentionSizeInMB");
  const bool size_fits = megabytes <= 0 || number_in(quota, "limitSize") < megabytes * 1024 * 1024;
  const bool time_fits = minutes <= 0 || number_in(quota, "limitTime") < minutes * 60;
  if (size_fits && time_fits) return Status::ok();
  return Status::PreconditionFailed(
      "Retention Quota must exceed configured backlog quota for namespace.");
}

}  // namespace geminga
