// How many values fell into each of a few ranges, and their sum, as Pulsar shows latencies: a value
// counts in the first range whose upper bound it does not pass and in no other (Prometheus'
// histograms add up, these do not). Values; one writer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace geminga {

template <std::int64_t... kBounds>
class RangeCounts {
 public:
  static constexpr std::array<std::int64_t, sizeof...(kBounds)> kUpperBounds{kBounds...};

  void record(std::int64_t value) {
    std::size_t range = 0;
    while (range < kUpperBounds.size() && value > kUpperBounds[range]) ++range;
    ++counts_[range];
    ++total_;
    sum_ += value;
  }
  // `range` == kUpperBounds.size(): what is above all bounds.
  std::int64_t count(std::size_t range) const { return counts_[range]; }
  std::int64_t total() const { return total_; }
  std::int64_t sum() const { return sum_; }

 private:
  std::array<std::int64_t, sizeof...(kBounds) + 1> counts_{};
  std::int64_t total_ = 0;
  std::int64_t sum_ = 0;
};

// Microseconds, in the ranges that Pulsar has for writes.
using WriteLatency =
    RangeCounts<500, 1'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 1'000'000>;

}  // namespace geminga
