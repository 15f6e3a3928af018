// How many a second, over the last ten to twenty seconds, for stats. Costs an addition and a
// comparison an event; nothing has to run between events. Times are monotonic nanoseconds. Values;
// one owner.
#pragma once

#include <cstdint>

namespace geminga {

class WindowedRate {
 public:
  void add(std::int64_t count, std::int64_t now_ns) {
    roll(now_ns);
    current_ += count;
  }
  double per_second(std::int64_t now_ns) const {
    WindowedRate copy = *this;
    copy.roll(now_ns);
    const std::int64_t span = (copy.has_previous_ ? kSpan : 0) + (now_ns - copy.began_ns_);
    // Shorter than a second, a rate would be noise.
    const std::int64_t over = span < 1'000'000'000 ? 1'000'000'000 : span;
    return static_cast<double>(copy.previous_ + copy.current_) * 1e9 / static_cast<double>(over);
  }

 private:
  static constexpr std::int64_t kSpan = 10'000'000'000;
  void roll(std::int64_t now_ns) {
    if (now_ns - began_ns_ < kSpan) return;
    has_previous_ = now_ns - began_ns_ < 2 * kSpan;
    previous_ = has_previous_ ? current_ : 0;
    began_ns_ = has_previous_ ? began_ns_ + kSpan : now_ns;
    current_ = 0;
  }

  std::int64_t began_ns_ = 0;
  std::int64_t current_ = 0;
  std::int64_t previous_ = 0;
  bool has_previous_ = false;
};

}  // namespace geminga
