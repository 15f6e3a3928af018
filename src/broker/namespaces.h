// Tenants, namespaces and partitioned topics as the broker reads them from the metadata store, in
// Pulsar's stored form
// (/admin/policies, /admin/local-policies, /admin/clusters, /admin/partitioned-topics).
//
// Nothing is cached: a read is answered from the store's memory in microseconds, happens when
// topics are loaded and producers or consumers made, never once a message, and can so never be
// stale. Owned by the Broker; any shard.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "broker/topic_name.h"
#include "broker/topic_settings.h"
#include "metadata/metadata_store.h"
#include "runtime/task.h"

namespace geminga {

// The policies of a namespace that act; unset: the broker's setting holds.
struct NamespacePolicies {
  struct AutoTopicCreation {
    bool allowed = true;
    bool partitioned = false;
    std::int32_t partitions = 1;
  };
  std::optional<AutoTopicCreation> auto_topic_creation;
  std::optional<bool> auto_subscription_creation;
  std::optional<std::int64_t> retention_minutes;  // -1: for ever
  std::optional<std::int64_t> retention_mb;       // -1: all
  struct InactiveTopics {
    bool remove = true;
    bool caught_up_is_enough = false;
    std::int64_t seconds = 60;
  };
  std::optional<std::int64_t> message_ttl_seconds;
  std::optional<BacklogQuota> backlog_size;
  std::optional<BacklogQuota> backlog_age;
  std::optional<InactiveTopics> inactive_topics;
  std::optional<std::int64_t> subscription_expiration_minutes;
  std::optional<std::int64_t> compaction_threshold;  // bytes; 0: only when asked
  std::optional<bool> deduplication;
  std::optional<std::int64_t> deduplication_snapshot_seconds;
  std::optional<std::int64_t> max_producers_per_topic;
  std::optional<std::int64_t> max_consumers_per_topic;
  std::optional<std::int64_t> max_consumers_per_subscription;
  std::optional<std::int64_t> max_subscriptions_per_topic;
  std::optional<std::int64_t> max_topics_per_namespace;
  std::optional<std::int64_t> max_unacked_per_consumer;
  std::optional<std::int64_t> max_unacked_per_subscription;
  std::optional<Rate> publish_rate;
  std::optional<Rate> dispatch_rate;
  std::optional<Rate> subscription_dispatch_rate;
  std::vector<std::pair<std::string, Rate>> dispatch_rates;  // of single subscriptions
  struct SubscribeRate {
    std::int64_t most = 0;
    std::int64_t period_seconds = 30;
  };
  std::optional<SubscribeRate> subscribe_rate;
  std::optional<std::int64_t> max_message_size;
  std::optional<double> max_mark_delete_rate;  // a second; 0: as the broker is configured
  std::optional<bool> delayed_delivery;
  std::optional<std::int64_t> max_delivery_delay_ms;    // 0: no limit
  std::vector<std::string> subscription_types_enabled;  // empty: all
  bool encryption_required = false;
  bool allow_auto_update_schema = true;
  bool schema_validation_enforced = false;
  bool deleted = false;  // being deleted: nothing may be created in it
};

class Namespaces {
 public:
  // Both outlive it.
  Namespaces(MetadataStore& metadata, const BrokerConfig& config);

  // Makes what a new cluster has: the cluster itself, tenants public and pulsar, namespaces
  // public/default and pulsar/system. What is there is left alone.
  Task<Status> bootstrap();

  // Empty: there is no such namespace. One of the old form has the defaults if it was not created.
  Task<Result<std::optional<NamespacePolicies>>> policies(std::string name_space);

  // Partitions of a partitioned topic (`name` is the base); 0: it is none.
  Task<Result<std::int32_t>> partition_count(TopicName name);
  // Only the metadata; a partition is made when it is first used, or by the caller. AlreadyExists.
  Task<Status> create_partitioned(TopicName name, std::int32_t partitions,
                                  std::map<std::string, std::string> properties);
  // More partitions. NotFound; InvalidArgument if there would be fewer.
  Task<Status> grow_partitioned(TopicName name, std::int32_t partitions);
  // Only the metadata; the partitions are topics of their own. NotFound.
  Task<Status> remove_partitioned(TopicName name);
  // Base names ("persistent://t/n/x") of the namespace's partitioned topics.
  Task<Result<std::vector<std::string>>> partitioned_topics(std::string name_space,
                                                            TopicDomain domain);

 private:
  Task<Status> create_if_missing(std::string path, std::string value);

  MetadataStore& metadata_;
  const BrokerConfig& config_;
};

// The stored policies of a new namespace, as JSON text: defaults, `bundles` equal bundles,
// `cluster` as the only replication cluster.
std::string new_namespace_policies(const std::string& cluster, std::int64_t bundles);
// Reads stored policies; those that are kept by cluster for `cluster`. Corruption if it is no JSON
// object.
Result<NamespacePolicies> parse_namespace_policies(const std::string& text,
                                                   const std::string& cluster);

}  // namespace geminga
