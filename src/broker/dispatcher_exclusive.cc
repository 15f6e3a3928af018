#include "broker/dispatcher_exclusive.h"

#include <algorithm>

#include "broker/key_shared_selector.h"

namespace geminga {

Status DispatcherExclusive::admit(const SubscribeRequest&) const {
  if (!consumers_.empty()) return Status::ConsumerBusy("Exclusive consumer is already connected");
  return Status::ok();
}

Status DispatcherExclusive::add(std::shared_ptr<Consumer> consumer) {
  consumer->attach(this);
  consumers_.push_back(std::move(consumer));
  rewind();
  return Status::ok();
}

void DispatcherExclusive::remove(Consumer& consumer) {
  take_out(consumer);
  rewind();
}

void DispatcherExclusive::ack(Consumer&, const AckedMessage& message) {
  std::uint32_t newly = 0;
  ack_in_cursor(message, 0, &newly);
}

void DispatcherExclusive::redeliver(Consumer& consumer, std::span<const Position>,
                                    std::int64_t epoch) {
  if (epoch > consumer.epoch()) consumer.set_epoch(epoch);
  if (&consumer == receiver()) rewind();
}

bool DispatcherExclusive::wanted(const Consumer& consumer, const EntryMetadata& metadata) {
  if (!consumer.key_shared() || consumer.key_shared()->ranges.empty()) return true;
  const auto slot =
      static_cast<std::int32_t>(range_slot(sticky_key_hash(sticky_key(metadata, key_scratch_))));
  return std::any_of(
      consumer.key_shared()->ranges.begin(), consumer.key_shared()->ranges.end(),
      [slot](const HashRange& range) { return range.start <= slot && slot <= range.end; });
}

void DispatcherExclusive::deliver() {
  Consumer* consumer = receiver();
  if (consumer == nullptr) return;
  while (consumer->wants_more() && !out_of_budget()) {
    const Position from = next_from_log();
    if (!readable(from)) {
      announce_end_of_topic();
      return;
    }
    if (!fetch({}, from, consumer->entries_wanted(env_.config.max_read_batch_size))) return;
    for (const Entry& entry : batch()) {
      if (!consumer->wants_more() || out_of_budget()) break;
      read_position_ = {entry.position.ledger, entry.position.entry + 1};
      if (env_.cursor.is_acked(entry.position)) continue;
      if (held_by_transaction(entry.position)) {
        spend(0);
        continue;
      }
      const auto metadata = admit_entry(entry);
      if (!metadata || !wanted(*consumer, *metadata)) {
        spend(0);
        continue;
      }
      send(*consumer, entry, remaining(entry));
    }
  }
}

WaitReason DispatcherExclusive::why_waiting(const Consumer& consumer) const {
  const Consumer* active = active_consumer();
  if (active != nullptr && active != &consumer) return WaitReason::Standby;
  return Dispatcher::why_waiting(consumer);
}

WaitReason DispatcherExclusive::why_waiting() const {
  if (const WaitReason reason = engine_reason(); reason != WaitReason::None) return reason;
  const Consumer* consumer = receiver();
  if (consumer == nullptr) return WaitReason::FailoverDelay;
  const Position next = env_.cursor.next_unacked(read_position_);
  if (!readable(next)) return nothing_readable(next);
  if (consumer->permits() <= 0) return WaitReason::NoPermits;
  if (!consumer->outbox().writable()) return WaitReason::ClientNotReading;
  return WaitReason::None;
}

}  // namespace geminga
