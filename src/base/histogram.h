// Counts of values with three significant digits, as HdrHistogram keeps them: exact below 2048,
// then 1024 buckets for each doubling. Made for latencies in nanoseconds, but any value from 0 on
// will do.
//
// record() is a few instructions and allocates only when a value larger than all before comes.
// Values; one thread at a time (merge() those of several).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace geminga {

class Histogram {
 public:
  // Negative values count as 0.
  void record(std::int64_t value, std::uint64_t times = 1) {
    const auto v = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    const std::size_t bucket = bucket_of(v);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1);
    counts_[bucket] += times;
    count_ += times;
    sum_ += static_cast<double>(v) * static_cast<double>(times);
    min_ = std::min(min_, v);
    max_ = std::max(max_, v);
  }

  void merge(const Histogram& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  void reset() { *this = Histogram(); }

  std::uint64_t count() const { return count_; }
  std::int64_t min() const { return count_ == 0 ? 0 : static_cast<std::int64_t>(min_); }
  std::int64_t max() const { return static_cast<std::int64_t>(max_); }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // The value that `percent` of all values do not exceed: the upper end of its bucket, at most the
  // largest value. 0 when nothing was recorded.
  std::int64_t percentile(double percent) const {
    if (count_ == 0) return 0;
    // Less a grain, so that 99.9 % of 1000 is the 999th and not, by rounding, the 1000th.
    const double exact = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(count_) - 1e-6;
    const std::uint64_t wanted = exact <= 0 ? 1 : static_cast<std::uint64_t>(std::ceil(exact));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (seen >= wanted) return static_cast<std::int64_t>(std::min(top_of(bucket), max_));
    }
    return max();
  }

 private:
  static constexpr std::size_t kExact = 2048;
  static constexpr std::size_t kHalf = kExact / 2;

  static std::size_t bucket_of(std::uint64_t value) {
    if (value < kExact) return value;
    const auto shift = static_cast<std::size_t>(std::bit_width(value)) - 11;
    return kExact + (shift - 1) * kHalf + (static_cast<std::size_t>(value >> shift) - kHalf);
  }
  static std::uint64_t top_of(std::size_t bucket) {
    if (bucket < kExact) return bucket;
    const std::size_t shift = (bucket - kExact) / kHalf + 1;
    const std::uint64_t head = (bucket - kExact) % kHalf + kHalf;
    return ((head + 1) << shift) - 1;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t max_ = 0;
};

}  // namespace geminga
