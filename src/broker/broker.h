// The broker: everything of one process that clients and the admin API talk to.
//
// Owned by main (cli/standalone). Made on the main thread; open() and close() are awaited on shard
// 0. Members say where they may be called.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "broker/isolation.h"
#include "broker/live_config.h"
#include "broker/topic.h"
#include "broker/topic_name.h"
#include "broker/topic_settings.h"
#include "ledger/ledger_store.h"
#include "metadata/metadata_store.h"
#include "runtime/runtime.h"

namespace geminga {

struct NamespacePolicies;
class Namespaces;      // tenants, namespaces, policies, partitioned topics (broker/namespaces.h)
class SchemaRegistry;  // schema/schema_registry.h
class Transactions;    // broker/transactions.h
class LedgerSweep;     // broker/ledger_sweep.h
class UnackedBudget;   // broker/unacked_budget.h
class TopicShard;      // the topics of one shard (broker/topic_shard.h)
struct BrokerMetrics;  // broker/broker_metrics.h

struct BrokerAddresses {        // what lookups answer
  std::string service_url;      // "pulsar://localhost:6650"
  std::string web_service_url;  // "http://localhost:8080"
  // Of isolation groups by number, where a group has a port of its own; else empty or missing. The
  // first is everybody's and does not count.
  std::vector<std::string> group_urls = {};
};

// The logs of the process, those of an isolation group beside each other.
struct BrokerLogs {
  struct Log {
    LedgerStore* store = nullptr;
    unsigned shard = 0;  // the one it lives on
  };
  struct Group {
    std::string name;    // empty: of all namespaces that are not isolated
    unsigned first = 0;  // of `logs`
    unsigned count = 0;  // at least 1
  };
  std::vector<Log> logs;
  std::vector<Group> groups;  // by number; the first has no name
};

class SchemaRegistry;
struct SchemaPlace {
  Shard& shard;
  SchemaRegistry& registry;  // use on `shard`
};

struct SchemaRules {
  bool may_add = true;
  bool enforced = false;  // a producer without a schema is refused where the topic has one
};

class Broker {
 public:
  // All outlive the broker.
  Broker(Runtime& runtime, const BrokerConfig& config, MetadataStore& metadata, BrokerLogs logs,
         BrokerAddresses addresses);
  // One LedgerStore a log, no isolation groups; log i lives on shard i % shards.
  Broker(Runtime& runtime, const BrokerConfig& config, MetadataStore& metadata,
         std::vector<LedgerStore*> logs, BrokerAddresses addresses);
  ~Broker();

  // Bootstraps tenants and namespaces, takes this start's producer-name number. On shard 0.
  Task<Status> open();
  // Closes every topic (drains publishes, persists cursors). On shard 0.
  Task<Status> close();

  Runtime& runtime() { return runtime_; }
  const BrokerConfig& config() const { return config_; }
  // What config() says, and over it what operators have changed since. Any shard.
  LiveConfig& live_config() { return live_config_; }
  MetadataStore& metadata() { return metadata_; }
  Namespaces& namespaces() { return *namespaces_; }
  Transactions& transactions() { return *transactions_; }
  Isolation& isolation() { return *isolation_; }
  // Null: there is no limit for all subscriptions together.
  UnackedBudget* unacked();
  const BrokerAddresses& addresses() const { return addresses_; }
  // Where clients of a topic connect to. Any thread.
  const std::string& service_url_of(const TopicName& name) const;
  BrokerMetrics& metrics() { return *metrics_; }
  // Once, when the ports are known; before clients are served.
  void set_addresses(BrokerAddresses addresses) { addresses_ = std::move(addresses); }

  // The log that a topic's ledgers live in, and its shard. Any thread. Both are others once the
  // namespace, while it is empty, was isolated (Isolation): what hopped to the shard looks again
  // there.
  unsigned log_of(const TopicName& name) const;
  LedgerStore& ledgers(const TopicName& name);  // its log; use on its shard
  Shard& shard_of(const TopicName& name) const;
  SchemaPlace schemas(const TopicName& name);  // of the log of the *base* topic

  // Below: from any shard; they hop to the topic's shard and back.
  // The loaded topic, loading (and creating, if allowed) it first. Must be called ON the topic's
  // shard.
  struct TopicOptions {
    bool create_if_missing = false;  // already decided: policy and request allow it
  };
  Task<Result<std::shared_ptr<Topic>>> topic(TopicName name, TopicOptions options);
  // Only if it is loaded now. On the topic's shard.
  std::shared_ptr<Topic> loaded_topic(const TopicName& name);

  // What policies and configuration say about it. Any shard.
  Task<Result<TopicSettings>> topic_settings(TopicName name);
  // May producers add schemas to it, and must they have one? Any shard.
  Task<Result<SchemaRules>> schema_rules(TopicName name);
  // PreconditionFailed if its namespace may not have `more` topics (maxTopicsPerNamespace). Any
  // shard.
  Task<Status> room_for_topics(TopicName name, std::int64_t more);
  // "tenant/ns". Any shard.
  Task<Result<bool>> namespace_exists(std::string name_space);
  // Is there such a topic (its managed ledger, or loaded if non-persistent)? Any shard.
  Task<Result<bool>> topic_exists(TopicName name);
  // Partition count of a partitioned topic, 0 if it is none. Any shard.
  Task<Result<std::int32_t>> partition_count(TopicName name);
  // May `name` be created by a client now? (namespace policy over broker setting, system topics
  // always). Any shard.
  Task<Result<bool>> auto_creation_allowed(TopicName name);
  // PARTITIONED_METADATA: the count, creating the partitioned topic if the default type says so.
  // Any shard.
  Task<Result<std::int32_t>> partition_metadata(TopicName name, bool may_create);

  // Admin: create / delete / unload / list. Any shard.
  Task<Status> create_topic(TopicName name, std::map<std::string, std::string> properties);
  Task<Status> delete_topic(TopicName name, bool force);
  Task<Status> unload_topic(TopicName name);
  Task<Status> create_partitioned_topic(TopicName name, std::int32_t partitions,
                                        std::map<std::string, std::string> properties);
  Task<Status> update_partitions(TopicName name, std::int32_t partitions);
  Task<Status> delete_partitioned_topic(TopicName name, bool force);
  // Full names of persistent (and/or loaded non-persistent) topics of "tenant/ns", sorted;
  // partitions one by one.
  Task<Result<std::vector<std::string>>> list_topics(std::string name_space, bool persistent,
                                                     bool non_persistent, bool include_system);

  // "<cluster>-<instance>-<n>". Any shard.
  std::string next_producer_name();

  // Calls `visit` with every loaded topic, on its shard: one topic at a time, a few in a turn of
  // the shard. Any shard.
  Task<void> visit_topics(std::function<void(const Topic&)> visit);
  // Names of the topics that are loaded, of all shards. Any shard.
  Task<std::vector<TopicName>> loaded_topics();
  // Loaded topics take their settings anew: the configuration has changed. Any shard.
  Task<void> refresh_topics();
  // Quotas of the backlog act now rather than at the next look. Any shard.
  Task<void> check_backlogs();

  // Of each log, by its index. Any shard.
  Task<std::vector<LedgerStats>> ledger_stats();

 private:
  Task<Result<NamespacePolicies>> policies_of(TopicName name);
  Task<Result<std::vector<std::string>>> contents_of(std::string name_space);

  Runtime& runtime_;
  const BrokerConfig& config_;
  MetadataStore& metadata_;
  LiveConfig live_config_;
  BrokerLogs logs_;
  BrokerAddresses addresses_;
  std::unique_ptr<BrokerMetrics> metrics_;
  std::unique_ptr<Namespaces> namespaces_;
  std::unique_ptr<Isolation> isolation_;
  std::unique_ptr<UnackedBudget> unacked_;
  std::vector<std::unique_ptr<SchemaRegistry>> schema_registries_;  // by log
  std::vector<std::unique_ptr<TopicShard>> topic_shards_;           // by shard
  std::unique_ptr<Transactions> transactions_;
  std::unique_ptr<LedgerSweep> sweep_;
  std::int64_t instance_ = 0;
  std::atomic<std::uint64_t> producer_counter_{0};
};

}  // namespace geminga
