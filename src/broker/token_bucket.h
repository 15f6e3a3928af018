// Rates as token buckets: what may pass is computed from the time when it is asked, so that nothing
// runs between messages. What passes is taken even if it is more than is there, and paid back by
// waiting: over time the rate is exact, also with batches larger than it. Times are monotonic
// nanoseconds. Values; one owner.
#pragma once

#include <algorithm>
#include <cstdint>

namespace geminga {

// In a second; 0 and less: no limit.
struct Rate {
  double messages = 0;
  double bytes = 0;
  double period_s = 1;                    // how long what was not used is kept
  bool relative_to_publish_rate = false;  // it is allowed over the rate of publishing

  bool limited() const { return messages > 0 || bytes > 0; }
  friend bool operator==(const Rate&, const Rate&) = default;
};

class TokenBucket {
 public:
  // A new limit starts with a full bucket; the same one again changes nothing.
  void set(double per_second, double period_s, std::int64_t now_ns) {
    if (per_second == per_second_ && burst_of(per_second, period_s) == burst_) return;
    const bool was_limited = limited();
    refill(now_ns);
    per_second_ = per_second;
    burst_ = burst_of(per_second, period_s);
    tokens_ = was_limited ? std::min(tokens_, burst_) : burst_;
    filled_ns_ = now_ns;
  }
  bool limited() const { return per_second_ > 0; }

  void take(double tokens, std::int64_t now_ns) {
    if (!limited()) return;
    refill(now_ns);
    tokens_ -= tokens;
  }
  // How long until something may pass; 0: now.
  std::int64_t wait_ns(std::int64_t now_ns) const {
    if (!limited()) return 0;
    const double missing = 1.0 - filled(now_ns);
    if (missing <= 0) return 0;
    return static_cast<std::int64_t>(missing / per_second_ * 1e9) + 1;
  }

 private:
  static double burst_of(double per_second, double period_s) {
    return std::max(per_second * period_s, 1.0);
  }
  double filled(std::int64_t now_ns) const {
    const double seconds = static_cast<double>(now_ns - filled_ns_) / 1e9;
    return std::min(burst_, tokens_ + seconds * per_second_);
  }
  void refill(std::int64_t now_ns) {
    tokens_ = filled(now_ns);
    filled_ns_ = now_ns;
  }

  double per_second_ = 0;
  double burst_ = 1;
  double tokens_ = 0;
  std::int64_t filled_ns_ = 0;
};

class RateLimiter {
 public:
  void set(const Rate& rate, std::int64_t now_ns) {
    rate_ = rate;
    follow(Rate(), now_ns);
  }
  const Rate& rate() const { return rate_; }
  bool limited() const { return rate_.limited(); }
  // What is published now, for limits that are relative to it.
  void follow(const Rate& published, std::int64_t now_ns) {
    const bool over = rate_.relative_to_publish_rate;
    const auto allowed = [&](double rate, double base) {
      return rate > 0 && over ? rate + base : rate;
    };
    messages_.set(allowed(rate_.messages, published.messages), rate_.period_s, now_ns);
    bytes_.set(allowed(rate_.bytes, published.bytes), rate_.period_s, now_ns);
  }
  void take(std::int64_t messages, std::int64_t bytes, std::int64_t now_ns) {
    messages_.take(static_cast<double>(messages), now_ns);
    bytes_.take(static_cast<double>(bytes), now_ns);
  }
  std::int64_t wait_ns(std::int64_t now_ns) const {
    return std::max(messages_.wait_ns(now_ns), bytes_.wait_ns(now_ns));
  }

 private:
  Rate rate_;
  TokenBucket messages_;
  TokenBucket bytes_;
};

}  // namespace geminga
