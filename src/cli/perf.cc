// `geminga perf`: sets up the workers, watches over the run, reports.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <csignal>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/perf_load.h"
#include "cli/perf_machine.h"
#include "cli/perf_options.h"
#include "cli/perf_report.h"

namespace geminga {

namespace {

using Workers = std::vector<std::unique_ptr<LoadWorker>>;

// How long receipts and messages that are still under way are waited for at the end.
constexpr Millis kPatience{30'000};
constexpr Millis kNoProgress{10'000};

volatile std::sig_atomic_t interrupted = 0;

void install_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);  // the second Ctrl-C ends at once
  };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int fail(const PerfOptions& options, const Status& status) {
  std::fprintf(stderr, "geminga perf %s: %s\n", perf_mode_name(options.mode),
               status.to_string().c_str());
  return kExitFailed;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Asks the broker for the partitions of every topic; the names of all partitions.
Task<Result<std::vector<std::string>>> resolve_topics(const PerfOptions& options,
                                                      client::Client& client) {
  std::vector<std::string> resolved;
  for (const std::string& topic : options.topic_names()) {
    const auto partitions = co_await client.partitions(topic);
    if (!partitions.is_ok()) co_return partitions.status();
    if (options.partitions != 0 && *partitions != options.partitions) {
      co_return Status::InvalidArgument(
          fmt::format("{} has {} partitions, not {}; create it first (pulsar-admin topics "
                      "create-partitioned-topic {} -p {})",
                      topic, *partitions, options.partitions, topic, options.partitions));
    }
    if (*partitions == 0) resolved.push_back(topic);
    for (std::uint32_t i = 0; i < *partitions; ++i)
      resolved.push_back(fmt::format("{}-partition-{}", topic, i));
  }
  co_return resolved;
}

Result<std::vector<std::string>> resolve_topics(const PerfOptions& options) {
  asio::io_context io(1);
  client::ClientOptions wanted;
  wanted.service_url = options.service_url;
  if (!options.token.empty()) {
    wanted.auth_method = "token";
    wanted.auth_data = options.token;
  }
  client::Client client(io, std::move(wanted));
  auto answer = asio::co_spawn(
      io,
      [&]() -> Task<Result<std::vector<std::string>>> {
        auto topics = co_await resolve_topics(options, client);
        client.close();
        co_return topics;
      },
      asio::use_future);
  io.run();
  return answer.get();
}

LoadTotals totals_of(const Workers& workers) {
  LoadTotals totals;
  for (const auto& worker : workers) {
    const LoadCounters& c = worker->counters();
    totals.sent += c.sent.load(std::memory_order_relaxed);
    totals.acknowledged += c.acknowledged.load(std::memory_order_relaxed);
    totals.failed += c.failed.load(std::memory_order_relaxed);
    totals.received += c.received.load(std::memory_order_relaxed);
    totals.received_bytes += c.received_bytes.load(std::memory_order_relaxed);
  }
  return totals;
}

bool all_done(const Workers& workers) {
  return std::all_of(workers.begin(), workers.end(),
                     [](const auto& worker) { return worker->done(); });
}

Result<Workers> prepare(const PerfOptions& options) {
  GM_ASSIGN_OR_RETURN(const auto topics, resolve_topics(options));
  const bool produce = options.mode == PerfMode::Produce || options.mode == PerfMode::Latency;
  const bool consume = options.mode != PerfMode::Produce;
  const std::size_t threads = options.threads;
  std::vector<std::vector<std::string>> produce_to(threads);
  std::vector<std::vector<std::string>> consume_from(threads);
  std::size_t producers = 0;
  std::size_t consumers = 0;
  for (const std::string& topic : topics) {
    for (unsigned i = 0; produce && i < options.producers; ++i)
      produce_to[producers++ % threads].push_back(topic);
    for (unsigned i = 0; consume && i < options.consumers; ++i)
      consume_from[consumers++ % threads].push_back(topic);
  }
  const std::size_t ends = produce ? producers : consumers;
  Workers workers;
  std::uint64_t messages_given = 0;
  std::size_t ends_given = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    const std::size_t own = produce ? produce_to[t].size() : consume_from[t].size();
    if (own == 0 && consume_from[t].empty()) continue;
    // Shares by number of producers (consumers); the roundings add up to the whole.
    ends_given += own;
    const std::uint64_t upto = options.messages * ends_given / ends;
    const std::uint64_t messages = upto - std::exchange(messages_given, upto);
    if (options.messages != 0 && messages == 0) continue;
    workers.push_back(std::make_unique<LoadWorker>(
        options, options.rate * static_cast<double>(own) / static_cast<double>(ends), messages));
    GM_RETURN_IF_ERROR(
        workers.back()->prepare(std::move(produce_to[t]), std::move(consume_from[t])));
  }
  return workers;
}

// Until the duration is over, all is done, something failed for good, or Ctrl-C.
void watch(const PerfOptions& options, const Workers& workers, std::int64_t start_ns) {
  ProgressLine progress(options, start_ns);
  std::int64_t next_line = start_ns + 1'000'000'000;
  const std::int64_t end = start_ns + static_cast<std::int64_t>(options.duration_s * 1e9);
  while (interrupted == 0 && !all_done(workers)) {
    const std::int64_t now = monotonic_ns();
    if (options.duration_s > 0 && now >= end) break;
    if (now >= next_line) {
      next_line += 1'000'000'000;
      if (!options.quiet) {
        LoadInterval interval;
        for (const auto& worker : workers) {
          const LoadInterval own = worker->take_interval();
          interval.publish.merge(own.publish);
          interval.end_to_end.merge(own.end_to_end);
        }
        progress.print(totals_of(workers), interval);
      }
    }
    const std::int64_t pause = std::min<std::int64_t>(next_line - now, 10'000'000);
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<std::int64_t>(pause, 0)));
  }
  progress.end();
}

// Every acknowledged message is waited for as long as messages keep coming.
void wait_for_consumers(const Workers& workers) {
  std::uint64_t received = 0;
  std::int64_t since = monotonic_ns();
  while (interrupted == 0) {
    const LoadTotals totals = totals_of(workers);
    if (totals.received >= totals.acknowledged) return;
    const std::int64_t now = monotonic_ns();
    if (totals.received != received) {
      received = totals.received;
      since = now;
    }
    if (now - since > kNoProgress.count() * 1'000'000) return;
    std::this_thread::sleep_for(Millis(1));
  }
}

int run_load(const PerfOptions& options) {
  install_signals();
  auto prepared = prepare(options);
  if (!prepared.is_ok()) return fail(options, prepared.status());
  Workers workers = std::move(prepared).value();

  const std::int64_t start_ns = monotonic_ns() + 20'000'000;
  const std::int64_t window_ns = start_ns + static_cast<std::int64_t>(options.warmup_s * 1e9);
  const double cpu_before = cpu_seconds();
  for (const auto& worker : workers) worker->start(start_ns, window_ns);
  watch(options, workers, start_ns);
  for (const auto& worker : workers) worker->stop_sending();
  const bool produce = options.mode == PerfMode::Produce || options.mode == PerfMode::Latency;
  const std::int64_t give_up = monotonic_ns() + kPatience.count() * 1'000'000;
  while (produce && !all_done(workers) && monotonic_ns() < give_up)
    std::this_thread::sleep_for(Millis(1));
  if (options.mode == PerfMode::Latency) wait_for_consumers(workers);
  const std::int64_t end_ns = monotonic_ns();

  LoadReport report;
  report.client_cpu_seconds = cpu_seconds() - cpu_before;
  for (const auto& worker : workers) report.results.merge(worker->finish(Millis(1000)));
  report.totals = totals_of(workers);
  const LoadResults& r = report.results;
  report.window_seconds = static_cast<double>(end_ns - start_ns) / 1e9;
  report.produce_seconds =
      static_cast<double>(std::max<std::int64_t>(r.last_acknowledged_ns - window_ns, 0)) / 1e9;
  const std::int64_t first = options.mode == PerfMode::Latency ? window_ns : r.first_received_ns;
  report.consume_seconds =
      static_cast<double>(std::max<std::int64_t>(r.last_received_ns - first, 0)) / 1e9;
  if (options.mode == PerfMode::Latency && report.totals.acknowledged > report.totals.received) {
    report.missing = report.totals.acknowledged - report.totals.received;
  }
  print_summary(options, report);
  const Status written = write_json(options, report_json(options, report));
  if (!written.is_ok()) return fail(options, written);
  return report.failed() ? kExitFailed : kExitOk;
}

}  // namespace

int perf_main(int argc, char** argv) {
  PerfOptions options;
  if (const int code = parse_perf_options(argc, argv, options); code >= 0) return code;
  std::signal(SIGPIPE, SIG_IGN);
  if (options.mode <= PerfMode::Read) return run_load(options);
  const auto measured = options.mode == PerfMode::Disk     ? measure_disk(options)
                        : options.mode == PerfMode::Memcpy ? measure_memcpy(options)
                                                           : measure_loopback(options);
  if (!measured) return fail(options, measured.status());
  const Status written = write_json(options, *measured);
  return written.is_ok() ? kExitOk : fail(options, written);
}

}  // namespace geminga
