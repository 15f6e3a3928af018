// Metrics: counters and gauges that cost one increment, and the page that Prometheus reads.
//
// A Counter, Gauge or TimeHistogram belongs to whoever counts and has one writing thread (its
// shard); reading it is safe on any thread. What is registered in a MetricsRegistry appears on the
// page until its Registration dies; samples of the same name and labels (one a shard) are added up.
// What is known only when asked (rates, topic stats) is put on a MetricsPage directly. Names,
// types, labels and help come from base/metrics.inc.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace geminga {

enum class MetricType : std::uint8_t { Counter, Gauge, Histogram };

enum class Metric : std::uint16_t {
#define GM_METRIC(name, type, labels, help) name,
#include "base/metrics.inc"
#undef GM_METRIC
};

struct MetricInfo {
  std::string_view name;
  MetricType type;
  std::string_view labels;  // names, comma-separated
  std::string_view help;
};
std::span<const MetricInfo> metric_table();
const MetricInfo& metric_info(Metric metric);

class Counter {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t n) { set(value() + n); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Durations in buckets of doubling size, from 16 us to 8 s.
class TimeHistogram {
 public:
  static constexpr std::size_t kBuckets = 20;  // and one for all above
  static constexpr std::int64_t kFirstNs = 16'000;

  void record_ns(std::int64_t ns) {
    std::size_t bucket = 0;
    for (std::int64_t top = kFirstNs; bucket < kBuckets && ns > top; top *= 2) ++bucket;
    counts_[bucket].add();
    sum_ns_.add(static_cast<std::uint64_t>(ns < 0 ? 0 : ns));
  }
  std::uint64_t count(std::size_t bucket) const { return counts_[bucket].value(); }
  std::uint64_t sum_ns() const { return sum_ns_.value(); }
  static double top_seconds(std::size_t bucket);

 private:
  std::array<Counter, kBuckets + 1> counts_;
  Counter sum_ns_;
};

// One answer to a scrape. Used by one thread.
class MetricsPage {
 public:
  // `labels`: values by position, as many as the metric has names. Values of the same labels add
  // up.
  void add(Metric metric, std::vector<std::string> labels, double value);
  void add(Metric metric, std::vector<std::string> labels, const TimeHistogram& histogram);
  // Prometheus' text format, version 0.0.4; names in the order of the table.
  std::string text() const;

 private:
  struct Buckets {
    std::array<std::uint64_t, TimeHistogram::kBuckets + 1> counts{};
    double sum = 0;
  };
  std::map<Metric, std::map<std::vector<std::string>, double>> values_;
  std::map<Metric, std::map<std::vector<std::string>, Buckets>> histograms_;
};

// What is to be read at each scrape. Registering takes a lock, counting never does. Any thread;
// outlives its registrations.
class MetricsRegistry {
 public:
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class MetricsRegistry;
    MetricsRegistry* registry_ = nullptr;
    std::uint64_t id_ = 0;
  };

  // The object outlives its registration.
  [[nodiscard]] Registration add(Metric metric, std::vector<std::string> labels,
                                 const Counter& counter);
  [[nodiscard]] Registration add(Metric metric, std::vector<std::string> labels,
                                 const Gauge& gauge);
  [[nodiscard]] Registration add(Metric metric, std::vector<std::string> labels,
                                 const TimeHistogram& histogram);

  void collect(MetricsPage& page) const;

 private:
  struct Source {
    Metric metric;
    std::vector<std::string> labels;
    const Counter* counter = nullptr;
    const Gauge* gauge = nullptr;
    const TimeHistogram* histogram = nullptr;
  };
  Registration add_source(Source source);
  void remove(std::uint64_t id);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Source> sources_;
  std::uint64_t next_id_ = 1;
};

// A value of a label with \ " and newlines escaped.
std::string escape_label(std::string_view value);
void append_escaped(std::string& out, std::string_view value);
// docs/reference/metrics.md.
std::string metrics_reference_markdown();

}  // namespace geminga
