#include "server/metrics_page.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/metrics.h"
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "ledger/ledger_store.h"
#include "metadata/metadata_store.h"
#include "server/admin/admin.h"
#include "server/http_server.h"

namespace geminga {

namespace {

using Snapshots = std::vector<Broker::TopicSnapshot>;

constexpr std::size_t kPieceBytes = 64 << 10;

// --- samples of topics
// ------------------------------------------------------------------------------------------

double total(const TopicStats& stats, double SubscriptionStats::*field) {
  double sum = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) sum += sub.*field;
  return sum;
}
double total(const TopicStats& stats, std::int64_t SubscriptionStats::*field) {
  std::int64_t sum = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) sum += sub.*field;
  return static_cast<double>(sum);
}
double count(std::size_t n) { return static_cast<double>(n); }
double count(std::int64_t n) { return static_cast<double>(n); }
double consumers(const TopicStats& stats) {
  std::size_t sum = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) sum += sub.consumers.size();
  return count(sum);
}

struct TopicMetric {
  Metric metric;
  double (*value)(const TopicStats&);
};
constexpr TopicMetric kTopicMetrics[] = {
    {Metric::pulsar_subscriptions_count,
     [](const TopicStats& s) { return count(s.subscriptions.size()); }},
    {Metric::pulsar_producers_count,
     [](const TopicStats& s) { return count(s.publishers.size()); }},
    {Metric::pulsar_consumers_count, consumers},
    {Metric::pulsar_rate_in, [](const TopicStats& s) { return s.msg_rate_in; }},
    {Metric::pulsar_rate_out,
     [](const TopicStats& s) { return total(s, &SubscriptionStats::msg_rate_out); }},
    {Metric::pulsar_throughput_in, [](const TopicStats& s) { return s.msg_throughput_in; }},
    {Metric::pulsar_throughput_out,
     [](const TopicStats& s) { return total(s, &SubscriptionStats::msg_throughput_out); }},
    {Metric::pulsar_average_msg_size, [](const TopicStats& s) { return s.average_msg_size; }},
    {Metric::pulsar_in_bytes_total, [](const TopicStats& s) { return count(s.bytes_in_counter); }},
    {Metric::pulsar_in_messages_total, [](const TopicStats& s) { return count(s.msg_in_counter); }},
    {Metric::pulsar_storage_size, [](const TopicStats& s) { return count(s.storage_size); }},
    {Metric::pulsar_delayed_message_index_size_bytes,
     [](const TopicStats& s) { return count(s.delayed_index_bytes); }},
    {Metric::pulsar_storage_logical_size,
     [](const TopicStats& s) { return count(s.storage_size); }},
    {Metric::pulsar_storage_backlog_size,
     [](const TopicStats& s) { return count(s.backlog_size); }},
    {Metric::pulsar_msg_backlog,
     [](const TopicStats& s) { return total(s, &SubscriptionStats::msg_backlog); }},
};

struct SubscriptionMetric {
  Metric metric;
  double (*value)(const SubscriptionStats&);
};
constexpr SubscriptionMetric kSubscriptionMetrics[] = {
    {Metric::pulsar_subscription_back_log,
     [](const SubscriptionStats& s) { return count(s.msg_backlog); }},
    {Metric::pulsar_subscription_msg_rate_out,
     [](const SubscriptionStats& s) { return s.msg_rate_out; }},
    {Metric::pulsar_subscription_msg_throughput_out,
     [](const SubscriptionStats& s) { return s.msg_throughput_out; }},
    {Metric::pulsar_subscription_msg_rate_redeliver,
     [](const SubscriptionStats& s) { return s.msg_rate_redeliver; }},
    {Metric::pulsar_subscription_unacked_messages,
     [](const SubscriptionStats& s) { return count(s.unacked_messages); }},
    {Metric::pulsar_subscription_blocked_on_unacked_messages,
     [](const SubscriptionStats& s) { return s.blocked_on_unacked ? 1.0 : 0.0; }},
    {Metric::pulsar_subscription_delayed,
     [](const SubscriptionStats& s) { return count(s.msg_delayed); }},
    {Metric::pulsar_subscription_consumers_count,
     [](const SubscriptionStats& s) { return count(s.consumers.size()); }},
    {Metric::pulsar_out_bytes_total, [](const SubscriptionStats& s) { return count(s.bytes_out); }},
    {Metric::pulsar_out_messages_total,
     [](const SubscriptionStats& s) { return count(s.msg_out); }},
};

std::string_view namespace_of_topic(std::string_view topic) {
  const std::size_t scheme = topic.find("://");
  const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t slash = topic.rfind('/');
  const std::size_t first = topic.find('/', start);
  // tenant/namespace, or the three parts of a name of the old form
  const std::size_t second = first == std::string_view::npos ? first : topic.find('/', first + 1);
  return topic.substr(start, (second == std::string_view::npos ? slash : second) - start);
}

void append_value(std::string& out, double value) {
  out += ' ';
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    out += std::to_string(static_cast<std::int64_t>(value));
  } else {
    out += fmt::format("{:.3f}", value);
  }
  out += '\n';
}

void append_type(std::string& out, Metric metric) {
  const MetricInfo& info = metric_info(metric);
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", info.name, info.help, info.name,
                     info.type == MetricType::Counter ? "counter" : "gauge");
}

// Topics of one namespace as one: what namespace level shows.
Snapshots by_namespace(const Snapshots& topics) {
  std::map<std::string, TopicStats> sums;
  for (const auto& topic : topics) {
    TopicStats& sum = sums[std::string(namespace_of_topic(topic.name))];
    sum.msg_rate_in += topic.stats.msg_rate_in;
    sum.msg_throughput_in += topic.stats.msg_throughput_in;
    sum.msg_in_counter += topic.stats.msg_in_counter;
    sum.bytes_in_counter += topic.stats.bytes_in_counter;
    sum.storage_size += topic.stats.storage_size;
    sum.delayed_index_bytes += topic.stats.delayed_index_bytes;
    sum.backlog_size += topic.stats.backlog_size;
    sum.publishers.insert(sum.publishers.end(), topic.stats.publishers.size(), ProducerStats());
    for (const SubscriptionStats& sub : topic.stats.subscriptions) {
      SubscriptionStats& to = sum.subscriptions.emplace_back();
      to.msg_rate_out = sub.msg_rate_out;
      to.msg_throughput_out = sub.msg_throughput_out;
      to.msg_backlog = sub.msg_backlog;
      to.consumers.resize(sub.consumers.size());
    }
  }
  Snapshots out;
  for (auto& [name, sum] : sums) out.push_back({name, std::move(sum)});
  return out;
}

// The head, then metric after metric (their samples must stand together), a piece at a time.
class MetricsStream final : public BodyStream {
 public:
  MetricsStream(std::string head, Snapshots topics, std::string cluster, bool topic_level)
      : head_(std::move(head)),
        topics_(std::move(topics)),
        cluster_(std::move(cluster)),
        topic_level_(topic_level) {}

  Task<bool> next(std::string& piece) override {
    if (!head_.empty()) {
      piece = std::move(head_);
      head_.clear();
      co_return metric_ < end();
    }
    while (metric_ < end() && piece.size() < kPieceBytes) write_some(piece);
    co_return metric_ < end();
  }

 private:
  std::size_t end() const {
    if (topics_.empty()) return 0;
    return std::size(kTopicMetrics) + (topic_level_ ? std::size(kSubscriptionMetrics) : 0);
  }

  void write_some(std::string& piece) {
    const bool of_topic = metric_ < std::size(kTopicMetrics);
    const Metric metric = of_topic
                              ? kTopicMetrics[metric_].metric
                              : kSubscriptionMetrics[metric_ - std::size(kTopicMetrics)].metric;
    if (topic_ == 0) append_type(piece, metric);
    const std::string_view name = metric_info(metric).name;
    while (topic_ < topics_.size() && piece.size() < kPieceBytes) {
      const auto& topic = topics_[topic_++];
      const std::string labels = labels_of(topic);
      if (of_topic) {
        piece.append(name).append("{").append(labels).append("}");
        append_value(piece, kTopicMetrics[metric_].value(topic.stats));
        continue;
      }
      for (const SubscriptionStats& sub : topic.stats.subscriptions) {
        piece.append(name).append("{").append(labels).append(",subscription=\"");
        piece.append(escape_label(sub.name)).append("\"}");
        append_value(piece, kSubscriptionMetrics[metric_ - std::size(kTopicMetrics)].value(sub));
      }
    }
    if (topic_ == topics_.size()) {
      topic_ = 0;
      ++metric_;
    }
  }

  std::string labels_of(const Broker::TopicSnapshot& topic) const {
    std::string out = "cluster=\"" + escape_label(cluster_) + "\",namespace=\"";
    out +=
        escape_label(topic_level_ ? namespace_of_topic(topic.name) : std::string_view(topic.name));
    if (topic_level_) out += "\",topic=\"" + escape_label(topic.name);
    return out + '"';
  }

  std::string head_;
  const Snapshots topics_;
  const std::string cluster_;
  const bool topic_level_;
  std::size_t metric_ = 0;
  std::size_t topic_ = 0;
};

// --- everything else
// --------------------------------------------------------------------------------------------

std::size_t open_files() {
  std::size_t files = 0;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (readdir(folder) != nullptr) ++files;
  closedir(folder);
  return files > 3 ? files - 3 : 0;  // ".", "..", and the folder itself
}

// Start of this process, seconds since 1970.
double start_time() {
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::size_t at = name_end + 2;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at);
    if (at != std::string::npos) ++at;
  }
  if (at == std::string::npos) return 0;
  double ticks = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), ticks);
  double uptime = 0;
  std::ifstream("/proc/uptime") >> uptime;
  const double hertz = static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now_ms()) / 1000.0 - uptime + ticks / hertz;
}

void add_process(MetricsPage& page) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  page.add(Metric::process_cpu_seconds_total, {},
           seconds(usage.ru_utime) + seconds(usage.ru_stime));
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  const double page_size = static_cast<double>(sysconf(_SC_PAGESIZE));
  page.add(Metric::process_virtual_memory_bytes, {}, pages * page_size);
  page.add(Metric::process_resident_memory_bytes, {}, resident * page_size);
  page.add(Metric::process_open_fds, {}, static_cast<double>(open_files()));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  page.add(Metric::process_max_fds, {}, static_cast<double>(limit.rlim_cur));
  static const double kStart = start_time();
  page.add(Metric::process_start_time_seconds, {}, kStart);
}

void add_memory(MetricsPage& page, const MemoryBudget& memory) {
  page.add(Metric::geminga_memory_limit_bytes, {}, static_cast<double>(memory.limit()));
  for (int use = 0; use < static_cast<int>(MemoryUse::kCount); ++use) {
    const auto kind = static_cast<MemoryUse>(use);
    page.add(Metric::geminga_memory_used_bytes, {std::string(to_string(kind))},
             static_cast<double>(memory.used(kind)));
  }
}

void add_stores(MetricsPage& page, const std::vector<LedgerStats>& logs,
                const MetadataStats& metadata) {
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const LedgerStats& log = logs[i];
    const std::string name = std::to_string(i);
    page.add(Metric::geminga_log_appends_total, {name}, count(log.appends));
    page.add(Metric::geminga_log_append_bytes_total, {name}, count(log.append_bytes));
    page.add(Metric::geminga_log_flushes_total, {name}, count(log.flushes));
    if (log.flush_time != nullptr) {
      page.add(Metric::geminga_log_flush_seconds, {name}, *log.flush_time);
    }
    page.add(Metric::geminga_log_segments, {name, "in_use"}, count(log.segments_in_use));
    page.add(Metric::geminga_log_segments, {name, "free"}, count(log.segments_free));
    page.add(Metric::geminga_log_disk_bytes, {name}, count(log.disk_bytes));
  }
  page.add(Metric::geminga_metadata_writes_total, {}, count(metadata.writes));
  page.add(Metric::geminga_metadata_groups_total, {}, count(metadata.groups));
  page.add(Metric::geminga_metadata_failed_writes_total, {}, count(metadata.failed));
  page.add(Metric::geminga_metadata_refused_writes_total, {}, count(metadata.refused));
}

void add_http(MetricsPage& page, const HttpCounters& http) {
  const auto add = [&](Metric metric, std::uint64_t value) {
    page.add(metric, {}, static_cast<double>(value));
  };
  add(Metric::geminga_http_connections_total, http.connections);
  add(Metric::geminga_http_connections_refused_total, http.connections_refused);
  add(Metric::geminga_http_requests_total, http.requests);
  add(Metric::geminga_http_requests_refused_total, http.requests_refused);
  add(Metric::geminga_http_requests_malformed_total, http.requests_malformed);
  add(Metric::geminga_http_timeouts_total, http.timeouts);
  add(Metric::geminga_http_failures_total, http.failures);
}

void add_broker(MetricsPage& page, const Snapshots& topics, const std::string& cluster) {
  double subscriptions = 0, producers = 0, consuming = 0, rate_in = 0, rate_out = 0, bytes_in = 0,
         bytes_out = 0;
  double stored = 0, backlog = 0;
  std::map<std::string, std::size_t> by_ns;
  for (const auto& topic : topics) {
    const TopicStats& s = topic.stats;
    ++by_ns[std::string(namespace_of_topic(topic.name))];
    subscriptions += count(s.subscriptions.size());
    producers += count(s.publishers.size());
    consuming += consumers(s);
    rate_in += s.msg_rate_in;
    rate_out += total(s, &SubscriptionStats::msg_rate_out);
    bytes_in += s.msg_throughput_in;
    bytes_out += total(s, &SubscriptionStats::msg_throughput_out);
    stored += count(s.storage_size);
    backlog += total(s, &SubscriptionStats::msg_backlog);
  }
  page.add(Metric::pulsar_broker_topics_count, {cluster}, count(topics.size()));
  page.add(Metric::pulsar_broker_subscriptions_count, {cluster}, subscriptions);
  page.add(Metric::pulsar_broker_producers_count, {cluster}, producers);
  page.add(Metric::pulsar_broker_consumers_count, {cluster}, consuming);
  page.add(Metric::pulsar_broker_rate_in, {cluster}, rate_in);
  page.add(Metric::pulsar_broker_rate_out, {cluster}, rate_out);
  page.add(Metric::pulsar_broker_throughput_in, {cluster}, bytes_in);
  page.add(Metric::pulsar_broker_throughput_out, {cluster}, bytes_out);
  page.add(Metric::pulsar_broker_storage_size, {cluster}, stored);
  page.add(Metric::pulsar_broker_storage_logical_size, {cluster}, stored);
  page.add(Metric::pulsar_broker_msg_backlog, {cluster}, backlog);
  for (const auto& [ns, topics_there] : by_ns) {
    page.add(Metric::pulsar_topics_count, {cluster, ns}, count(topics_there));
  }
}

Answer metrics(Admin& admin, HttpRequest&) {
  Snapshots topics = co_await admin.broker.topic_snapshots();
  const std::string cluster = admin.cluster();
  MetricsPage page;
  add_process(page);
  Runtime& runtime = admin.broker.runtime();
  add_memory(page, runtime.memory());
  for (unsigned i = 0; i < runtime.shard_count(); ++i) {
    Shard& shard = runtime.shard(i);
    auto load = [&shard]() -> Task<double> { co_return shard.take_load(); };
    const double busy = co_await on_shard(shard, load);
    page.add(Metric::geminga_shard_busy_ratio, {std::to_string(i)}, busy);
  }
  add_broker(page, topics, cluster);
  add_stores(page, co_await admin.broker.ledger_stats(), admin.metadata().stats());
  admin.broker.metrics().collect(page, cluster, admin.config().advertised_address);
  if (admin.metrics != nullptr) admin.metrics->collect(page);
  if (admin.http != nullptr) add_http(page, admin.http->counters());

  const bool topic_level = admin.config().expose_topic_level_metrics_in_prometheus;
  if (!topic_level) topics = by_namespace(topics);
  HttpResponse response;
  response.status = 200;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.stream =
      std::make_unique<MetricsStream>(page.text(), std::move(topics), cluster, topic_level);
  co_return response;
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/metrics", "Metrics in Prometheus' text format", metrics},
};

}  // namespace

void add_metrics_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
