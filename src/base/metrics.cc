#include "base/metrics.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <iterator>
#include <utility>

namespace geminga {

namespace {

constexpr MetricInfo kTable[] = {
#define GM_METRIC(name, type, labels, help) MetricInfo{#name, MetricType::type, labels, help},
#include "base/metrics.inc"
#undef GM_METRIC
};

std::string_view type_name(MetricType type) {
  switch (type) {
    case MetricType::Counter: return "counter";
    case MetricType::Gauge: return "gauge";
    case MetricType::Histogram: return "histogram";
  }
  return "untyped";
}

std::vector<std::string_view> label_names(std::string_view names) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    out.push_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return out;
}

// name="value",... ; `le` is the bucket of a histogram, empty for others.
std::string label_text(const MetricInfo& info, const std::vector<std::string>& values,
                       std::string_view le) {
  std::string out;
  const std::vector<std::string_view> names = label_names(info.labels);
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("{}{}=\"{}\"", i == 0 ? "" : ",", names[i], escape_label(values[i]));
  }
  if (!le.empty()) out += fmt::format("{}le=\"{}\"", names.empty() ? "" : ",", le);
  return out.empty() ? out : "{" + out + "}";
}

// Whole numbers without an exponent: counts stay readable.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::fabs(value) < 1e15) {
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  return fmt::format("{}", value);
}

void check_labels([[maybe_unused]] Metric metric,
                  [[maybe_unused]] const std::vector<std::string>& labels) {
  assert(label_names(metric_info(metric).labels).size() == labels.size());
}

}  // namespace

std::span<const MetricInfo> metric_table() { return kTable; }
const MetricInfo& metric_info(Metric metric) { return kTable[static_cast<std::size_t>(metric)]; }

double TimeHistogram::top_seconds(std::size_t bucket) {
  return static_cast<double>(kFirstNs << bucket) / 1e9;
}

void MetricsPage::add(Metric metric, std::vector<std::string> labels, double value) {
  check_labels(metric, labels);
  values_[metric][std::move(labels)] += value;
}

void MetricsPage::add(Metric metric, std::vector<std::string> labels,
                      const TimeHistogram& histogram) {
  check_labels(metric, labels);
  Buckets& buckets = histograms_[metric][std::move(labels)];
  for (std::size_t i = 0; i < buckets.counts.size(); ++i) buckets.counts[i] += histogram.count(i);
  buckets.sum += static_cast<double>(histogram.sum_ns()) / 1e9;
}

std::string MetricsPage::text() const {
  std::string out;
  for (std::size_t i = 0; i < std::size(kTable); ++i) {
    const auto metric = static_cast<Metric>(i);
    const auto values = values_.find(metric);
    const auto histograms = histograms_.find(metric);
    if (values == values_.end() && histograms == histograms_.end()) continue;
    const MetricInfo& info = kTable[i];
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", info.name, info.help, info.name,
                       type_name(info.type));
    if (values != values_.end()) {
      for (const auto& [labels, value] : values->second) {
        out += fmt::format("{}{} {}\n", info.name, label_text(info, labels, ""), number(value));
      }
    }
    if (histograms == histograms_.end()) continue;
    for (const auto& [labels, buckets] : histograms->second) {
      std::uint64_t so_far = 0;
      for (std::size_t b = 0; b < buckets.counts.size(); ++b) {
        so_far += buckets.counts[b];
        const std::string le = b < TimeHistogram::kBuckets ? number(TimeHistogram::top_seconds(b))
                                                           : std::string("+Inf");
        out += fmt::format("{}_bucket{} {}\n", info.name, label_text(info, labels, le), so_far);
      }
      out += fmt::format("{}_sum{} {}\n", info.name, label_text(info, labels, ""),
                         number(buckets.sum));
      out += fmt::format("{}_count{} {}\n", info.name, label_text(info, labels, ""), so_far);
    }
  }
  return out;
}

MetricsRegistry::Registration::Registration(Registration&& other) noexcept
    : registry_(std::exchange(other.registry_, nullptr)), id_(other.id_) {}

MetricsRegistry::Registration& MetricsRegistry::Registration::operator=(
    Registration&& other) noexcept {
  std::swap(registry_, other.registry_);
  std::swap(id_, other.id_);
  return *this;
}

MetricsRegistry::Registration::~Registration() {
  if (registry_ != nullptr) registry_->remove(id_);
}

MetricsRegistry::Registration MetricsRegistry::add(Metric metric, std::vector<std::string> labels,
                                                   const Counter& counter) {
  Source source{metric, std::move(labels)};
  source.counter = &counter;
  return add_source(std::move(source));
}

MetricsRegistry::Registration MetricsRegistry::add(Metric metric, std::vector<std::string> labels,
                                                   const Gauge& gauge) {
  Source source{metric, std::move(labels)};
  source.gauge = &gauge;
  return add_source(std::move(source));
}

MetricsRegistry::Registration MetricsRegistry::add(Metric metric, std::vector<std::string> labels,
                                                   const TimeHistogram& histogram) {
  Source source{metric, std::move(labels)};
  source.histogram = &histogram;
  return add_source(std::move(source));
}

MetricsRegistry::Registration MetricsRegistry::add_source(Source source) {
  check_labels(source.metric, source.labels);
  Registration registration;
  registration.registry_ = this;
  const std::lock_guard lock(mutex_);
  registration.id_ = next_id_++;
  sources_.emplace(registration.id_, std::move(source));
  return registration;
}

void MetricsRegistry::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  sources_.erase(id);
}

void MetricsRegistry::collect(MetricsPage& page) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, source] : sources_) {
    if (source.counter != nullptr) {
      page.add(source.metric, source.labels, static_cast<double>(source.counter->value()));
    } else if (source.gauge != nullptr) {
      page.add(source.metric, source.labels, static_cast<double>(source.gauge->value()));
    } else {
      page.add(source.metric, source.labels, *source.histogram);
    }
  }
}

void append_escaped(std::string& out, std::string_view value) {
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

std::string escape_label(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  append_escaped(out, value);
  return out;
}

std::string metrics_reference_markdown() {
  std::string out =
      "# Metrics\n\nWhat `/metrics` can show. Made from `src/base/metrics.inc`.\n\n"
      "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  for (const MetricInfo& info : kTable) {
    out += fmt::format("| `{}` | {} | {} | {} |\n", info.name, type_name(info.type), info.labels,
                       info.help);
  }
  return out;
}

}  // namespace geminga
