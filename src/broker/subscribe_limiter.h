// How often one consumer may subscribe to a topic in a period. Counts those of the period that
// runs, a bounded number of them. Owned by a topic; used on its shard.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "broker/subscription.h"

namespace geminga {

// What a consumer that comes back has in common with the one that left.
inline std::string consumer_identity(const SubscribeRequest& request) {
  const std::string& address = request.outbox->peer().address;
  return address.substr(0, address.rfind(':')) + '/' + request.consumer_name + '/' +
         std::to_string(request.consumer_id);
}

class SubscribeLimiter {
 public:
  static constexpr std::size_t kMostConsumers = 10'000;  // counted at a time; more pass

  // `most` 0 and less: no limit.
  void set(std::int64_t most, std::int64_t period_s) {
    if (most != most_ || period_s != period_s_) counts_.clear();
    most_ = most;
    period_s_ = period_s;
  }
  bool limited() const { return most_ > 0 && period_s_ > 0; }
  // May this consumer subscribe now? Counted if so.
  bool admit(const std::string& consumer, std::int64_t now_ns) {
    if (!limited()) return true;
    if (now_ns - began_ns_ >= period_s_ * 1'000'000'000) {
      began_ns_ = now_ns;
      counts_.clear();
    }
    const auto at = counts_.find(consumer);
    if (at == counts_.end()) {
      if (counts_.size() < kMostConsumers) counts_.emplace(consumer, 1);
      return true;
    }
    return ++at->second <= most_;
  }

 private:
  std::int64_t most_ = 0;
  std::int64_t period_s_ = 30;
  std::int64_t began_ns_ = 0;
  std::unordered_map<std::string, std::int64_t> counts_;
};

}  // namespace geminga
