#include "server/admin/namespace_document.h"

#include <boost/json/array.hpp>

#include "server/admin/bundles.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr std::int64_t kMaxBundles = 1 << 16;

enum class Kind { Map, List, Bool, Number, Text, Bundles, Auth };
struct Member {
  const char* name;
  Kind kind;
  const char* if_absent;  // "": an empty map or list; nullptr: left out
};

// The order is the one that Pulsar writes.
constexpr Member kMembers[] = {
    {"auth_policies", Kind::Auth, ""},
    {"replication_clusters", Kind::List, ""},
    {"allowed_clusters", Kind::List, ""},
    {"bundles", Kind::Bundles, ""},
    {"backlog_quota_map", Kind::Map, ""},
    {"clusterDispatchRate", Kind::Map, ""},
    {"topicDispatchRate", Kind::Map, ""},
    {"subscriptionDispatchRate", Kind::Map, ""},
    {"replicatorDispatchRate", Kind::Map, ""},
    {"clusterSubscribeRate", Kind::Map, ""},
    {"persistence", Kind::Map, nullptr},
    {"deduplicationEnabled", Kind::Bool, nullptr},
    {"autoTopicCreationOverride", Kind::Map, nullptr},
    {"autoSubscriptionCreationOverride", Kind::Map, nullptr},
    {"publishMaxMessageRate", Kind::Map, ""},
    {"latency_stats_sample_rate", Kind::Map, ""},
    {"message_ttl_in_seconds", Kind::Number, nullptr},
    {"subscription_expiration_time_minutes", Kind::Number, nullptr},
    {"retention_policies", Kind::Map, nullptr},
    {"deleted", Kind::Bool, "false"},
    {"encryption_required", Kind::Bool, "false"},
    {"delayed_delivery_policies", Kind::Map, nullptr},
    {"inactive_topic_policies", Kind::Map, nullptr},
    {"subscription_auth_mode", Kind::Text, "None"},
    {"max_producers_per_topic", Kind::Number, nullptr},
    {"max_consumers_per_topic", Kind::Number, nullptr},
    {"max_consumers_per_subscription", Kind::Number, nullptr},
    {"max_unacked_messages_per_consumer", Kind::Number, nullptr},
    {"max_unacked_messages_per_subscription", Kind::Number, nullptr},
    {"max_subscriptions_per_topic", Kind::Number, nullptr},
    {"compaction_threshold", Kind::Number, nullptr},
    {"offload_threshold", Kind::Number, "-1"},
    {"offload_threshold_in_seconds", Kind::Number, "-1"},
    {"offload_deletion_lag_ms", Kind::Number, nullptr},
    {"max_topics_per_namespace", Kind::Number, nullptr},
    {"schema_auto_update_compatibility_strategy", Kind::Text, nullptr},
    {"schema_compatibility_strategy", Kind::Text, "UNDEFINED"},
    {"is_allow_auto_update_schema", Kind::Bool, "true"},
    {"schema_validation_enforced", Kind::Bool, "false"},
    {"offload_policies", Kind::Map, nullptr},
    {"deduplicationSnapshotIntervalSeconds", Kind::Number, nullptr},
    {"subscription_types_enabled", Kind::List, ""},
    {"properties", Kind::Map, ""},
    {"resource_group_name", Kind::Text, nullptr},
    {"migrated", Kind::Bool, "false"},
    {"dispatcherPauseOnAckStatePersistentEnabled", Kind::Bool, nullptr},
    {"entryFilters", Kind::Map, nullptr},
};

bool fits(const json::value& value, Kind kind) {
  switch (kind) {
    case Kind::Map:
    case Kind::Auth:
    case Kind::Bundles: return value.is_object();
    case Kind::List: return value.is_array();
    case Kind::Bool: return value.is_bool();
    case Kind::Number: return value.is_int64();
    case Kind::Text: return value.is_string();
  }
  return false;
}

json::value absent(const Member& member) {
  const std::string_view text = member.if_absent;
  switch (member.kind) {
    case Kind::List: return json::array();
    case Kind::Bool: return text == "true";
    case Kind::Number: return std::int64_t{std::stoll(member.if_absent)};
    case Kind::Text: return json::string(text);
    default: return json::object();
  }
}

// {numBundles: n} with or without boundaries.
Result<json::object> bundles(const json::value& given, std::int64_t default_count) {
  std::int64_t count = 0;
  if (given.is_object()) {
    const json::value* number = given.get_object().if_contains("numBundles");
    if (number != nullptr && number->is_int64()) count = number->get_int64();
    const json::value* list = given.get_object().if_contains("boundaries");
    if (list != nullptr && list->is_array() && list->get_array().size() >= 2) {
      std::int64_t last = -1;
      for (const json::value& bound : list->get_array()) {
        const auto parsed = bound.is_string()
                                ? parse_bundle("0x00000000_" + std::string(bound.get_string()))
                                : std::nullopt;
        const bool first = last < 0;
        const bool zero = bound.is_string() && bound.get_string() == "0x00000000";
        if ((first && !zero) || (!first && (!parsed || parsed->second <= last))) {
          return Status::InvalidArgument(
              "Invalid bundles: boundaries must start at 0x00000000 and grow");
        }
        last = first ? 0 : parsed->second;
      }
      if (last != 0xffffffff)
        return Status::InvalidArgument("Invalid bundles: the last boundary is 0xffffffff");
      json::object out;
      out["boundaries"] = *list;
      out["numBundles"] = static_cast<std::int64_t>(list->get_array().size() - 1);
      return out;
    }
  }
  if (count > kMaxBundles) {
    return Status::InvalidArgument(
        "Invalid number of bundles. Number of bundles has to be in the range of (0, 65536].");
  }
  return even_bundles(count > 0 ? count : default_count);
}

}  // namespace

Result<json::object> new_namespace_document(const json::value& body, const std::string& cluster,
                                            std::int64_t default_bundles) {
  static const json::object kNothing;
  if (!body.is_null() && !body.is_object()) return Status::Protocol("Policies is an object");
  const json::object& given = body.is_object() ? body.get_object() : kNothing;
  json::object out;
  for (const Member& member : kMembers) {
    const json::value* value = given.if_contains(member.name);
    if (value != nullptr && value->is_null()) value = nullptr;
    if (value != nullptr && !fits(*value, member.kind)) {
      return Status::Protocol(std::string("Cannot deserialize value for ") + member.name);
    }
    if (member.kind == Kind::Bundles) {
      GM_ASSIGN_OR_RETURN(out[member.name],
                          bundles(value != nullptr ? *value : json::value(), default_bundles));
    } else if (value != nullptr) {
      out[member.name] = *value;
    } else if (member.if_absent != nullptr) {
      out[member.name] = absent(member);
    }
  }
  json::object& auth = out["auth_policies"].get_object();
  for (const char* part : {"namespace_auth", "destination_auth", "subscription_auth_roles"}) {
    if (!auth.contains(part)) auth[part] = json::object();
  }
  json::array& clusters = out["replication_clusters"].get_array();
  for (const json::value& name : clusters) {
    if (!name.is_string()) return Status::Protocol("replication_clusters is a list of names");
  }
  if (clusters.empty()) clusters.push_back(json::string(cluster));
  out["deleted"] = false;
  return out;
}

std::string topic_policies_root(const NamespaceName& ns) {
  return "/admin/topic-policies/" + ns.full();
}

std::string topic_policies_path(const TopicName& name) {
  const TopicName base = name.base();
  return topic_policies_root(base.namespace_name()) + '/' + std::string(to_string(base.domain())) +
         '/' + base.encoded_local();
}

}  // namespace geminga
