// The policies of a namespace, one by one: a table of names, stored fields and readers. Which of
// them act is decided where they act; here they are stored and shown.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/config.h"
#include "server/admin/admin.h"
#include "server/admin/namespace_change.h"
#include "server/admin/policy_values.h"

namespace geminga {

namespace json = boost::json;

namespace {

// What a GET answers while the policy is not set.
enum class Unset { Empty200, Empty204, Value };

struct NamespacePolicy {
  const char* name;   // in the path
  const char* field;  // in the stored document
  PolicyReader read;
  HttpMethod write = HttpMethod::Post;
  Unset unset = Unset::Empty200;
  const char* unset_value = nullptr;  // JSON, for Unset::Value
  bool by_cluster = false;            // stored as a map cluster -> value
  bool may_delete = true;
  const char* twin = nullptr;  // a second field with the same value (an old name)
  EmptyBody empty_body = EmptyBody::Refused;
};

constexpr auto kPut = HttpMethod::Put;
constexpr NamespacePolicy kPolicies[] = {
    {.name = "retention",
     .field = "retention_policies",
     .read = read_retention,
     .empty_body = EmptyBody::Allowed},
    {.name = "messageTTL", .field = "message_ttl_in_seconds", .read = read_ttl},
    {.name = "persistence", .field = "persistence", .read = read_persistence},
    {.name = "dispatchRate",
     .field = "topicDispatchRate",
     .read = read_dispatch_rate,
     .by_cluster = true,
     .twin = "clusterDispatchRate"},
    {.name = "subscriptionDispatchRate",
     .field = "subscriptionDispatchRate",
     .read = read_dispatch_rate,
     .by_cluster = true},
    {.name = "replicatorDispatchRate",
     .field = "replicatorDispatchRate",
     .read = read_dispatch_rate,
     .by_cluster = true},
    {.name = "publishRate",
     .field = "publishMaxMessageRate",
     .read = read_publish_rate,
     .by_cluster = true},
    {.name = "subscribeRate",
     .field = "clusterSubscribeRate",
     .read = read_subscribe_rate,
     .by_cluster = true},
    {.name = "deduplication", .field = "deduplicationEnabled", .read = read_boolean},
    {.name = "deduplicationSnapshotInterval",
     .field = "deduplicationSnapshotIntervalSeconds",
     .read = read_interval,
     .may_delete = false,
     .empty_body = EmptyBody::Allowed},
    {.name = "schemaCompatibilityStrategy",
     .field = "schema_compatibility_strategy",
     .read = read_schema_strategy,
     .write = kPut,
     .unset = Unset::Value,
     .unset_value = "\"UNDEFINED\"",
     .may_delete = false},
    {.name = "schemaAutoUpdateCompatibilityStrategy",
     .field = "schema_auto_update_compatibility_strategy",
     .read = read_schema_auto_update,
     .write = kPut,
     .unset = Unset::Empty204,
     .may_delete = false},
    {.name = "schemaValidationEnforced",
     .field = "schema_validation_enforced",
     .read = read_boolean,
     .unset = Unset::Value,
     .unset_value = "false",
     .may_delete = false},
    {.name = "isAllowAutoUpdateSchema",
     .field = "is_allow_auto_update_schema",
     .read = read_boolean,
     .unset = Unset::Value,
     .unset_value = "true",
     .may_delete = false},
    {.name = "autoTopicCreation",
     .field = "autoTopicCreationOverride",
     .read = read_auto_topic_creation},
    {.name = "autoSubscriptionCreation",
     .field = "autoSubscriptionCreationOverride",
     .read = read_auto_subscription_creation},
    {.name = "maxProducersPerTopic", .field = "max_producers_per_topic", .read = read_limit},
    {.name = "maxConsumersPerTopic", .field = "max_consumers_per_topic", .read = read_limit},
    {.name = "maxConsumersPerSubscription",
     .field = "max_consumers_per_subscription",
     .read = read_limit},
    {.name = "maxUnackedMessagesPerConsumer",
     .field = "max_unacked_messages_per_consumer",
     .read = read_limit},
    {.name = "maxUnackedMessagesPerSubscription",
     .field = "max_unacked_messages_per_subscription",
     .read = read_limit},
    {.name = "maxSubscriptionsPerTopic",
     .field = "max_subscriptions_per_topic",
     .read = read_limit},
    {.name = "maxTopicsPerNamespace",
     .field = "max_topics_per_namespace",
     .read = read_limit,
     .unset = Unset::Value,
     .unset_value = "0"},
    {.name = "inactiveTopicPolicies",
     .field = "inactive_topic_policies",
     .read = read_inactive_topics},
    {.name = "delayedDelivery",
     .field = "delayed_delivery_policies",
     .read = read_delayed_delivery},
    {.name = "compactionThreshold",
     .field = "compaction_threshold",
     .read = read_limit,
     .write = kPut},
    {.name = "subscriptionExpirationTime",
     .field = "subscription_expiration_time_minutes",
     .read = read_expiration},
    {.name = "subscriptionTypesEnabled",
     .field = "subscription_types_enabled",
     .read = read_subscription_types,
     .unset = Unset::Value,
     .unset_value = "[]"},
    {.name = "subscriptionAuthMode",
     .field = "subscription_auth_mode",
     .read = read_text,
     .unset = Unset::Value,
     .unset_value = "\"None\"",
     .may_delete = false},
    {.name = "encryptionRequired",
     .field = "encryption_required",
     .read = read_boolean,
     .unset = Unset::Value,
     .unset_value = "false",
     .may_delete = false},
    {.name = "entryFilters", .field = "entryFilters", .read = read_entry_filters},
    {.name = "offloadPolicies",
     .field = "offload_policies",
     .read = read_offload,
     .may_delete = false},
};

Answer get_policy(Admin& admin, HttpRequest& request, const NamespacePolicy& policy) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* value = member(*policies, policy.field);
  if (value != nullptr && policy.by_cluster) {
    value = value->is_object() ? member(value->get_object(), admin.cluster()) : nullptr;
  }
  if (value != nullptr) co_return json_answer(*value);
  switch (policy.unset) {
    case Unset::Empty200: co_return ok_empty();
    case Unset::Empty204: co_return no_content();
    case Unset::Value: break;
  }
  co_return json_text(policy.unset_value);
}

// Backlog quotas and retention must leave room for each other.
Status check_together(const json::object& policies, const NamespacePolicy& policy,
                      const json::value& value) {
  if (std::string_view(policy.name) != "retention") return Status::ok();
  const json::value* quotas = member(policies, "backlog_quota_map");
  if (quotas == nullptr || !quotas->is_object()) return Status::ok();
  for (const auto& quota : quotas->get_object()) {
    GM_RETURN_IF_ERROR(check_quota_against_retention(quota.value(), value));
  }
  return Status::ok();
}

void clear(json::object& policies, const NamespacePolicy& policy, const std::string& cluster) {
  if (policy.by_cluster) {
    object_in(policies, policy.field).erase(cluster);
    if (policy.twin != nullptr) object_in(policies, policy.twin).erase(cluster);
  } else if (policy.unset == Unset::Value) {
    json::value value;
    if (std::string_view(policy.unset_value) == "[]") value = json::array();
    if (value.is_null()) {
      policies.erase(policy.field);
    } else {
      policies[policy.field] = std::move(value);
    }
  } else {
    policies.erase(policy.field);
  }
}

Answer set_policy(Admin& admin, HttpRequest& request, const NamespacePolicy& policy) {
  JsonBody body = json_body(request, policy.empty_body);
  if (body.refusal) co_return std::move(*body.refusal);
  const std::string cluster = admin.cluster();
  if (body.value.is_null()) {
    DocumentChange unset = [&policy, &cluster](json::object& policies) {
      clear(policies, policy, cluster);
      return Status::ok();
    };
    co_return co_await change_namespace(admin, request, unset);
  }
  PolicyTarget target;
  target.policy = policy.name;
  target.name_space = request.param("tenant") + '/' + request.param("namespace");
  auto value = policy.read(body.value, target);
  if (!value) co_return refusal_of(value.status());
  const json::value stored = std::move(*value);
  DocumentChange set = [&policy, &cluster, &stored](json::object& policies) -> Status {
    GM_RETURN_IF_ERROR(check_together(policies, policy, stored));
    if (policy.by_cluster) {
      object_in(policies, policy.field)[cluster] = stored;
      if (policy.twin != nullptr) object_in(policies, policy.twin)[cluster] = stored;
    } else {
      policies[policy.field] = stored;
    }
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, set);
}

Answer remove_policy(Admin& admin, HttpRequest& request, const NamespacePolicy& policy) {
  const std::string cluster = admin.cluster();
  DocumentChange unset = [&policy, &cluster](json::object& policies) {
    clear(policies, policy, cluster);
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, unset);
}

// --- policies with calls of their own
// ---------------------------------------------------------------------------

Answer get_quotas(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* quotas = member(*policies, "backlog_quota_map");
  co_return json_answer(quotas != nullptr ? *quotas : json::value(json::object()));
}

std::optional<std::string> quota_type(const HttpRequest& request) {
  std::string type(request.query_value("backlogQuotaType").value_or("destination_storage"));
  if (type != "destination_storage" && type != "message_age") return std::nullopt;
  return type;
}

Answer set_quota(Admin& admin, HttpRequest& request) {
  const auto type = quota_type(request);
  if (!type) co_return server_page(request, 404);
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  PolicyTarget target;
  target.policy = "backlogQuota";
  target.name_space = request.param("tenant") + '/' + request.param("namespace");
  auto value = read_backlog_quota(body.value, target);
  if (!value) co_return refusal_of(value.status());
  const json::value quota = std::move(*value);
  DocumentChange set = [&type, &quota](json::object& policies) -> Status {
    if (const json::value* retention = member(policies, "retention_policies")) {
      GM_RETURN_IF_ERROR(check_quota_against_retention(quota, *retention));
    }
    object_in(policies, "backlog_quota_map")[*type] = quota;
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, set);
}

Answer remove_quota(Admin& admin, HttpRequest& request) {
  const auto type = quota_type(request);
  if (!type) co_return server_page(request, 404);
  DocumentChange unset = [&type](json::object& policies) {
    object_in(policies, "backlog_quota_map").erase(*type);
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, unset);
}

// What is set by calls of its own and stored in the offload policies.
Answer get_threshold(Admin& admin, HttpRequest& request, const char* field, bool lag = false) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* offload = member(*policies, "offload_policies");
  const json::value* value =
      offload != nullptr && offload->is_object() ? member(offload->get_object(), field) : nullptr;
  if (value == nullptr && lag) co_return ok_empty();
  co_return json_answer(value != nullptr ? *value : json::value(-1));
}

Answer set_threshold(Admin& admin, HttpRequest& request, const char* field, unsigned ok) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_int64()) co_return refusal_of(Status::Protocol("a threshold is a number"));
  const json::value threshold = body.value;
  DocumentChange set = [field, &threshold](json::object& policies) {
    if (member(policies, "offload_policies") == nullptr)
      policies["offload_policies"] = default_offload_policies();
    object_in(policies, "offload_policies")[field] = threshold;
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, set, ok);
}

Answer get_threshold_bytes(Admin& admin, HttpRequest& request) {
  return get_threshold(admin, request, "managedLedgerOffloadThresholdInBytes");
}
Answer set_threshold_bytes(Admin& admin, HttpRequest& request) {
  return set_threshold(admin, request, "managedLedgerOffloadThresholdInBytes", 204);
}
Answer get_threshold_seconds(Admin& admin, HttpRequest& request) {
  return get_threshold(admin, request, "managedLedgerOffloadThresholdInSeconds");
}
Answer set_threshold_seconds(Admin& admin, HttpRequest& request) {
  return set_threshold(admin, request, "managedLedgerOffloadThresholdInSeconds", 200);
}

constexpr const char* kDeletionLag = "managedLedgerOffloadDeletionLagInMillis";
Answer get_lag(Admin& admin, HttpRequest& request) {
  return get_threshold(admin, request, kDeletionLag, true);
}
Answer set_lag(Admin& admin, HttpRequest& request) {
  return set_threshold(admin, request, kDeletionLag, 204);
}
Answer remove_lag(Admin& admin, HttpRequest& request) {
  DocumentChange unset = [](json::object& policies) {
    if (member(policies, "offload_policies") != nullptr)
      object_in(policies, "offload_policies").erase(kDeletionLag);
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, unset);
}

Answer remove_offload(Admin& admin, HttpRequest& request) {
  DocumentChange unset = [](json::object& policies) {
    policies.erase("offload_policies");
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, unset);
}

Answer get_pause(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  co_return json_text(member(*policies, "dispatcherPauseOnAckStatePersistentEnabled") != nullptr
                          ? "true"
                          : "false");
}
Answer set_pause(Admin& admin, HttpRequest& request) {
  DocumentChange set = [](json::object& policies) {
    policies["dispatcherPauseOnAckStatePersistentEnabled"] = true;
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, set);
}
Answer remove_pause(Admin& admin, HttpRequest& request) {
  DocumentChange unset = [](json::object& policies) {
    policies.erase("dispatcherPauseOnAckStatePersistentEnabled");
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, unset);
}

// Changes the policies in which the property "isolation" will have the value `group`.
Answer change_isolation(Admin& admin, HttpRequest& request, std::string group,
                        const DocumentChange& change) {
  const auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  Isolation& isolation = admin.broker.isolation();
  const Status may = co_await isolation.prepare(ns->full(), std::move(group));
  if (!may) co_return refusal_of(may);
  auto answer = co_await change_namespace(admin, request, change);
  co_await isolation.settle(ns->full());
  co_return answer;
}

Answer get_properties(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* properties = member(*policies, "properties");
  co_return json_answer(properties != nullptr ? *properties : json::value(json::object()));
}

Answer set_properties(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_object())
    co_return refusal_of(Status::Protocol("properties are an object of texts"));
  const json::object added = body.value.get_object();
  DocumentChange set = [&added](json::object& policies) {
    json::object& properties = object_in(policies, "properties");
    for (const auto& entry : added) properties[entry.key()] = entry.value();
    return Status::ok();
  };
  if (const json::value* group = added.if_contains(Isolation::kProperty)) {
    if (!group->is_string())
      co_return refusal_of(Status::Protocol("the property isolation is the name of a group"));
    std::string name(group->get_string());
    co_return co_await change_isolation(admin, request, std::move(name), set);
  }
  co_return co_await change_namespace(admin, request, set);
}

Answer clear_properties(Admin& admin, HttpRequest& request) {
  DocumentChange unset = [](json::object& policies) {
    policies["properties"] = json::object();
    return Status::ok();
  };
  co_return co_await change_isolation(admin, request, {}, unset);
}

Answer get_property(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* value = member(object_in(*policies, "properties"), request.param("key"));
  if (value == nullptr) co_return ok_empty();
  // Bare text under the name of JSON, as the original answers.
  co_return json_text(value->is_string() ? std::string(value->get_string()) : std::string());
}

Answer set_property(Admin& admin, HttpRequest& request) {
  const std::string key = request.param("key");
  const std::string value = request.param("value");
  DocumentChange set = [&key, &value](json::object& policies) {
    object_in(policies, "properties")[key] = value;
    return Status::ok();
  };
  if (key == Isolation::kProperty) co_return co_await change_isolation(admin, request, value, set);
  co_return co_await change_namespace(admin, request, set);
}

Answer remove_property(Admin& admin, HttpRequest& request) {
  const std::string key = request.param("key");
  std::string removed;
  DocumentChange unset = [&key, &removed](json::object& policies) {
    json::object& properties = object_in(policies, "properties");
    const json::value* value = member(properties, key);
    removed =
        value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
    properties.erase(key);
    return Status::ok();
  };
  Result<HttpResponse> answer;
  if (key == Isolation::kProperty) {
    answer = co_await change_isolation(admin, request, {}, unset);
  } else {
    answer = co_await change_namespace(admin, request, unset);
  }
  if (!answer || answer->status != 204) co_return answer;
  if (removed.empty()) co_return ok_empty();
  co_return json_text(removed);
}

#define GM_NS "/admin/v2/namespaces/{tenant}/{namespace}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_NS "/backlogQuotaMap", "Backlog quotas by type", get_quotas},
    {HttpMethod::Post, GM_NS "/backlogQuota", "Set a backlog quota", set_quota},
    {HttpMethod::Delete, GM_NS "/backlogQuota", "Remove a backlog quota", remove_quota},
    {HttpMethod::Get, GM_NS "/offloadThreshold", "Bytes above which ledgers are offloaded",
     get_threshold_bytes},
    {HttpMethod::Put, GM_NS "/offloadThreshold", "Set the bytes above which ledgers are offloaded",
     set_threshold_bytes},
    {HttpMethod::Get, GM_NS "/offloadThresholdInSeconds", "Age above which ledgers are offloaded",
     get_threshold_seconds},
    {HttpMethod::Put, GM_NS "/offloadThresholdInSeconds",
     "Set the age above which ledgers are offloaded", set_threshold_seconds},
    {HttpMethod::Get, GM_NS "/offloadDeletionLagMs", "How long offloaded ledgers are kept",
     get_lag},
    {HttpMethod::Put, GM_NS "/offloadDeletionLagMs", "Set how long offloaded ledgers are kept",
     set_lag},
    {HttpMethod::Delete, GM_NS "/offloadDeletionLagMs",
     "Remove how long offloaded ledgers are kept", remove_lag},
    {HttpMethod::Delete, GM_NS "/removeOffloadPolicies", "Remove the offload policies",
     remove_offload},
    {HttpMethod::Get, GM_NS "/dispatcherPauseOnAckStatePersistent",
     "Whether dispatch waits for stored acks", get_pause},
    {HttpMethod::Post, GM_NS "/dispatcherPauseOnAckStatePersistent",
     "Let dispatch wait for stored acks", set_pause},
    {HttpMethod::Delete, GM_NS "/dispatcherPauseOnAckStatePersistent",
     "Let dispatch not wait for stored acks", remove_pause},
    {HttpMethod::Get, GM_NS "/properties", "Properties of the namespace", get_properties},
    {HttpMethod::Put, GM_NS "/properties", "Set properties of the namespace", set_properties},
    {HttpMethod::Delete, GM_NS "/properties", "Remove all properties of the namespace",
     clear_properties},
    {HttpMethod::Get, GM_NS "/property/{key}", "A property of the namespace", get_property},
    {HttpMethod::Put, GM_NS "/property/{key}/{value}", "Set a property of the namespace",
     set_property},
    {HttpMethod::Delete, GM_NS "/property/{key}", "Remove a property of the namespace",
     remove_property},
};

}  // namespace

void add_namespace_policy_routes(HttpRouter& router, Admin& admin) {
  const auto add = [&](const NamespacePolicy& policy, const std::string& pattern) {
    router.get(
        pattern, fmt::format("The namespace's {}", policy.name),
        [&admin, &policy](HttpRequest& request) { return get_policy(admin, request, policy); });
    router.add(
        {policy.write, pattern, fmt::format("Set the namespace's {}", policy.name),
         [&admin, &policy](HttpRequest& request) { return set_policy(admin, request, policy); }});
    if (policy.may_delete) {
      router.del(pattern, fmt::format("Remove the namespace's {}", policy.name),
                 [&admin, &policy](HttpRequest& request) {
                   return remove_policy(admin, request, policy);
                 });
    }
  };
  for (const NamespacePolicy& policy : kPolicies) {
    add(policy, std::string(GM_NS "/") + policy.name);
    add(policy, std::string("/admin/namespaces/{tenant}/{cluster}/{namespace}/") + policy.name);
  }
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
