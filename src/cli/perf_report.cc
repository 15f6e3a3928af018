#include "cli/perf_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdio>

#include "base/clock.h"

namespace geminga {

namespace {

namespace json = boost::json;

constexpr double kMs = 1e6;  // nanoseconds

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }
double ms(std::int64_t ns) { return static_cast<double>(ns) / kMs; }

json::object latency_json(const Histogram& h) {
  return {{"count", h.count()},
          {"min", ms(h.min())},
          {"mean", h.mean() / kMs},
          {"p50", ms(h.percentile(50))},
          {"p95", ms(h.percentile(95))},
          {"p99", ms(h.percentile(99))},
          {"p99_9", ms(h.percentile(99.9))},
          {"max", ms(h.max())}};
}

std::string latency_text(const Histogram& h) {
  return fmt::format("p50 {:.3f}  p95 {:.3f}  p99 {:.3f}  p99.9 {:.3f}  max {:.3f} ms",
                     ms(h.percentile(50)), ms(h.percentile(95)), ms(h.percentile(99)),
                     ms(h.percentile(99.9)), ms(h.max()));
}

std::string rate_text(double messages, double bytes, double seconds) {
  return fmt::format("{:.0f} msg/s  {:.2f} MB/s", per_second(messages, seconds),
                     per_second(bytes, seconds) / 1e6);
}

bool produces(PerfMode mode) { return mode == PerfMode::Produce || mode == PerfMode::Latency; }
bool consumes(PerfMode mode) { return mode != PerfMode::Produce; }

}  // namespace

ProgressLine::ProgressLine(const PerfOptions& options, std::int64_t start_ns)
    : options_(options), start_ns_(start_ns), last_ns_(start_ns) {}

void ProgressLine::print(const LoadTotals& totals, const LoadInterval& interval) {
  const std::int64_t now = monotonic_ns();
  const double seconds = static_cast<double>(now - last_ns_) / 1e9;
  std::string line = fmt::format("{:6.1f} s", static_cast<double>(now - start_ns_) / 1e9);
  if (produces(options_.mode)) {
    const auto messages = static_cast<double>(totals.acknowledged - last_.acknowledged);
    line +=
        fmt::format(" | published {}",
                    rate_text(messages, messages * static_cast<double>(options_.size), seconds));
    line +=
        fmt::format("  p50 {:.2f} p99 {:.2f} max {:.2f} ms", ms(interval.publish.percentile(50)),
                    ms(interval.publish.percentile(99)), ms(interval.publish.max()));
  }
  if (consumes(options_.mode)) {
    line += fmt::format(
        " | received {}",
        rate_text(static_cast<double>(totals.received - last_.received),
                  static_cast<double>(totals.received_bytes - last_.received_bytes), seconds));
    if (interval.end_to_end.count() > 0) {
      line += fmt::format("  p50 {:.2f} p99 {:.2f} ms", ms(interval.end_to_end.percentile(50)),
                          ms(interval.end_to_end.percentile(99)));
    }
  }
  if (totals.failed > 0) line += fmt::format(" | {} failed", totals.failed);
  last_ns_ = now;
  last_ = totals;
  // On a terminal the line is written over; in a log each stands by itself.
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
  printed_ = terminal;
}

void ProgressLine::end() {
  if (printed_) std::fputc('\n', stderr);
  printed_ = false;
}

void print_summary(const PerfOptions& options, const LoadReport& report) {
  const LoadResults& r = report.results;
  std::FILE* to = options.json == "-" ? stderr : stdout;
  if (produces(options.mode)) {
    const auto messages = static_cast<double>(r.acknowledged_in_window);
    fmt::print(
        to, "published {} of {} messages: {}\n", report.totals.acknowledged, report.totals.sent,
        rate_text(messages, messages * static_cast<double>(options.size), report.produce_seconds));
    fmt::print(to, "  publish latency     {}\n", latency_text(r.publish));
    if (options.rate > 0) fmt::print(to, "  generator's delay   {}\n", latency_text(r.lateness));
  }
  if (consumes(options.mode)) {
    fmt::print(to, "received {} messages: {}\n", report.totals.received,
               rate_text(static_cast<double>(r.received_in_window),
                         static_cast<double>(r.received_bytes_in_window), report.consume_seconds));
    if (r.end_to_end.count() > 0)
      fmt::print(to, "  end-to-end latency  {}\n", latency_text(r.end_to_end));
  }
  fmt::print(to, "this process used {:.0f} % of a core\n",
             100 * per_second(report.client_cpu_seconds, report.window_seconds));
  if (!report.failed()) return;
  fmt::print(
      to, "FAILED: {} failed, {} without a receipt, {} acknowledged but not received, {} damaged\n",
      report.totals.failed, r.unanswered, report.missing, r.damaged);
  for (const auto& [text, times] : r.errors) fmt::print(to, "  {} x {}\n", times, text);
}

std::string report_json(const PerfOptions& options, const LoadReport& report) {
  const LoadResults& r = report.results;
  json::object out{{"command", perf_mode_name(options.mode)},
                   {"url", options.service_url},
                   {"topic", options.topic},
                   {"topics", options.topics},
                   {"seconds", report.window_seconds},
                   {"failed", report.totals.failed},
                   {"unanswered", r.unanswered},
                   {"missing", report.missing},
                   {"damaged", r.damaged},
                   {"client_cpu_seconds", report.client_cpu_seconds}};
  if (produces(options.mode)) {
    const auto messages = static_cast<double>(r.acknowledged_in_window);
    out["size"] = options.size;
    out["target_rate"] = options.rate;
    out["batching"] = options.batching;
    out["in_flight"] = options.messages_in_flight();
    out["sent"] = report.totals.sent;
    out["acknowledged"] = report.totals.acknowledged;
    out["publish"] = json::object{
        {"messages", r.acknowledged_in_window},
        {"seconds", report.produce_seconds},
        {"rate", per_second(messages, report.produce_seconds)},
        {"mb_per_s",
         per_second(messages * static_cast<double>(options.size), report.produce_seconds) / 1e6},
        {"latency_ms", latency_json(r.publish)},
        {"generator_delay_ms", latency_json(r.lateness)}};
  }
  if (consumes(options.mode)) {
    out["received"] = report.totals.received;
    out["consume"] = json::object{
        {"messages", r.received_in_window},
        {"seconds", report.consume_seconds},
        {"rate", per_second(static_cast<double>(r.received_in_window), report.consume_seconds)},
        {"mb_per_s",
         per_second(static_cast<double>(r.received_bytes_in_window), report.consume_seconds) / 1e6},
        {"end_to_end_ms", latency_json(r.end_to_end)}};
  }
  json::object errors;
  for (const auto& [text, times] : r.errors) errors[text] = times;
  out["errors"] = errors;
  return json::serialize(out);
}

Status write_json(const PerfOptions& options, const std::string& text) {
  if (options.json.empty()) return Status::ok();
  if (options.json == "-") {
    std::printf("%s\n", text.c_str());
    return Status::ok();
  }
  std::FILE* file = std::fopen(options.json.c_str(), "w");
  if (file == nullptr)
    return Status::Io(fmt::format("cannot write {}: {}", options.json, std::strerror(errno)));
  const bool written = std::fprintf(file, "%s\n", text.c_str()) > 0;
  if (std::fclose(file) != 0 || !written)
    return Status::Io(fmt::format("cannot write {}", options.json));
  return Status::ok();
}

}  // namespace geminga
