// What a persistent topic tells of itself.
#include "base/clock.h"
#include "broker/persistent_topic.h"

namespace geminga {

TopicNumbers PersistentTopic::numbers(std::int64_t now) const {
  TopicNumbers stats;
  stats.msg_rate_in = message_rate_.per_second(now);
  stats.msg_throughput_in = byte_rate_.per_second(now);
  stats.average_msg_size = stats.msg_rate_in > 0 ? stats.msg_throughput_in / stats.msg_rate_in : 0;
  stats.msg_in_counter = messages_in_;
  stats.bytes_in_counter = bytes_in_;
  stats.duplicates = duplicates_;
  stats.storage_size = ledger_->total_bytes();
  if (delayed_ != nullptr) {
    stats.delayed_index_bytes = static_cast<std::int64_t>(delayed_->memory_bytes());
    stats.delayed_runs = static_cast<std::int64_t>(delayed_->runs());
    stats.delayed_run_bytes = delayed_->run_bytes();
    stats.delayed_in_memory = delayed_->items_in_memory();
  }
  stats.backlog_quota_bytes = settings_.backlog_size.limit;
  if (settings_.backlog_age.limit > 0) stats.backlog_quota_seconds = settings_.backlog_age.limit;
  stats.evictions_by_size = evictions_by_size_;
  stats.evictions_by_age = evictions_by_age_;
  if (transactions_ != nullptr) {
    stats.ongoing_txns = static_cast<std::int64_t>(transactions_->open_count());
    stats.aborted_txns = transactions_->aborted_total();
    stats.committed_txns = transactions_->committed_total();
  }
  stats.compaction = compaction_->stats();
  if (pacer_ != nullptr) stats.publish_rate_limited = pacer_->times_limited();
  if (oldest_backlog_ms_ != 0)
    stats.oldest_backlog_seconds =
        std::max<std::int64_t>((now_ms() - oldest_backlog_ms_) / 1000, 0);
  return stats;
}

TopicStats PersistentTopic::stats() const {
  const std::int64_t now = monotonic_ns();
  TopicStats stats;
  static_cast<TopicNumbers&>(stats) = numbers(now);
  stats.topic_epoch = producers_.epoch();
  if (deduplication_ != nullptr) stats.dedup_status = "Enabled";
  for (const auto& [name, producer] : producers_.all())
    stats.publishers.push_back(producer->stats(now));
  for (const auto& [name, subscription] : subscriptions_) {
    stats.subscriptions.push_back(subscription->stats());
    stats.backlog_size = std::max(stats.backlog_size, stats.subscriptions.back().backlog_size);
  }
  return stats;
}

TopicSample PersistentTopic::sample(SampleDetail detail) const {
  const std::int64_t now = monotonic_ns();
  TopicSample sample;
  sample.name = name_.full();
  sample.numbers = numbers(now);
  producers_.sample(sample, detail, now);
  sample.subscription_count = subscriptions_.size();
  for (const auto& [name, subscription] : subscriptions_) {
    sample.subscriptions.push_back(subscription->sample(detail.consumers));
    sample.numbers.backlog_size =
        std::max(sample.numbers.backlog_size, sample.subscriptions.back().numbers.backlog_size);
  }
  return sample;
}

}  // namespace geminga
