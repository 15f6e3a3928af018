// Policies of single topics: one node a topic (its partitions share it) with a part for this
// cluster ("local") and one for all ("global"), by policy name. `applied=true` shows what is in
// force: the topic's, else the namespace's, else the broker's.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/config.h"
#include "server/admin/admin.h"
#include "server/admin/documents.h"
#include "server/admin/namespace_document.h"
#include "server/admin/policy_defaults.h"
#include "server/admin/policy_values.h"
#include "server/json_text.h"

namespace geminga {

namespace json = boost::json;

namespace {

enum class Unset { Empty200, Empty204 };

struct TopicPolicy {
  const char* name;  // in the path and in the node
  PolicyReader read;
  const char* of_namespace = nullptr;  // the field of the namespace's policies
  BrokerDefault of_broker =
      nullptr;  // null: `applied` is not resolved, the topic's own value is shown
  HttpMethod write = HttpMethod::Post;
  Unset unset = Unset::Empty200;
  bool by_cluster = false;            // in the namespace's field
  const char* unset_value = nullptr;  // JSON shown without `applied`
};

constexpr TopicPolicy kPolicies[] = {
    {.name = "retention",
     .read = read_retention,
     .of_namespace = "retention_policies",
     .of_broker = default_retention},
    {.name = "maxProducers",
     .read = read_limit,
     .of_namespace = "max_producers_per_topic",
     .of_broker = default_max_producers},
    {.name = "maxConsumers",
     .read = read_limit,
     .of_namespace = "max_consumers_per_topic",
     .of_broker = default_max_consumers},
    {.name = "maxUnackedMessagesOnConsumer",
     .read = read_limit,
     .of_namespace = "max_unacked_messages_per_consumer",
     .of_broker = default_unacked_consumer},
    {.name = "maxUnackedMessagesOnSubscription",
     .read = read_limit,
     .of_namespace = "max_unacked_messages_per_subscription",
     .of_broker = default_unacked_subscription},
    {.name = "maxConsumersPerSubscription", .read = read_limit, .unset = Unset::Empty204},
    {.name = "maxSubscriptionsPerTopic", .read = read_limit, .unset = Unset::Empty204},
    {.name = "dispatchRate",
     .read = read_dispatch_rate,
     .of_namespace = "topicDispatchRate",
     .of_broker = default_dispatch_rate,
     .by_cluster = true},
    {.name = "subscriptionDispatchRate",
     .read = read_dispatch_rate,
     .of_namespace = "subscriptionDispatchRate",
     .of_broker = default_subscription_rate,
     .by_cluster = true},
    {.name = "replicatorDispatchRate",
     .read = read_dispatch_rate,
     .of_namespace = "replicatorDispatchRate",
     .of_broker = no_rate,
     .by_cluster = true},
    {.name = "subscribeRate",
     .read = read_subscribe_rate,
     .of_namespace = "clusterSubscribeRate",
     .of_broker = default_subscribe_rate,
     .by_cluster = true},
    {.name = "publishRate", .read = read_publish_rate, .unset = Unset::Empty204},
    {.name = "compactionThreshold",
     .read = read_limit,
     .of_namespace = "compaction_threshold",
     .of_broker = default_compaction_threshold},
    {.name = "delayedDelivery",
     .read = read_delayed_delivery,
     .of_namespace = "delayed_delivery_policies",
     .of_broker = default_delayed},
    {.name = "inactiveTopicPolicies",
     .read = read_inactive_topics,
     .of_namespace = "inactive_topic_policies",
     .of_broker = default_inactive},
    {.name = "offloadPolicies",
     .read = read_offload,
     .of_namespace = "offload_policies",
     .of_broker = nothing},
    {.name = "persistence",
     .read = read_persistence,
     .of_namespace = "persistence",
     .of_broker = default_persistence},
    {.name = "deduplicationEnabled",
     .read = read_boolean,
     .of_namespace = "deduplicationEnabled",
     .of_broker = default_deduplication},
    {.name = "deduplicationSnapshotInterval", .read = read_interval},
    {.name = "subscriptionTypesEnabled", .read = read_subscription_types, .unset = Unset::Empty204},
    {.name = "schemaCompatibilityStrategy",
     .read = read_schema_strategy,
     .of_namespace = "schema_compatibility_strategy",
     .of_broker = default_schema_strategy,
     .write = HttpMethod::Put},
    {.name = "schemaValidationEnforced",
     .read = read_boolean,
     .of_namespace = "schema_validation_enforced",
     .of_broker = default_schema_validation,
     .unset_value = "false"},
    {.name = "entryFilters",
     .read = read_entry_filters,
     .of_namespace = "entryFilters",
     .of_broker = default_filters},
    {.name = "autoSubscriptionCreation",
     .read = read_auto_subscription_creation,
     .of_namespace = "autoSubscriptionCreationOverride",
     .of_broker = default_auto_subscription},
};

const json::value* member(const json::value* object, std::string_view name) {
  const json::value* value =
      object != nullptr && object->is_object() ? object->get_object().if_contains(name) : nullptr;
  return value != nullptr && value->is_null() ? nullptr : value;
}

// The topic, which must exist, partitioned or not.
Task<Result<TopicName>> existing(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  const TopicName base = name->base();
  Status found = co_await require_namespace(admin, base.namespace_name());
  if (!found) co_return found;
  auto partitions = co_await admin.broker.partition_count(base);
  if (!partitions) co_return partitions.status();
  if (*partitions > 0) co_return base;
  auto exists = co_await admin.broker.topic_exists(*name);
  if (!exists) co_return exists.status();
  if (!*exists) co_return topic_not_found(*name);
  co_return base;
}

const char* part_of(const HttpRequest& request) {
  return request.query_flag("isGlobal", false) ? "global" : "local";
}

Task<Result<json::value>> own_value(Admin& admin, TopicName name, const char* part,
                                    std::string key) {
  auto node = co_await read_document(admin.metadata(), topic_policies_path(name));
  if (!node) co_return node.status();
  if (!node->has_value()) co_return json::value();
  const json::value whole(std::move(**node));
  const json::value* value = member(member(&whole, part), key);
  co_return value != nullptr ? *value : json::value();
}

// `value` null: remove.
Answer store(Admin& admin, HttpRequest& request, std::string key, json::value value) {
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  const char* part = part_of(request);
  DocumentChange change = [part, &key, &value](json::object& node) {
    json::value& policies = node[part];
    if (!policies.is_object()) policies = json::object();
    if (value.is_null()) {
      policies.get_object().erase(key);
    } else {
      policies.get_object()[key] = value;
    }
    return Status::ok();
  };
  Status changed =
      co_await change_document(admin.metadata(), topic_policies_path(*name), change, true);
  if (!changed) co_return changed;
  co_return no_content();
}

// What is in force without a policy of the topic.
Task<Result<json::value>> inherited(Admin& admin, TopicName name, const TopicPolicy& policy) {
  if (policy.of_namespace != nullptr) {
    auto policies = co_await read_document(admin.metadata(), policies_path(name.namespace_name()));
    if (!policies) co_return policies.status();
    if (policies->has_value()) {
      const json::value whole(std::move(**policies));
      const json::value* value = member(&whole, policy.of_namespace);
      if (policy.by_cluster) value = member(value, admin.cluster());
      const bool undefined =
          value != nullptr && value->is_string() && value->get_string() == "UNDEFINED";
      if (value != nullptr && !undefined) co_return *value;
    }
  }
  co_return policy.of_broker(admin);
}

Answer get_policy(Admin& admin, HttpRequest& request, const TopicPolicy& policy) {
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  auto value = co_await own_value(admin, *name, part_of(request), policy.name);
  if (!value) co_return value.status();
  if (value->is_null() && policy.of_broker != nullptr && request.query_flag("applied", false)) {
    value = co_await inherited(admin, *name, policy);
    if (!value) co_return value.status();
  }
  if (!value->is_null()) co_return json_answer(*value);
  if (policy.unset_value != nullptr) co_return json_text(policy.unset_value);
  if (std::string_view(policy.name) == "subscriptionTypesEnabled" &&
      !request.query_value("applied")) {
    co_return json_text("[]");
  }
  if (policy.unset == Unset::Empty204) co_return no_content();
  co_return ok_empty();
}

Answer set_policy(Admin& admin, HttpRequest& request, const TopicPolicy& policy) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  if (body.value.is_null()) co_return co_await store(admin, request, policy.name, json::value());
  PolicyTarget target;
  target.policy = policy.name;
  target.of_topic = true;
  target.name_space = request.param("tenant") + '/' + request.param("namespace");
  auto value = policy.read(body.value, target);
  if (!value) co_return refusal_of(value.status());
  co_return co_await store(admin, request, policy.name, std::move(*value));
}

Answer remove_policy(Admin& admin, HttpRequest& request, const TopicPolicy& policy) {
  return store(admin, request, policy.name, json::value());
}

// --- policies with calls of their own
// ---------------------------------------------------------------------------

constexpr TopicPolicy kTtl = {.name = "messageTTL",
                              .read = read_ttl,
                              .of_namespace = "message_ttl_in_seconds",
                              .of_broker = default_ttl};

Answer get_ttl(Admin& admin, HttpRequest& request) { return get_policy(admin, request, kTtl); }
// The value is a query parameter.
Answer set_ttl(Admin& admin, HttpRequest& request) {
  const auto seconds = request.query_number("messageTTL");
  if (!seconds || *seconds < 0)
    co_return Status::PreconditionFailed("Invalid value for message TTL");
  co_return co_await store(admin, request, kTtl.name, json::value(*seconds));
}
Answer remove_ttl(Admin& admin, HttpRequest& request) {
  return remove_policy(admin, request, kTtl);
}

json::object no_quota(const Admin& admin) {
  json::object out;
  out["limit"] = admin.live()->backlog_quota_default_limit_bytes;
  out["limitSize"] = admin.live()->backlog_quota_default_limit_bytes;
  out["limitTime"] = -1;
  out["policy"] = admin.live()->backlog_quota_default_retention_policy;
  return out;
}

Answer get_quotas(Admin& admin, HttpRequest& request) {
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  auto own = co_await own_value(admin, *name, part_of(request), "backlogQuotaMap");
  if (!own) co_return own.status();
  json::object quotas = own->is_object() ? own->get_object() : json::object();
  if (quotas.empty() && request.query_flag("applied", false)) {
    auto policies = co_await read_document(admin.metadata(), policies_path(name->namespace_name()));
    if (!policies) co_return policies.status();
    const json::value whole =
        policies->has_value() ? json::value(std::move(**policies)) : json::value();
    const json::value* of_namespace = member(&whole, "backlog_quota_map");
    if (of_namespace != nullptr && of_namespace->is_object()) quotas = of_namespace->get_object();
    if (quotas.empty()) {
      quotas["destination_storage"] = no_quota(admin);
      quotas["message_age"] = no_quota(admin);
    }
  }
  co_return json_answer(quotas);
}

Answer change_quota(Admin& admin, HttpRequest& request, json::value quota) {
  const std::string type(request.query_value("backlogQuotaType").value_or("destination_storage"));
  if (type != "destination_storage" && type != "message_age") co_return server_page(request, 404);
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  const char* part = part_of(request);
  DocumentChange change = [part, &type, &quota](json::object& node) -> Status {
    json::value& policies = node[part];
    if (!policies.is_object()) policies = json::object();
    json::value& quotas = policies.get_object()["backlogQuotaMap"];
    if (!quotas.is_object()) quotas = json::object();
    if (quota.is_null()) {
      quotas.get_object().erase(type);
      return Status::ok();
    }
    if (const json::value* retention = member(&policies, "retention")) {
      GM_RETURN_IF_ERROR(check_quota_against_retention(quota, *retention));
    }
    quotas.get_object()[type] = quota;
    return Status::ok();
  };
  Status changed =
      co_await change_document(admin.metadata(), topic_policies_path(*name), change, true);
  if (!changed) co_return changed;
  co_return no_content();
}

Answer set_quota(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  PolicyTarget target;
  target.policy = "backlogQuota";
  target.of_topic = true;
  target.name_space = request.param("tenant") + '/' + request.param("namespace");
  auto quota = read_backlog_quota(body.value, target);
  if (!quota) co_return refusal_of(quota.status());
  co_return co_await change_quota(admin, request, std::move(*quota));
}
Answer remove_quota(Admin& admin, HttpRequest& request) {
  return change_quota(admin, request, json::value());
}

constexpr TopicPolicy kMaxMessageSize = {
    .name = "maxMessageSize", .read = read_number, .unset = Unset::Empty204};

Answer get_max_size(Admin& admin, HttpRequest& request) {
  return get_policy(admin, request, kMaxMessageSize);
}
Answer set_max_size(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_int64() || body.value.get_int64() < 0 ||
      body.value.get_int64() > admin.live()->max_message_size) {
    co_return Status::PreconditionFailed(
        "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than "
        "that in the "
        "broker-level");
  }
  co_return co_await store(admin, request, kMaxMessageSize.name, body.value);
}
Answer remove_max_size(Admin& admin, HttpRequest& request) {
  return remove_policy(admin, request, kMaxMessageSize);
}

constexpr TopicPolicy kReplication = {.name = "replication",
                                      .read = read_text_list,
                                      .of_namespace = "replication_clusters",
                                      .of_broker = default_clusters};

Answer get_replication(Admin& admin, HttpRequest& request) {
  return get_policy(admin, request, kReplication);
}
Answer set_replication(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_array() || body.value.get_array().empty()) {
    co_return Status::PreconditionFailed("ClusterIds should not be null or empty");
  }
  const json::array& clusters = body.value.get_array();
  if (std::find(clusters.begin(), clusters.end(), json::value(admin.cluster())) == clusters.end()) {
    co_return Status::PreconditionFailed(
        "Can not remove local cluster from the local topic-level replication clusters policy");
  }
  auto known = co_await admin.metadata().children("/admin/clusters");
  if (!known) co_return known.status();
  for (const json::value& cluster : clusters) {
    const std::string id = cluster.is_string() ? std::string(cluster.get_string()) : std::string();
    if (std::find(known->begin(), known->end(), id) == known->end()) {
      co_return Status::Authorization("Invalid cluster id: " + id);
    }
  }
  co_return co_await store(admin, request, kReplication.name, body.value);
}
Answer remove_replication(Admin& admin, HttpRequest& request) {
  return remove_policy(admin, request, kReplication);
}

constexpr TopicPolicy kShadows = {.name = "shadowTopics", .read = read_text_list};

Answer get_shadows(Admin& admin, HttpRequest& request) {
  return get_policy(admin, request, kShadows);
}
Answer set_shadows(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_array() || body.value.get_array().empty())
    co_return Status::PreconditionFailed(
        "Cannot specify empty shadow topics, please use remove command instead.");
  for (const json::value& item : body.value.get_array()) {
    const std::string text = item.is_string() ? std::string(item.get_string()) : std::string();
    auto name = TopicName::parse(text);
    bool known = false;
    if (name) {
      auto exists = co_await admin.broker.topic_exists(*name);
      if (!exists) co_return exists.status();
      auto partitions = co_await admin.broker.partition_count(*name);
      if (!partitions) co_return partitions.status();
      known = *exists || *partitions > 0;
    }
    if (!known) co_return Status::PreconditionFailed("Shadow topic [" + text + "] not exists.");
  }
  co_return co_await store(admin, request, kShadows.name, body.value);
}
Answer remove_shadows(Admin& admin, HttpRequest& request) {
  return remove_policy(admin, request, kShadows);
}

Answer get_pause(Admin& admin, HttpRequest& request) {
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  auto value =
      co_await own_value(admin, *name, part_of(request), "dispatcherPauseOnAckStatePersistent");
  if (!value) co_return value.status();
  co_return json_text(value->is_bool() && value->get_bool() ? "true" : "false");
}
Answer set_pause(Admin& admin, HttpRequest& request) {
  return store(admin, request, "dispatcherPauseOnAckStatePersistent", true);
}
Answer remove_pause(Admin& admin, HttpRequest& request) {
  return store(admin, request, "dispatcherPauseOnAckStatePersistent", json::value());
}

// Of one subscription of the topic.
std::string subscription_key(const HttpRequest& request) {
  return "subscriptionDispatchRate/" + request.param("subscription");
}
Answer get_subscription_rate(Admin& admin, HttpRequest& request) {
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  auto value = co_await own_value(admin, *name, part_of(request), subscription_key(request));
  if (!value) co_return value.status();
  if (!value->is_null()) co_return json_answer(*value);
  if (!request.query_flag("applied", false)) co_return ok_empty();
  constexpr TopicPolicy kRate = {.name = "subscriptionDispatchRate",
                                 .read = read_dispatch_rate,
                                 .of_namespace = "subscriptionDispatchRate",
                                 .of_broker = default_subscription_rate,
                                 .by_cluster = true};
  auto own = co_await own_value(admin, *name, part_of(request), kRate.name);
  if (!own) co_return own.status();
  if (own->is_null()) own = co_await inherited(admin, *name, kRate);
  if (!own) co_return own.status();
  co_return json_answer(*own);
}
Answer set_subscription_rate(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  PolicyTarget target;
  target.policy = "dispatchRate";
  target.of_topic = true;
  auto value = read_dispatch_rate(body.value, target);
  if (!value) co_return refusal_of(value.status());
  co_return co_await store(admin, request, subscription_key(request), std::move(*value));
}
Answer remove_subscription_rate(Admin& admin, HttpRequest& request) {
  return store(admin, request, subscription_key(request), json::value());
}

Answer remove_all(Admin& admin, HttpRequest& request) {
  auto name = co_await existing(admin, request);
  if (!name) co_return name.status();
  Status removed = co_await admin.metadata().remove_recursive(topic_policies_path(*name));
  if (!removed) co_return removed;
  co_return no_content();
}

#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TOPIC "/messageTTL", "The topic's time to live", get_ttl},
    {HttpMethod::Post, GM_TOPIC "/messageTTL", "Set the topic's time to live", set_ttl},
    {HttpMethod::Delete, GM_TOPIC "/messageTTL", "Remove the topic's time to live", remove_ttl},
    {HttpMethod::Get, GM_TOPIC "/backlogQuotaMap", "The topic's backlog quotas", get_quotas},
    {HttpMethod::Post, GM_TOPIC "/backlogQuota", "Set a backlog quota of the topic", set_quota},
    {HttpMethod::Delete, GM_TOPIC "/backlogQuota", "Remove a backlog quota of the topic",
     remove_quota},
    {HttpMethod::Get, GM_TOPIC "/maxMessageSize", "The topic's largest message", get_max_size},
    {HttpMethod::Post, GM_TOPIC "/maxMessageSize", "Set the topic's largest message", set_max_size},
    {HttpMethod::Delete, GM_TOPIC "/maxMessageSize", "Remove the topic's largest message",
     remove_max_size},
    {HttpMethod::Get, GM_TOPIC "/replication", "Clusters that the topic is replicated to",
     get_replication},
    {HttpMethod::Post, GM_TOPIC "/replication", "Set the clusters that the topic is replicated to",
     set_replication},
    {HttpMethod::Delete, GM_TOPIC "/replication", "Remove the topic's own replication clusters",
     remove_replication},
    {HttpMethod::Get, GM_TOPIC "/shadowTopics", "The topic's shadow topics", get_shadows},
    {HttpMethod::Put, GM_TOPIC "/shadowTopics", "Set the topic's shadow topics", set_shadows},
    {HttpMethod::Delete, GM_TOPIC "/shadowTopics", "Remove the topic's shadow topics",
     remove_shadows},
    {HttpMethod::Get, GM_TOPIC "/dispatcherPauseOnAckStatePersistent",
     "Whether dispatch waits for stored acks", get_pause},
    {HttpMethod::Post, GM_TOPIC "/dispatcherPauseOnAckStatePersistent",
     "Let dispatch wait for stored acks", set_pause},
    {HttpMethod::Delete, GM_TOPIC "/dispatcherPauseOnAckStatePersistent",
     "Let dispatch not wait for stored acks", remove_pause},
    {HttpMethod::Get, GM_TOPIC "/{subscription}/dispatchRate", "A subscription's dispatch rate",
     get_subscription_rate},
    {HttpMethod::Post, GM_TOPIC "/{subscription}/dispatchRate",
     "Set a subscription's dispatch rate", set_subscription_rate},
    {HttpMethod::Delete, GM_TOPIC "/{subscription}/dispatchRate",
     "Remove a subscription's dispatch rate", remove_subscription_rate},
    {HttpMethod::Delete, GM_TOPIC "/policies", "Remove all policies of the topic", remove_all},
};

void add_policy(HttpRouter& router, Admin& admin, const TopicPolicy& policy,
                const std::string& topic) {
  const std::string pattern = topic + '/' + policy.name;
  router.get(
      pattern, fmt::format("The topic's {}", policy.name),
      [&admin, &policy](HttpRequest& request) { return get_policy(admin, request, policy); });
  router.add(
      {policy.write, pattern, fmt::format("Set the topic's {}", policy.name),
       [&admin, &policy](HttpRequest& request) { return set_policy(admin, request, policy); }});
  router.del(
      pattern, fmt::format("Remove the topic's {}", policy.name),
      [&admin, &policy](HttpRequest& request) { return remove_policy(admin, request, policy); });
}

}  // namespace

void add_topic_policy_routes(HttpRouter& router, Admin& admin) {
  for (const TopicPolicy& policy : kPolicies) {
    for (const std::string domain : {"persistent", "non-persistent"}) {
      add_policy(router, admin, policy, "/admin/v2/" + domain + "/{tenant}/{namespace}/{topic}");
      add_policy(router, admin, policy,
                 "/admin/" + domain + "/{tenant}/{cluster}/{namespace}/{topic}");
    }
  }
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
