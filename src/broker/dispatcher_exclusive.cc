#include "broker/dispatcher_exclusive.h"

#include <algorithm>
#include <bit>

#include "broker/compacted_reads.h"
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
  const bool whole = ack_in_cursor(message, 0, &newly);
  if (env_.compacted == nullptr) return;
  if (whole) {
    env_.compacted->ack(message.position);
  } else {
    env_.compacted->ack_partly(message.position, message.remaining);
  }
}

void DispatcherExclusive::rewind() {
  Dispatcher::rewind();
  if (CompactedReads* compacted = compacted_reads(receiver())) read_position_ = compacted->begin();
}

CompactedReads* DispatcherExclusive::compacted_reads(const Consumer* consumer) const {
  return consumer != nullptr && consumer->read_compacted() ? env_.compacted : nullptr;
}

bool DispatcherExclusive::read_compacted(const Consumer& consumer) {
  CompactedReads* compacted = compacted_reads(&consumer);
  return compacted != nullptr && compacted->covers(read_position_);
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

Dispatcher::Remaining DispatcherExclusive::left_in_compacted(Position gap_from, const Entry& entry,
                                                             const EntryMetadata& metadata,
                                                             const Remaining& left) {
  const AckSet& set = env_.compacted->left_of(entry, metadata);
  std::uint32_t messages = 0;
  for (const std::uint64_t word : set) messages += static_cast<std::uint32_t>(std::popcount(word));
  if (messages == 0 && !set.empty()) {
    // Only what compaction took out was not acknowledged.
    env_.cursor.ack(entry.position, entry.messages);
    return {0, {}};
  }
  env_.compacted->delivered(gap_from, entry.position, set);
  return set.empty() ? left : Remaining{messages, set};
}

void DispatcherExclusive::deliver() {
  Consumer* consumer = receiver();
  if (consumer == nullptr) return;
  while (consumer->wants_more() && !out_of_budget()) {
    const bool compacted = read_compacted(*consumer);
    const Source source{compacted ? Source::Kind::Compacted : Source::Kind::Log};
    const Position from = compacted ? read_position_ : next_from_log();
    if (!compacted && !readable(from)) {
      announce_end_of_topic();
      return;
    }
    if (!fetch(source, from, consumer->entries_wanted(env_.config.max_read_batch_size))) return;
    for (const Entry& entry : batch()) {
      if (!consumer->wants_more() || out_of_budget()) break;
      const Position gap_from = read_position_;
      read_position_ = {entry.position.ledger, entry.position.entry + 1};
      if (compacted ? env_.compacted->is_acked(entry.position)
                    : env_.cursor.is_acked(entry.position)) {
        continue;
      }
      if (held_by_transaction(entry.position)) {
        spend(0);
        continue;
      }
      const auto metadata = admit_entry(entry);
      Remaining left = remaining(entry);
      if (compacted && metadata) left = left_in_compacted(gap_from, entry, *metadata, left);
      if (!metadata || left.messages == 0 || !wanted(*consumer, *metadata)) {
        spend(0);
        continue;
      }
      send(*consumer, entry, left);
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
  const CompactedReads* compacted = compacted_reads(consumer);
  const bool in_compacted = compacted != nullptr && compacted->has(read_position_);
  const Position next = env_.cursor.next_unacked(read_position_);
  if (!in_compacted && !readable(next)) return nothing_readable(next);
  if (consumer->permits() <= 0) return WaitReason::NoPermits;
  if (!consumer->outbox().writable()) return WaitReason::ClientNotReading;
  return WaitReason::None;
}

}  // namespace geminga
