// The quotas of a topic's backlog: by size, compared while it is published to, and by age, compared
// from time to time. Producers are closed and refused, or the oldest messages evicted.
#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "broker/compaction_subscription.h"
#include "broker/persistent_topic.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {
constexpr std::int64_t kWatchEveryNs = 100'000'000;
// Quotas act when the broker looks at the backlog (backlogQuotaCheckIntervalInSeconds), as clients
// of Pulsar know it; what is so far beyond one does not wait for that.
constexpr std::int64_t kFarBeyond = 64 << 20;
// How much of the limit eviction leaves, so that it need not run for each message.
constexpr double kLeave = 0.9;
}  // namespace

std::int64_t PersistentTopic::backlog_bytes() const {
  std::int64_t most = 0;
  for (const auto& [name, subscription] : subscriptions_) {
    const ManagedCursor& cursor = *subscription->cursor();
    if (cursor.durable() && name != kCompactionCursor)
      most = std::max(most, cursor.backlog_bytes());
  }
  return most;
}

const BacklogQuota* PersistentTopic::exceeded_quota() const {
  const BacklogQuota& size = settings_.backlog_size;
  if (size.limit >= 0 && backlog_bytes() >= size.limit && backlog_bytes() > 0) return &size;
  const BacklogQuota& age = settings_.backlog_age;
  if (age.limit > 0 && oldest_backlog_ms_ != 0 &&
      now_ms() - oldest_backlog_ms_ > age.limit * 1000) {
    return &age;
  }
  return nullptr;
}

Status PersistentTopic::room_in_backlog() const {
  const BacklogQuota* quota = exceeded_quota();
  if (quota == nullptr || quota->policy == QuotaPolicy::Evict) return Status::ok();
  const std::string what =
      quota == &settings_.backlog_size
          ? fmt::format("its backlog is {} bytes, the quota {}", backlog_bytes(), quota->limit)
          : fmt::format("its oldest unacknowledged message is older than the quota of {} s",
                        quota->limit);
  const std::string message = fmt::format(
      "Cannot create producer on topic {} with backlog quota exceeded: {}", name_.full(), what);
  return quota->policy == QuotaPolicy::Hold
             ? Status::ProducerBlockedQuotaExceededError(message)
             : Status::ProducerBlockedQuotaExceededException(message);
}

void PersistentTopic::watch_backlog_size() {
  const std::int64_t now = monotonic_ns();
  if (now - backlog_watched_ns_ < kWatchEveryNs) return;
  backlog_watched_ns_ = now;
  const BacklogQuota& quota = settings_.backlog_size;
  if (backlog_bytes() - kFarBeyond >= quota.limit) act_on(quota);
}

void PersistentTopic::act_on(const BacklogQuota& quota) {
  if (closing()) return;
  if (quota.policy != QuotaPolicy::Evict) {
    if (producers_.size() == 0) return;
    GM_LOG_WARN("{}: its backlog is over the quota, producers are closed", name_.full());
    producers_.close_all();
    return;
  }
  if (evicting_) return;
  evicting_ = spawn(env_.shard, gate_, [self = shared_from_this()]() -> Task<void> {
    co_await self->evict_backlog();
    self->evicting_ = false;
  });
}

Task<void> PersistentTopic::evict_backlog() {
  const std::int64_t limit = settings_.backlog_size.limit;
  const bool by_size = limit >= 0 && settings_.backlog_size.policy == QuotaPolicy::Evict;
  const BacklogQuota age = settings_.backlog_age;
  bool evicted_by_size = false;
  bool evicted_by_age = false;
  for (const std::string& name : subscription_names()) {
    const auto subscription = this->subscription(name);
    if (subscription == nullptr || !subscription->cursor()->durable() || name == kCompactionCursor)
      continue;
    const std::int64_t before = subscription->cursor()->backlog_entries();
    Status status;
    // Sizes of entries differ: the first skip may leave too much.
    for (int i = 0; by_size && status.is_ok() && i < 8; ++i) {
      const std::int64_t bytes = subscription->cursor()->backlog_bytes();
      const auto target = static_cast<std::int64_t>(static_cast<double>(limit) * kLeave);
      if (bytes < limit || bytes <= 0) break;
      const std::int64_t entries = subscription->cursor()->backlog_entries();
      const double share = static_cast<double>(bytes - target) / static_cast<double>(bytes);
      const auto skip = static_cast<std::int64_t>(static_cast<double>(entries) * share) + 1;
      status = co_await subscription->skip(skip);
    }
    const std::int64_t left_by_size = subscription->cursor()->backlog_entries();
    evicted_by_size |= left_by_size < before;
    if (status.is_ok() && age.limit > 0 && age.policy == QuotaPolicy::Evict) {
      status = co_await subscription->expire(age.limit);
      evicted_by_age |= subscription->cursor()->backlog_entries() < left_by_size;
    }
    if (!status) {
      GM_LOG_WARN("{}: evicting the backlog of {}: {}", name_.full(), name, status.to_string());
    } else if (const std::int64_t left = subscription->cursor()->backlog_entries(); left < before) {
      GM_LOG_WARN("{}: {} entries evicted from subscription {}, its backlog is over the quota",
                  name_.full(), before - left, name);
    }
  }
  evictions_by_size_ += evicted_by_size ? 1 : 0;
  evictions_by_age_ += evicted_by_age ? 1 : 0;
}

Task<std::int64_t> PersistentTopic::oldest_backlog_ms() {
  Position oldest = Position::latest();
  for (const auto& [name, subscription] : subscriptions_) {
    const ManagedCursor& cursor = *subscription->cursor();
    if (cursor.durable() && cursor.backlog_entries() > 0 && name != kCompactionCursor)
      oldest = std::min(oldest, cursor.first_unacked());
  }
  if (oldest > ledger_->last_confirmed()) co_return 0;
  const auto entries = co_await ledger_->read(oldest, 1, 1);
  if (!entries || entries->empty()) co_return 0;
  const auto metadata = parse_entry_metadata(entries->front().data.span());
  co_return metadata ? metadata->timestamp() : 0;
}

Task<void> PersistentTopic::check_backlog() {
  const auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || closing()) co_return;
  oldest_backlog_ms_ = co_await oldest_backlog_ms();
  const BacklogQuota* quota = exceeded_quota();
  if (quota != nullptr) act_on(*quota);
}

}  // namespace geminga
