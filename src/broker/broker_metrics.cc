#include "broker/broker_metrics.h"

namespace geminga {

std::int64_t BrokerMetrics::open_connections() const {
  std::int64_t open = 0;
  for (const auto& shard : by_shard) {
    // Closed first: a connection that opens and closes in between is not counted as minus one.
    const auto closed = static_cast<std::int64_t>(shard->connections_closed.value());
    open += static_cast<std::int64_t>(shard->connections_opened.value()) - closed;
  }
  return open;
}

void BrokerMetrics::collect(MetricsPage& page, const std::string& cluster,
                            const std::string& broker) const {
  const auto sum = [&](Counter ShardMetrics::*counter) {
    std::uint64_t total = 0;
    for (const auto& shard : by_shard) total += ((*shard).*counter).value();
    return static_cast<double>(total);
  };
  std::int64_t paused = 0;
  for (const auto& shard : by_shard) paused += shard->paused.value();
  page.add(Metric::pulsar_active_connections, {cluster, broker, "active_connections"},
           static_cast<double>(open_connections()));
  page.add(Metric::pulsar_connection_created_total_count,
           {cluster, broker, "connection_created_total_count"},
           sum(&ShardMetrics::connections_opened));
  page.add(Metric::pulsar_connection_closed_total_count,
           {cluster, broker, "connection_closed_total_count"},
           sum(&ShardMetrics::connections_closed));
  page.add(Metric::pulsar_broker_throttled_connections, {cluster}, static_cast<double>(paused));
  page.add(Metric::pulsar_broker_lookup_answers_total, {cluster}, sum(&ShardMetrics::lookups));
  page.add(Metric::pulsar_broker_lookup_failures_total, {cluster},
           sum(&ShardMetrics::lookups_failed));
  page.add(Metric::geminga_connections_refused_total, {}, sum(&ShardMetrics::connections_refused));
  page.add(Metric::geminga_connections_cut_total, {}, sum(&ShardMetrics::connections_cut));
  page.add(Metric::geminga_requests_failed_total, {}, sum(&ShardMetrics::requests_failed));
  page.add(Metric::geminga_sends_refused_total, {}, sum(&ShardMetrics::sends_refused));
  page.add(Metric::geminga_sends_dropped_total, {}, sum(&ShardMetrics::sends_dropped));
  page.add(Metric::geminga_reads_paused_total, {"publishes"},
           sum(&ShardMetrics::paused_by_publishes));
  page.add(Metric::geminga_reads_paused_total, {"memory"}, sum(&ShardMetrics::paused_by_memory));
  page.add(Metric::geminga_reads_paused_total, {"replies"}, sum(&ShardMetrics::paused_by_replies));
  page.add(Metric::geminga_reads_paused_total, {"requests"},
           sum(&ShardMetrics::paused_by_requests));
  page.add(Metric::geminga_topic_loads_total, {}, sum(&ShardMetrics::topic_loads));
  page.add(Metric::geminga_topic_load_failures_total, {}, sum(&ShardMetrics::topic_loads_failed));
  page.add(Metric::geminga_topic_write_failures_total, {}, sum(&ShardMetrics::topics_failed));
  page.add(Metric::geminga_inactive_topics_deleted_total, {},
           sum(&ShardMetrics::inactive_topics_deleted));
  page.add(Metric::geminga_inactive_subscriptions_deleted_total, {},
           sum(&ShardMetrics::inactive_subscriptions_deleted));
  for (const auto& shard : by_shard) {
    page.add(Metric::pulsar_storage_backlog_quota_check_duration_seconds, {cluster},
             shard->backlog_checks);
  }
}

}  // namespace geminga
