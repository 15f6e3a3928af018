// What the broker counts about connections and requests, by shard: each shard writes its own, a
// scrape reads all. Owned by the Broker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"

namespace geminga {

struct ShardMetrics {
  Counter connections_opened;
  Counter connections_closed;
  Counter connections_refused;  // over brokerMaxConnections
  Counter connections_cut;      // closed by the broker: violations, silence, shutdown
  Counter requests_failed;      // answered with an error
  Counter lookups;
  Counter lookups_failed;
  Counter sends_refused;        // SEND_ERROR
  Counter sends_dropped;        // no answer: their producer was closed by the broker
  Counter paused_by_publishes;  // reading a connection paused, by reason
  Counter paused_by_memory;
  Counter paused_by_replies;
  Counter paused_by_requests;
  Gauge paused;  // connections that are paused now
  Counter topic_loads;
  Counter topic_loads_failed;
  Counter topics_failed;  // closed because a write failed
  Counter inactive_topics_deleted;
  Counter inactive_subscriptions_deleted;
  TimeHistogram backlog_checks;  // of all topics of the shard, against their quotas
};

struct BrokerMetrics {
  explicit BrokerMetrics(unsigned shards) {
    for (unsigned i = 0; i < shards; ++i) by_shard.push_back(std::make_unique<ShardMetrics>());
  }
  ShardMetrics& of(unsigned shard) { return *by_shard[shard]; }
  std::int64_t open_connections() const;
  // Any thread.
  void collect(MetricsPage& page, const std::string& cluster, const std::string& broker) const;

  std::vector<std::unique_ptr<ShardMetrics>> by_shard;
};

}  // namespace geminga
