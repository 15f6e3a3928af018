#include "server/topic_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "broker/topic_compaction.h"

namespace geminga {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

double number(std::integral auto n) { return static_cast<double>(n); }

template <typename T>
double total(const TopicSample& topic, T SubscriptionNumbers::*field) {
  T sum{};
  for (const SubscriptionSample& sub : topic.subscriptions) sum += sub.numbers.*field;
  return static_cast<double>(sum);
}

bool was_compacted(const TopicSample& topic) {
  return topic.numbers.compaction.succeeded + topic.numbers.compaction.failed > 0;
}

// --- the table: one row a series ---

using OfTopic = double (*)(const TopicSample&);
using OfSubscription = double (*)(const SubscriptionNumbers&);
using OfConsumer = double (*)(const ConsumerNumbers&);
using OfProducer = double (*)(const ProducerNumbers&);

enum class Level : std::uint8_t { Topic = 1, Namespace = 2, Both = 3 };

struct Row {
  Metric metric;
  std::variant<OfTopic, OfSubscription, OfConsumer, OfProducer> value;
  Level level = Level::Topic;
  std::string_view more_labels = {};
  bool (*shown)(const TopicSample&) = nullptr;  // nullptr: always
};

template <std::size_t kRange>
double writes_in_range(const TopicSample& s) {
  return number(s.numbers.compaction.write_latency.count(kRange));
}

// Samples of a metric stand together: so do its rows.
constexpr Row kRows[] = {
    {Metric::pulsar_subscriptions_count,
     [](const TopicSample& s) { return number(s.subscription_count); }, Level::Both},
    {Metric::pulsar_producers_count, [](const TopicSample& s) { return number(s.producer_count); },
     Level::Both},
    {Metric::pulsar_consumers_count,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::consumer_count); },
     Level::Both},
    {Metric::pulsar_rate_in, [](const TopicSample& s) { return s.numbers.msg_rate_in; },
     Level::Both},
    {Metric::pulsar_rate_out,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_rate_out); },
     Level::Both},
    {Metric::pulsar_throughput_in, [](const TopicSample& s) { return s.numbers.msg_throughput_in; },
     Level::Both},
    {Metric::pulsar_throughput_out,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_throughput_out); },
     Level::Both},
    {Metric::pulsar_average_msg_size,
     [](const TopicSample& s) { return s.numbers.average_msg_size; }},
    {Metric::pulsar_in_bytes_total,
     [](const TopicSample& s) { return number(s.numbers.bytes_in_counter); }, Level::Both},
    {Metric::pulsar_in_messages_total,
     [](const TopicSample& s) { return number(s.numbers.msg_in_counter); }, Level::Both},
    {Metric::geminga_deduplicated_messages_total,
     [](const TopicSample& s) { return number(s.numbers.duplicates); }, Level::Both},
    {Metric::pulsar_storage_size,
     [](const TopicSample& s) { return number(s.numbers.storage_size); }, Level::Both},
    {Metric::pulsar_storage_logical_size,
     [](const TopicSample& s) { return number(s.numbers.storage_size); }, Level::Both},
    {Metric::pulsar_storage_backlog_size,
     [](const TopicSample& s) { return number(s.numbers.backlog_size); }, Level::Both},
    {Metric::pulsar_msg_backlog,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_backlog); }},
    {Metric::pulsar_msg_backlog,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_backlog); },
     Level::Namespace, ",remote_cluster=\"local\""},

    {Metric::pulsar_storage_backlog_quota_limit,
     [](const TopicSample& s) { return number(s.numbers.backlog_quota_bytes); }},
    {Metric::pulsar_storage_backlog_quota_limit_time,
     [](const TopicSample& s) { return number(s.numbers.backlog_quota_seconds); }},
    {Metric::pulsar_storage_backlog_age_seconds,
     [](const TopicSample& s) { return number(s.numbers.oldest_backlog_seconds); }},
    {Metric::pulsar_storage_backlog_quota_exceeded_evictions_total,
     [](const TopicSample& s) { return number(s.numbers.evictions_by_size); }, Level::Both,
     ",quota_type=\"size\""},
    {Metric::pulsar_storage_backlog_quota_exceeded_evictions_total,
     [](const TopicSample& s) { return number(s.numbers.evictions_by_age); }, Level::Both,
     ",quota_type=\"time\""},

    {Metric::pulsar_compaction_removed_event_count,
     [](const TopicSample& s) { return number(s.numbers.compaction.removed_messages); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_succeed_count,
     [](const TopicSample& s) { return number(s.numbers.compaction.succeeded); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_failed_count,
     [](const TopicSample& s) { return number(s.numbers.compaction.failed); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_duration_time_in_mills,
     [](const TopicSample& s) { return number(s.numbers.compaction.last_duration_ms); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_read_throughput,
     [](const TopicSample& s) { return s.numbers.compaction.bytes_read_rate; },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_write_throughput,
     [](const TopicSample& s) { return s.numbers.compaction.bytes_written_rate; },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_compacted_entries_count,
     [](const TopicSample& s) { return number(s.numbers.compaction.entries); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_compacted_entries_size,
     [](const TopicSample& s) { return number(s.numbers.compaction.bytes); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_latency_le_0_5, writes_in_range<0>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_1, writes_in_range<1>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_5, writes_in_range<2>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_10, writes_in_range<3>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_20, writes_in_range<4>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_50, writes_in_range<5>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_100, writes_in_range<6>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_200, writes_in_range<7>, Level::Topic, {}, was_compacted},
    {Metric::pulsar_compaction_latency_le_1000,
     writes_in_range<8>,
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_latency_overflow,
     writes_in_range<9>,
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_latency_sum,
     [](const TopicSample& s) { return number(s.numbers.compaction.write_latency.sum()); },
     Level::Topic,
     {},
     was_compacted},
    {Metric::pulsar_compaction_latency_count,
     [](const TopicSample& s) { return number(s.numbers.compaction.write_latency.total()); },
     Level::Topic,
     {},
     was_compacted},

    {Metric::pulsar_delayed_message_index_size_bytes,
     [](const TopicSample& s) { return number(s.numbers.delayed_index_bytes); }, Level::Both},
    {Metric::pulsar_delayed_message_index_bucket_total,
     [](const TopicSample& s) { return number(s.numbers.delayed_runs); }},
    {Metric::pulsar_delayed_message_index_bucket_snapshot_size_bytes,
     [](const TopicSample& s) { return number(s.numbers.delayed_run_bytes); }},
    {Metric::pulsar_delayed_message_index_loaded,
     [](const TopicSample& s) { return number(s.numbers.delayed_in_memory); }},

    {Metric::pulsar_txn_tb_active_total,
     [](const TopicSample& s) { return number(s.numbers.ongoing_txns); }, Level::Both},
    {Metric::pulsar_txn_tb_committed_total,
     [](const TopicSample& s) { return number(s.numbers.committed_txns); }, Level::Both},
    {Metric::pulsar_txn_tb_aborted_total,
     [](const TopicSample& s) { return number(s.numbers.aborted_txns); }, Level::Both},

    {Metric::pulsar_subscription_back_log,
     [](const SubscriptionNumbers& s) { return number(s.msg_backlog); }},
    {Metric::pulsar_subscription_back_log_no_delayed,
     [](const SubscriptionNumbers& s) { return number(s.msg_backlog - s.msg_delayed); }},
    {Metric::pulsar_subscription_delayed,
     [](const SubscriptionNumbers& s) { return number(s.msg_delayed); }},
    {Metric::pulsar_subscription_delayed,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_delayed); },
     Level::Namespace},
    {Metric::pulsar_subscription_delayed_message_index_size_bytes,
     [](const SubscriptionNumbers& s) { return number(s.delayed_index_bytes); }},
    {Metric::pulsar_subscription_in_replay,
     [](const SubscriptionNumbers& s) { return number(s.msg_in_replay); }},
    {Metric::pulsar_subscription_in_replay,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_in_replay); },
     Level::Namespace},
    {Metric::pulsar_subscription_unacked_messages,
     [](const SubscriptionNumbers& s) { return number(s.unacked_messages); }},
    {Metric::pulsar_subscription_blocked_on_unacked_messages,
     [](const SubscriptionNumbers& s) { return s.blocked_on_unacked ? 1.0 : 0.0; }},
    {Metric::pulsar_subscription_consumers_count,
     [](const SubscriptionNumbers& s) { return number(s.consumer_count); }},
    {Metric::pulsar_subscription_msg_rate_out,
     [](const SubscriptionNumbers& s) { return s.msg_rate_out; }},
    {Metric::pulsar_subscription_msg_throughput_out,
     [](const SubscriptionNumbers& s) { return s.msg_throughput_out; }},
    {Metric::pulsar_subscription_msg_rate_redeliver,
     [](const SubscriptionNumbers& s) { return s.msg_rate_redeliver; }},
    {Metric::pulsar_subscription_msg_ack_rate,
     [](const SubscriptionNumbers& s) { return s.message_ack_rate; }},
    {Metric::pulsar_subscription_msg_rate_expired,
     [](const SubscriptionNumbers& s) { return s.msg_rate_expired; }},
    {Metric::pulsar_subscription_total_msg_expired,
     [](const SubscriptionNumbers& s) { return number(s.msg_expired); }},
    {Metric::pulsar_subscription_msg_drop_rate,
     [](const SubscriptionNumbers& s) { return s.msg_drop_rate; }},
    {Metric::pulsar_subscription_last_expire_timestamp,
     [](const SubscriptionNumbers& s) { return number(s.last_expire_ms); }},
    {Metric::pulsar_subscription_last_acked_timestamp,
     [](const SubscriptionNumbers& s) { return number(s.last_acked_ms); }},
    {Metric::pulsar_subscription_last_consumed_flow_timestamp,
     [](const SubscriptionNumbers& s) { return number(s.last_consumed_flow_ms); }},
    {Metric::pulsar_subscription_last_consumed_timestamp,
     [](const SubscriptionNumbers& s) { return number(s.last_consumed_ms); }},
    {Metric::pulsar_subscription_last_mark_delete_advanced_timestamp,
     [](const SubscriptionNumbers& s) { return number(s.last_mark_delete_ms); }},
    {Metric::pulsar_txn_tp_committed_count_total,
     [](const SubscriptionNumbers& s) { return number(s.committed_txns); }, Level::Topic,
     ",status=\"succeed\""},
    {Metric::pulsar_txn_tp_committed_count_total,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::committed_txns); },
     Level::Namespace, ",status=\"succeed\""},
    {Metric::pulsar_txn_tp_aborted_count_total,
     [](const SubscriptionNumbers& s) { return number(s.aborted_txns); }, Level::Topic,
     ",status=\"succeed\""},
    {Metric::pulsar_txn_tp_aborted_count_total,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::aborted_txns); },
     Level::Namespace, ",status=\"succeed\""},

    {Metric::pulsar_out_bytes_total,
     [](const SubscriptionNumbers& s) { return number(s.bytes_out); }},
    {Metric::pulsar_out_bytes_total, [](const ConsumerNumbers& c) { return number(c.bytes_out); }},
    {Metric::pulsar_out_bytes_total,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::bytes_out); },
     Level::Namespace},
    {Metric::pulsar_out_messages_total,
     [](const SubscriptionNumbers& s) { return number(s.msg_out); }},
    {Metric::pulsar_out_messages_total, [](const ConsumerNumbers& c) { return number(c.msg_out); }},
    {Metric::pulsar_out_messages_total,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::msg_out); },
     Level::Namespace},

    {Metric::pulsar_consumer_msg_rate_out, [](const ConsumerNumbers& c) { return c.msg_rate_out; }},
    {Metric::pulsar_consumer_msg_throughput_out,
     [](const ConsumerNumbers& c) { return c.msg_throughput_out; }},
    {Metric::pulsar_consumer_msg_rate_redeliver,
     [](const ConsumerNumbers& c) { return c.msg_rate_redeliver; }},
    {Metric::pulsar_consumer_msg_ack_rate,
     [](const ConsumerNumbers& c) { return c.message_ack_rate; }},
    {Metric::pulsar_consumer_msg_ack_rate,
     [](const TopicSample& s) { return total(s, &SubscriptionNumbers::message_ack_rate); },
     Level::Namespace},
    {Metric::pulsar_consumer_unacked_messages,
     [](const ConsumerNumbers& c) { return number(c.unacked_messages); }},
    {Metric::pulsar_consumer_blocked_on_unacked_messages,
     [](const ConsumerNumbers& c) { return c.blocked_on_unacked ? 1.0 : 0.0; }},
    {Metric::pulsar_consumer_available_permits,
     [](const ConsumerNumbers& c) { return number(c.available_permits); }},
    {Metric::pulsar_producer_msg_rate_in, [](const ProducerNumbers& p) { return p.msg_rate_in; }},
    {Metric::pulsar_producer_msg_throughput_in,
     [](const ProducerNumbers& p) { return p.msg_throughput_in; }},
    {Metric::pulsar_producer_msg_average_Size,
     [](const ProducerNumbers& p) { return p.average_msg_size; }},
};

std::string_view namespace_of(std::string_view topic) {
  const std::size_t scheme = topic.find("://");
  const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t slash = topic.rfind('/');
  const std::size_t first = topic.find('/', start);
  // tenant/namespace, or the three parts of a name of the old form
  const std::size_t second = first == std::string_view::npos ? first : topic.find('/', first + 1);
  return topic.substr(start, (second == std::string_view::npos ? slash : second) - start);
}

// Page and samples, a piece at a time. Nothing is allocated a sample.
class SampleStream final : public BodyStream {
 public:
  SampleStream(std::string head, std::vector<TopicSample> samples, const std::string& cluster,
               bool by_topic, SampleDetail detail)
      : head_(std::move(head)),
        samples_(std::move(samples)),
        cluster_(escape_label(cluster)),
        by_topic_(by_topic),
        detail_(detail) {
    row_ = next_shown(0);
  }

  Task<bool> next(std::string& piece) override {
    if (!head_.empty()) {
      piece = std::move(head_);
      head_.clear();
      co_return row_ < std::size(kRows);
    }
    while (row_ < std::size(kRows) && piece.size() < kPieceBytes) write_some(piece);
    co_return row_ < std::size(kRows);
  }

 private:
  std::size_t next_shown(std::size_t row) const {
    if (samples_.empty()) return std::size(kRows);
    const auto here = static_cast<unsigned>(by_topic_ ? Level::Topic : Level::Namespace);
    while (row < std::size(kRows)) {
      const Row& candidate = kRows[row];
      const bool wanted =
          (static_cast<unsigned>(candidate.level) & here) != 0 &&
          (detail_.consumers || !std::holds_alternative<OfConsumer>(candidate.value)) &&
          (detail_.producers || !std::holds_alternative<OfProducer>(candidate.value));
      if (wanted) break;
      ++row;
    }
    return row;
  }

  void write_some(std::string& piece) {
    const Row& row = kRows[row_];
    for (; sample_ < samples_.size() && piece.size() < kPieceBytes; ++sample_) {
      const TopicSample& sample = samples_[sample_];
      if (row.shown != nullptr && !row.shown(sample)) continue;
      label(sample);
      if (const auto* of = std::get_if<OfTopic>(&row.value)) {
        write(piece, row, (*of)(sample));
      } else if (const auto* producer = std::get_if<OfProducer>(&row.value)) {
        for (const ProducerSample& p : sample.producers) {
          write(piece, row, (*producer)(p.numbers), ",producer_name=\"", p.name,
                ",producer_id=", p.numbers.producer_id);
        }
      } else {
        for (const SubscriptionSample& sub : sample.subscriptions) write(piece, row, sub);
      }
    }
    if (sample_ < samples_.size()) return;
    sample_ = 0;
    row_ = next_shown(row_ + 1);
  }

  void write(std::string& piece, const Row& row, const SubscriptionSample& sub) {
    const std::size_t of_topic = labels_.size();
    labels_.append(",subscription=\"");
    append_escaped(labels_, sub.name);
    labels_ += '"';
    if (const auto* of = std::get_if<OfSubscription>(&row.value)) {
      write(piece, row, (*of)(sub.numbers));
    } else {
      for (const ConsumerSample& consumer : sub.consumers) {
        write(piece, row, std::get<OfConsumer>(row.value)(consumer.numbers), ",consumer_name=\"",
              consumer.name, ",consumer_id=", consumer.numbers.consumer_id);
      }
    }
    labels_.resize(of_topic);
  }

  // Somebody's, who has a name and an id.
  void write(std::string& piece, const Row& row, double value, std::string_view name_label,
             std::string_view name, std::string_view id_label, std::uint64_t id) {
    const std::size_t before = labels_.size();
    labels_ += name_label;
    append_escaped(labels_, name);
    fmt::format_to(std::back_inserter(labels_), "\"{}\"{}\"", id_label, id);
    write(piece, row, value);
    labels_.resize(before);
  }

  void write(std::string& piece, const Row& row, double value) {
    const MetricInfo& info = metric_info(row.metric);
    if (!announced_ || *announced_ != row.metric) {
      announced_ = row.metric;
      fmt::format_to(std::back_inserter(piece), "# HELP {} {}\n# TYPE {} {}\n", info.name,
                     info.help, info.name, info.type == MetricType::Counter ? "counter" : "gauge");
    }
    piece.append(info.name).append("{").append(labels_).append(row.more_labels);
    if (value == std::floor(value) && std::abs(value) < 1e15) {
      fmt::format_to(std::back_inserter(piece), "}} {}\n", static_cast<std::int64_t>(value));
    } else {
      fmt::format_to(std::back_inserter(piece), "}} {:.3f}\n", value);
    }
  }

  void label(const TopicSample& sample) {
    labels_.assign("cluster=\"").append(cluster_).append("\",namespace=\"");
    const std::string_view name = sample.name;
    append_escaped(labels_, by_topic_ ? namespace_of(name) : name);
    if (by_topic_) {
      labels_ += "\",topic=\"";
      append_escaped(labels_, name);
    }
    labels_ += '"';
  }

  std::string head_;
  const std::vector<TopicSample> samples_;
  const std::string cluster_;
  const bool by_topic_;
  const SampleDetail detail_;
  std::size_t row_ = 0;
  std::size_t sample_ = 0;
  std::optional<Metric> announced_;
  std::string labels_;
};

void add(TopicNumbers& to, const TopicNumbers& from) {
  to.msg_rate_in += from.msg_rate_in;
  to.msg_throughput_in += from.msg_throughput_in;
  to.msg_in_counter += from.msg_in_counter;
  to.bytes_in_counter += from.bytes_in_counter;
  to.duplicates += from.duplicates;
  to.storage_size += from.storage_size;
  to.backlog_size += from.backlog_size;
  to.delayed_index_bytes += from.delayed_index_bytes;
  to.evictions_by_size += from.evictions_by_size;
  to.evictions_by_age += from.evictions_by_age;
  to.ongoing_txns += from.ongoing_txns;
  to.committed_txns += from.committed_txns;
  to.aborted_txns += from.aborted_txns;
}

void add(SubscriptionNumbers& to, const SubscriptionNumbers& from) {
  to.consumer_count += from.consumer_count;
  to.msg_rate_out += from.msg_rate_out;
  to.msg_throughput_out += from.msg_throughput_out;
  to.message_ack_rate += from.message_ack_rate;
  to.bytes_out += from.bytes_out;
  to.msg_out += from.msg_out;
  to.msg_backlog += from.msg_backlog;
  to.msg_delayed += from.msg_delayed;
  to.msg_in_replay += from.msg_in_replay;
  to.committed_txns += from.committed_txns;
  to.aborted_txns += from.aborted_txns;
}

}  // namespace

TopicMetrics::TopicMetrics(std::string cluster, const BrokerConfig& config)
    : cluster_(std::move(cluster)),
      by_topic_(config.expose_topic_level_metrics_in_prometheus),
      detail_{by_topic_ && config.expose_producer_level_metrics_in_prometheus,
              by_topic_ && config.expose_consumer_level_metrics_in_prometheus} {}

void TopicMetrics::add(Sum& sum, const TopicSample& topic, const TopicName& name) {
  ++sum.topics;
  sum.stored_topics += name.persistent() ? 1 : 0;
  if (name.is_system()) sum.bytes_in_system += topic.numbers.bytes_in_counter;
  sum.sample.producer_count += topic.producer_count;
  sum.sample.subscription_count += topic.subscription_count;
  geminga::add(sum.sample.numbers, topic.numbers);
  if (sum.sample.subscriptions.empty()) sum.sample.subscriptions.emplace_back();
  for (const SubscriptionSample& sub : topic.subscriptions) {
    geminga::add(sum.sample.subscriptions.front().numbers, sub.numbers);
    if (sub.name == kCompactionCursor) sum.bytes_out_internal += sub.numbers.bytes_out;
  }
}

void TopicMetrics::take(const Topic& topic) {
  TopicSample sample = topic.sample(detail_);
  add(all_, sample, topic.name());
  auto at = namespaces_.find(topic.name().ns());
  if (at == namespaces_.end()) at = namespaces_.try_emplace(std::string(topic.name().ns())).first;
  add(at->second, sample, topic.name());
  if (by_topic_) topics_.push_back(std::move(sample));
}

void TopicMetrics::add_sums(MetricsPage& page) const {
  const TopicSample& all = all_.sample;
  page.add(Metric::pulsar_broker_topics_count, {cluster_}, number(all_.topics));
  page.add(Metric::pulsar_broker_subscriptions_count, {cluster_}, number(all.subscription_count));
  page.add(Metric::pulsar_broker_producers_count, {cluster_}, number(all.producer_count));
  page.add(Metric::pulsar_broker_consumers_count, {cluster_},
           total(all, &SubscriptionNumbers::consumer_count));
  page.add(Metric::pulsar_broker_rate_in, {cluster_}, all.numbers.msg_rate_in);
  page.add(Metric::pulsar_broker_rate_out, {cluster_},
           total(all, &SubscriptionNumbers::msg_rate_out));
  page.add(Metric::pulsar_broker_throughput_in, {cluster_}, all.numbers.msg_throughput_in);
  page.add(Metric::pulsar_broker_throughput_out, {cluster_},
           total(all, &SubscriptionNumbers::msg_throughput_out));
  page.add(Metric::pulsar_broker_storage_size, {cluster_}, number(all.numbers.storage_size));
  page.add(Metric::pulsar_broker_storage_logical_size, {cluster_},
           number(all.numbers.storage_size));
  page.add(Metric::pulsar_broker_msg_backlog, {cluster_},
           total(all, &SubscriptionNumbers::msg_backlog));
  page.add(Metric::pulsar_broker_storage_backlog_quota_exceeded_evictions_total, {cluster_, "size"},
           number(all.numbers.evictions_by_size));
  page.add(Metric::pulsar_broker_storage_backlog_quota_exceeded_evictions_total, {cluster_, "time"},
           number(all.numbers.evictions_by_age));
  page.add(Metric::pulsar_broker_in_bytes_total, {cluster_, "true"}, number(all_.bytes_in_system));
  page.add(Metric::pulsar_broker_in_bytes_total, {cluster_, "false"},
           number(all.numbers.bytes_in_counter - all_.bytes_in_system));
  page.add(Metric::pulsar_broker_out_bytes_total, {cluster_, "true"},
           number(all_.bytes_out_internal));
  page.add(Metric::pulsar_broker_out_bytes_total, {cluster_, "false"},
           total(all, &SubscriptionNumbers::bytes_out) - number(all_.bytes_out_internal));
  page.add(Metric::pulsar_ml_count, {cluster_}, number(all_.stored_topics));
  for (const auto& [name, sum] : namespaces_) {
    page.add(Metric::pulsar_topics_count, {cluster_, name}, number(sum.topics));
    if (sum.stored_topics == 0) continue;
    const std::string of_ledgers = name + "/persistent";  // as Pulsar has it
    page.add(Metric::pulsar_ml_NumberOfMessagesInBacklog, {cluster_, of_ledgers},
             total(sum.sample, &SubscriptionNumbers::msg_backlog));
    page.add(Metric::pulsar_ml_StoredMessagesSize, {cluster_, of_ledgers},
             number(sum.sample.numbers.storage_size));
  }
}

std::unique_ptr<BodyStream> TopicMetrics::stream(std::string page) {
  if (!by_topic_) {
    for (auto& [name, sum] : namespaces_) {
      sum.sample.name = name;
      topics_.push_back(std::move(sum.sample));
    }
  }
  return std::make_unique<SampleStream>(std::move(page), std::move(topics_), cluster_, by_topic_,
                                        detail_);
}

}  // namespace geminga
