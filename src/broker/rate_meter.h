// Counts events; the rate is that of the last whole interval between two tick()s, so that counting
// needs no clock. Values; one shard.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace geminga {

class RateMeter {
 public:
  void add(std::int64_t n) { total_ += n; }
  std::int64_t total() const { return total_; }

  // Ends an interval.
  void tick(std::int64_t now) {
    if (now <= since_ms_) return;
    rate_ = per_second(now);
    ticked_ = true;
    since_total_ = total_;
    since_ms_ = now;
  }
  // Before the first tick: the rate since the start.
  double rate() const {
    const std::int64_t now = now_ms();
    return ticked_ || now <= since_ms_ ? rate_ : per_second(now);
  }

 private:
  double per_second(std::int64_t now) const {
    return static_cast<double>(total_ - since_total_) * 1000.0 /
           static_cast<double>(now - since_ms_);
  }

  std::int64_t total_ = 0;
  std::int64_t since_total_ = 0;
  std::int64_t since_ms_ = now_ms();
  double rate_ = 0;
  bool ticked_ = false;
};

}  // namespace geminga
