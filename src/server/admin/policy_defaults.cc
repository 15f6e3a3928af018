#include "server/admin/policy_defaults.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/config.h"

namespace geminga {

namespace json = boost::json;

namespace {

json::object rate(std::int64_t messages, std::int64_t bytes) {
  json::object out;
  out["dispatchThrottlingRateInMsg"] = messages;
  out["dispatchThrottlingRateInByte"] = bytes;
  out["relativeToPublishRate"] = false;
  out["ratePeriodInSecond"] = 1;
  return out;
}

}  // namespace

json::value no_rate(const Admin&) { return rate(0, 0); }
json::value default_dispatch_rate(const Admin& admin) {
  const auto live = admin.live();
  return rate(live->dispatch_throttling_rate_per_topic_in_msg,
              live->dispatch_throttling_rate_per_topic_in_byte);
}
json::value default_subscription_rate(const Admin& admin) {
  const auto live = admin.live();
  return rate(live->dispatch_throttling_rate_per_subscription_in_msg,
              live->dispatch_throttling_rate_per_subscription_in_byte);
}
json::value nothing(const Admin&) { return nullptr; }
json::value default_retention(const Admin& admin) {
  json::object out;
  out["retentionTimeInMinutes"] = admin.live()->default_retention_time_in_minutes;
  out["retentionSizeInMB"] = admin.live()->default_retention_size_in_mb;
  return out;
}
json::value default_compaction_threshold(const Admin& admin) {
  return admin.live()->broker_service_compaction_threshold_in_bytes;
}
json::value default_ttl(const Admin& admin) {
  return admin.live()->ttl_duration_default_in_seconds;
}
json::value default_max_producers(const Admin& admin) {
  return admin.live()->max_producers_per_topic;
}
json::value default_max_consumers(const Admin& admin) {
  return admin.live()->max_consumers_per_topic;
}
json::value default_unacked_consumer(const Admin& admin) {
  return admin.live()->max_unacked_messages_per_consumer;
}
json::value default_unacked_subscription(const Admin& admin) {
  return admin.live()->max_unacked_messages_per_subscription;
}
json::value default_subscribe_rate(const Admin& admin) {
  json::object out;
  out["subscribeThrottlingRatePerConsumer"] = admin.live()->subscribe_throttling_rate_per_consumer;
  out["ratePeriodInSecond"] = admin.live()->subscribe_rate_period_per_consumer_in_second;
  return out;
}
json::value default_delayed(const Admin& admin) {
  json::object out;
  out["tickTime"] = admin.live()->delayed_delivery_tick_time_millis;
  out["active"] = admin.live()->delayed_delivery_enabled;
  out["maxDeliveryDelayInMillis"] = 0;
  return out;
}
json::value default_inactive(const Admin& admin) {
  const auto live = admin.live();
  const BrokerConfig& config = *live;
  const std::int64_t own = config.broker_delete_inactive_topics_max_inactive_duration_seconds;
  json::object out;
  out["inactiveTopicDeleteMode"] = config.broker_delete_inactive_topics_mode;
  out["maxInactiveDurationSeconds"] =
      own != 0 ? own : config.broker_delete_inactive_topics_frequency_seconds;
  out["deleteWhileInactive"] = config.broker_delete_inactive_topics_enabled;
  return out;
}
json::value default_persistence(const Admin&) {
  json::object out;  // one copy: this is the embedded store
  out["bookkeeperEnsemble"] = 1;
  out["bookkeeperWriteQuorum"] = 1;
  out["bookkeeperAckQuorum"] = 1;
  out["managedLedgerMaxMarkDeleteRate"] = 1.0;
  return out;
}
json::value default_deduplication(const Admin& admin) {
  return admin.live()->broker_deduplication_enabled;
}
json::value default_schema_strategy(const Admin&) { return "FULL"; }
json::value default_schema_validation(const Admin& admin) {
  return admin.live()->is_schema_validation_enforced;
}
json::value default_filters(const Admin&) {
  json::object out;
  out["entryFilterNames"] = "";
  return out;
}
json::value default_auto_subscription(const Admin& admin) {
  json::object out;
  out["allowAutoSubscriptionCreation"] = admin.live()->allow_auto_subscription_creation;
  return out;
}
json::value default_clusters(const Admin& admin) {
  return json::array{json::string(admin.cluster())};
}

}  // namespace geminga
