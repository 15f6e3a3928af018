// maxUnackedMessagesPerBroker: when all subscriptions together have handed out more messages than
// that without an acknowledgement, those that hold most of them get nothing more, each above its
// share (maxUnackedMessagesPerSubscriptionOnBrokerBlocked of the limit), until the whole has fallen
// to half of the limit or the subscription to its share. Shared and Key_Shared subscriptions count.
//
// One count a shard, changed by that shard alone; the sum is taken when a count has moved by a
// fraction of the limit, not with each message. Owned by the Broker; any shard.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_function.h"

namespace geminga {

class UnackedBudget {
 public:
  // `most` 0: no limit. `resume` is called on the shard that finds the limit lifted: what was held
  // back may go on, on all shards.
  UnackedBudget(unsigned shards, std::int64_t most, double share, UniqueFunction<void()> resume);

  bool limited() const { return most_ > 0; }
  // Of the shard itself.
  void add(unsigned shard, std::int64_t messages);
  // May a subscription that holds so many get no more?
  bool blocks(std::int64_t messages) const {
    return blocked_.load(std::memory_order_relaxed) && messages > share_;
  }
  std::int64_t total() const;

 private:
  struct alignas(64) Count {
    std::atomic<std::int64_t> messages{0};
    std::int64_t looked_at = 0;  // what it was when the sum was last taken; its shard's alone
  };
  void look();

  const std::int64_t most_, share_, step_;
  const std::unique_ptr<Count[]> counts_;
  const unsigned shards_;
  std::atomic<bool> blocked_{false};
  UniqueFunction<void()> resume_;
};

// "0.16": above 0, at most 1. InvalidArgument.
Result<double> parse_share(const std::string& text);

// What one subscription holds; gives it back when it dies.
class UnackedCount {
 public:
  UnackedCount(UnackedBudget* budget, unsigned shard) : budget_(budget), shard_(shard) {}
  UnackedCount(const UnackedCount&) = delete;
  UnackedCount& operator=(const UnackedCount&) = delete;
  ~UnackedCount() { add(-messages_); }

  operator std::int64_t() const { return messages_; }
  UnackedCount& operator+=(std::int64_t messages) {
    add(messages);
    return *this;
  }
  UnackedCount& operator-=(std::int64_t messages) {
    add(-messages);
    return *this;
  }
  bool blocked() const { return budget_ != nullptr && budget_->blocks(messages_); }

 private:
  void add(std::int64_t messages) {
    messages_ += messages;
    if (budget_ != nullptr) budget_->add(shard_, messages);
  }

  UnackedBudget* const budget_;  // null: nobody counts
  const unsigned shard_;
  std::int64_t messages_ = 0;
};

}  // namespace geminga
