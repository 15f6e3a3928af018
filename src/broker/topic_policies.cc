#include "broker/topic_policies.h"

#include "broker/policy_parts.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

namespace geminga {

namespace json = boost::json;

namespace {

const json::object* object_in(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr ? value->if_object() : nullptr;
}

void take(const json::object& from, std::string_view key, std::optional<std::int64_t>& into) {
  const json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_number()) return;
  boost::system::error_code error;
  const auto number = value->to_number<std::int64_t>(error);
  if (!error) into = number;
}

std::optional<bool> flag(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_bool()) return std::nullopt;
  return value->get_bool();
}

void overlay(NamespacePolicies& policies, const json::object& own) {
  if (const json::object* retention = object_in(own, "retention")) {
    take(*retention, "retentionTimeInMinutes", policies.retention_minutes);
    take(*retention, "retentionSizeInMB", policies.retention_mb);
  }
  take(own, "messageTTL", policies.message_ttl_seconds);
  take_backlog_quotas(own.if_contains("backLogQuotaMap"), policies);
  take_backlog_quotas(own.if_contains("backlogQuotaMap"), policies);
  take_inactive_topics(own.if_contains("inactiveTopicPolicies"), policies);
  if (const auto rate = publish_rate(own.if_contains("publishRate"))) policies.publish_rate = rate;
  if (const auto rate = dispatch_rate(own.if_contains("dispatchRate")))
    policies.dispatch_rate = rate;
  if (const auto rate = dispatch_rate(own.if_contains("subscriptionDispatchRate")))
    policies.subscription_dispatch_rate = rate;
  constexpr std::string_view kOfSubscription = "subscriptionDispatchRate/";
  for (const auto& entry : own) {
    const std::string_view key = entry.key();
    if (!key.starts_with(kOfSubscription)) continue;
    if (const auto rate = dispatch_rate(&entry.value()))
      policies.dispatch_rates.emplace_back(key.substr(kOfSubscription.size()), *rate);
  }
  if (const auto rate = subscribe_rate(own.if_contains("subscribeRate")))
    policies.subscribe_rate = rate;
  if (const auto rate = mark_delete_rate(own.if_contains("persistence")))
    policies.max_mark_delete_rate = rate;
  take(own, "maxMessageSize", policies.max_message_size);
  take(own, "compactionThreshold", policies.compaction_threshold);
  take(own, "maxProducers", policies.max_producers_per_topic);
  take(own, "maxConsumers", policies.max_consumers_per_topic);
  take(own, "maxConsumersPerSubscription", policies.max_consumers_per_subscription);
  take(own, "maxUnackedMessagesOnConsumer", policies.max_unacked_per_consumer);
  take(own, "maxUnackedMessagesOnSubscription", policies.max_unacked_per_subscription);
  take(own, "maxSubscriptionsPerTopic", policies.max_subscriptions_per_topic);
  if (const auto on = flag(own, "deduplicationEnabled")) policies.deduplication = on;
  take(own, "deduplicationSnapshotInterval", policies.deduplication_snapshot_seconds);
  if (const auto on = flag(own, "schemaValidationEnforced"))
    policies.schema_validation_enforced = *on;
  if (const json::object* delayed = object_in(own, "delayedDelivery")) {
    if (const auto on = flag(*delayed, "active")) policies.delayed_delivery = on;
    take(*delayed, "maxDeliveryDelayInMillis", policies.max_delivery_delay_ms);
  }
  if (const json::object* creation = object_in(own, "autoSubscriptionCreation")) {
    if (const auto on = flag(*creation, "allowAutoSubscriptionCreation"))
      policies.auto_subscription_creation = on;
  }
  if (const json::value* types = own.if_contains("subscriptionTypesEnabled");
      types != nullptr && types->is_array()) {
    policies.subscription_types_enabled.clear();
    for (const json::value& type : types->get_array()) {
      if (type.is_string()) policies.subscription_types_enabled.emplace_back(type.get_string());
    }
  }
}

}  // namespace

std::string topic_policies_key(const TopicName& name) {
  const TopicName base = name.base();
  return fmt::format("/admin/topic-policies/{}/{}/{}", base.ns(), to_string(base.domain()),
                     base.encoded_local());
}

Status overlay_topic_policies(NamespacePolicies& policies, const std::string& text) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object())
    return Status::Corruption("topic policies are not the JSON object they must be");
  if (const json::object* global = object_in(value.get_object(), "global"))
    overlay(policies, *global);
  if (const json::object* local = object_in(value.get_object(), "local")) overlay(policies, *local);
  return Status::ok();
}

}  // namespace geminga
