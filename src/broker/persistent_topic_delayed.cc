// A topic's part in delayed delivery: its index, what is early, who still waits.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "broker/persistent_topic.h"
#include "wire/message_metadata.h"

namespace geminga {

void PersistentTopic::make_delayed_index() {
  delayed_ = std::make_unique<DelayedIndex>(
      ManagedLedgerEnv{&env_.shard, &env_.ledgers, &env_.metadata}, name_.managed_ledger_name(),
      DelayedIndexOptions{}, [this](Position position) { return done_with(position); },
      [this] { env_.shard.defer(*this); });
}

Task<Status> PersistentTopic::load_delayed_index() {
  const auto stored = co_await DelayedIndex::stored(env_.metadata, name_.managed_ledger_name());
  if (!stored) co_return stored.status();
  if (!*stored) co_return Status::ok();
  make_delayed_index();
  const Status loaded = co_await delayed_->load();
  if (loaded && !settings_.delayed_delivery) delayed_->clear();
  co_return loaded;
}

Topic::Hold PersistentTopic::hold_if_early(std::int64_t deliver_at_time, Position position) {
  if (!settings_.delayed_delivery) return Hold::NotEarly;
  // Not what the clock says, should it have gone back: what is held is due later than what
  // subscriptions have collected.
  const std::int64_t now = std::max(now_ms(), delayed_ != nullptr ? delayed_->ripe_ms() : 0);
  if (deliver_at_time <= now) return Hold::NotEarly;
  if (delayed_ == nullptr) make_delayed_index();
  return delayed_->add(deliver_at_time, position) ? Hold::Held : Hold::NoRoom;
}

bool PersistentTopic::done_with(Position position) const {
  if (!ledger_->exists(position)) return true;
  return std::all_of(subscriptions_.begin(), subscriptions_.end(), [&](const auto& subscription) {
    return subscription.second->cursor()->is_acked(position);
  });
}

// Exclusive and Failover subscriptions ignore delays.
bool PersistentTopic::anyone_waits_for_due() const {
  return std::any_of(subscriptions_.begin(), subscriptions_.end(), [](const auto& subscription) {
    const auto type = subscription.second->type();
    return !type || *type == SubscriptionType::Shared || *type == SubscriptionType::KeyShared;
  });
}

void PersistentTopic::refuse_too_late(PublishItem& item) const {
  const Result<EntryMetadata> metadata = parse_entry_metadata(item.entry.span());
  if (!metadata || !settings_.delayed_delivery || !item.refused.is_ok()) return;
  if (item.deliver_at_time - metadata->publish_time <= settings_.max_delivery_delay_ms) return;
  item.refused = Status::NotAllowed(fmt::format(
      "Exceeds max allowed delivery delay of {} milliseconds", settings_.max_delivery_delay_ms));
}

}  // namespace geminga
