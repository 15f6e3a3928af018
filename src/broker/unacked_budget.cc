#include "broker/unacked_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/log.h"

namespace geminga {

UnackedBudget::UnackedBudget(unsigned shards, std::int64_t most, double share,
                             UniqueFunction<void()> resume)
    : most_(most),
      share_(static_cast<std::int64_t>(static_cast<double>(most) * share)),
      step_(std::max<std::int64_t>(1, most / 256 / std::max(shards, 1U))),
      counts_(std::make_unique<Count[]>(shards)),
      shards_(shards),
      resume_(std::move(resume)) {}

std::int64_t UnackedBudget::total() const {
  std::int64_t sum = 0;
  for (unsigned i = 0; i < shards_; ++i) sum += counts_[i].messages.load(std::memory_order_relaxed);
  return sum;
}

void UnackedBudget::add(unsigned shard, std::int64_t messages) {
  if (!limited() || messages == 0) return;
  Count& count = counts_[shard];
  const std::int64_t now = count.messages.load(std::memory_order_relaxed) + messages;
  count.messages.store(now, std::memory_order_relaxed);
  if (std::abs(now - count.looked_at) < step_) return;
  count.looked_at = now;
  look();
}

void UnackedBudget::look() {
  const std::int64_t all = total();
  if (all > most_ && !blocked_.exchange(true)) {
    GM_LOG_WARN(
        "{} messages are not acknowledged (maxUnackedMessagesPerBroker {}): subscriptions that "
        "hold "
        "more than {} of them get no more until it is half of that",
        all, most_, share_);
  } else if (all < most_ / 2 && blocked_.load(std::memory_order_relaxed) &&
             blocked_.exchange(false)) {
    GM_LOG_INFO("{} messages are not acknowledged: all subscriptions get messages again", all);
    resume_();
  }
}

Result<double> parse_share(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !(value > 0) || value > 1)
    return Status::InvalidArgument("'" + text + "' is no number above 0 and up to 1");
  return value;
}

}  // namespace geminga
