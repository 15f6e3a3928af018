#include "server/metrics_page.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <concepts>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/metrics.h"
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "broker/transactions.h"
#include "ledger/ledger_store.h"
#include "metadata/metadata_store.h"
#include "server/admin/admin.h"
#include "server/http_server.h"
#include "server/topic_metrics.h"

namespace geminga {

namespace {

using CoordinatorStats = TransactionCoordinator::Stats;

constexpr Metric kExecutionTimes[] = {
    Metric::pulsar_txn_execution_latency_le_10,
    Metric::pulsar_txn_execution_latency_le_20,
    Metric::pulsar_txn_execution_latency_le_50,
    Metric::pulsar_txn_execution_latency_le_100,
    Metric::pulsar_txn_execution_latency_le_500,
    Metric::pulsar_txn_execution_latency_le_1000,
    Metric::pulsar_txn_execution_latency_le_5000,
    Metric::pulsar_txn_execution_latency_le_15000,
    Metric::pulsar_txn_execution_latency_le_30000,
    Metric::pulsar_txn_execution_latency_le_60000,
    Metric::pulsar_txn_execution_latency_le_300000,
    Metric::pulsar_txn_execution_latency_le_1500000,
    Metric::pulsar_txn_execution_latency_le_3000000,
    Metric::pulsar_txn_execution_latency_le_overflow,
};
static_assert(std::size(kExecutionTimes) ==
              TransactionCoordinator::ExecutionTime::kUpperBounds.size() + 1);

double count(std::integral auto n) { return static_cast<double>(n); }

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

void add_coordinators(MetricsPage& page, const std::string& cluster,
                      const std::vector<std::pair<std::uint64_t, CoordinatorStats>>& all) {
  std::int64_t asked = 0;
  for (const auto& [id, stats] : all) {
    const std::vector<std::string> labels{cluster, std::to_string(id)};
    page.add(Metric::pulsar_txn_active_count, labels, count(stats.ongoing));
    page.add(Metric::pulsar_txn_created_total, labels, count(stats.created));
    page.add(Metric::pulsar_txn_committed_total, labels, count(stats.committed));
    page.add(Metric::pulsar_txn_aborted_total, labels, count(stats.aborted));
    page.add(Metric::pulsar_txn_timeout_total, labels, count(stats.timed_out));
    page.add(Metric::pulsar_txn_append_log_total, labels, count(stats.records_written));
    for (std::size_t i = 0; i < std::size(kExecutionTimes); ++i)
      page.add(kExecutionTimes[i], labels, count(stats.execution_time.count(i)));
    asked += stats.participants_asked;
  }
  if (!all.empty())
    page.add(Metric::pulsar_txn_tb_client_pending_requests, {cluster}, count(asked));
}

Answer metrics(Admin& admin, HttpRequest&) {
  const std::string cluster = admin.cluster();
  TopicMetrics topics(cluster, admin.config());
  std::function<void(const Topic&)> visit = [&topics](const Topic& topic) { topics.take(topic); };
  co_await admin.broker.visit_topics(std::move(visit));
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
  topics.add_sums(page);
  add_coordinators(page, cluster, co_await admin.broker.transactions().stats_of_open());
  add_stores(page, co_await admin.broker.ledger_stats(), admin.metadata().stats());
  admin.broker.metrics().collect(page, cluster, admin.config().advertised_address);
  if (admin.metrics != nullptr) admin.metrics->collect(page);
  if (admin.http != nullptr) add_http(page, admin.http->counters());

  HttpResponse response;
  response.status = 200;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.stream = topics.stream(page.text());
  co_return response;
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/metrics", "Metrics in Prometheus' text format", metrics},
};

}  // namespace

void add_metrics_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
