// Key_Shared with batches whose messages have different keys.
#include <bit>

#include "broker/batch_parts.h"
#include "broker/dispatcher_key_shared.h"

namespace geminga {

namespace {

std::uint32_t count_bits(const AckSet& set) {
  std::uint32_t count = 0;
  for (const std::uint64_t word : set) count += static_cast<std::uint32_t>(std::popcount(word));
  return count;
}

}  // namespace

MixedBatch* DispatcherKeyShared::mixed_at(Position position) const {
  if (mixed_.empty()) return nullptr;
  const auto* found = mixed_.find(position);
  return found == nullptr ? nullptr : found->get();
}

MixedBatch* DispatcherKeyShared::mixed_batch(const Entry& entry, const EntryMetadata& metadata,
                                             KeySlot& slot) {
  if (!is_open_batch(metadata)) return nullptr;
  if (MixedBatch* known = mixed_at(entry.position)) return known;
  const Result<Buffer> payload = batch_payload(entry.data, metadata);
  // One that cannot be read goes where its metadata says; its consumer tells what it finds.
  if (!payload || !hashes_of_batch(*payload, metadata, hashes_)) return nullptr;
  slots_of_batch_.clear();
  bool same = true;
  for (const std::uint32_t hash : hashes_) {
    slots_of_batch_.push_back(selector_->slot_of(hash));
    same = same && slots_of_batch_.back() == slots_of_batch_.front();
  }
  if (same) slot = slots_of_batch_.front();
  // One that is acknowledged in part is shown as a part, too.
  if (same && env_.cursor.ack_set(entry.position) == nullptr) return nullptr;
  auto batch = MixedBatch::of(slots_of_batch_);
  MixedBatch* made = batch.get();
  mixed_.insert(entry.position, std::move(batch));
  return made;
}

AckSet DispatcherKeyShared::left_of(Position position, const MixedBatch& batch) const {
  if (env_.cursor.is_acked(position)) return no_bits(batch.messages());
  AckSet left = all_bits(batch.messages());
  if (const AckSet* stored = env_.cursor.ack_set(position)) {
    for (std::size_t i = 0; i < left.size(); ++i) left[i] &= i < stored->size() ? (*stored)[i] : 0;
  }
  if (!env_.transaction_acks.empty()) {
    env_.transaction_acks.reduce(position, left);
    left.resize(no_bits(batch.messages()).size());
  }
  return left;
}

void DispatcherKeyShared::key_waits(Position position, MixedBatch& batch, MixedBatch::Key& key,
                                    Consumer& owner) {
  key.state = MixedBatch::State::Waiting;
  key.consumer = &owner;
  ++batch.part_of(owner).waiting;
  park_slot(key.slot);
  park_anyway(owner, position, {kMixed, false});
}

void DispatcherKeyShared::key_shown(MixedBatch& batch, MixedBatch::Key& key, Consumer& owner) {
  key.state = MixedBatch::State::Shown;
  key.consumer = &owner;
  ++batch.part_of(owner).shown;
  use_slot(owner, key.slot);
}

void DispatcherKeyShared::take_key(Position position, MixedBatch& batch, MixedBatch::Key& key) {
  MixedBatch::Part& part = batch.part_of(*key.consumer);
  const Consumer& consumer = *key.consumer;
  const bool shown = key.state == MixedBatch::State::Shown;
  if (key.deferred) {
    const auto use = slots_.find(key.slot);
    if (use != slots_.end()) std::erase(use->second.deferred, position);
    key.deferred = false;
  }
  --(shown ? part.shown : part.waiting);
  key.state = MixedBatch::State::Idle;
  key.consumer = nullptr;
  if (shown) {
    release_slot(consumer, key.slot);
  } else {
    unpark_slot(key.slot);
  }
}

void DispatcherKeyShared::defer_keys(Position position, MixedBatch& batch, Consumer& consumer) {
  const MixedBatch::Part* part = batch.find_part(consumer);
  if (!in_order_ || part == nullptr || part->waiting == 0) return;
  const bool defer = !part->sent.empty();
  for (MixedBatch::Key& key : batch.keys) {
    if (key.state != MixedBatch::State::Waiting || key.consumer != &consumer) continue;
    if (key.deferred == defer) continue;
    key.deferred = defer;
    auto& deferred = slots_[key.slot].deferred;
    if (defer) {
      deferred.push_back(position);
    } else {
      std::erase(deferred, position);
    }
  }
  if (!defer) consumer.parked_scanned = {};
}

DispatcherMultiple::Verdict DispatcherKeyShared::dispatch_mixed(const Entry& entry,
                                                                const EntryMetadata& metadata,
                                                                MixedBatch& batch) {
  using State = MixedBatch::State;
  if (look_ahead_full()) return Verdict::NoRoom;
  const Position position = entry.position;
  const AckSet left = left_of(position, batch);
  batch.find_alive(left, alive_);
  bool orphans = false;
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    MixedBatch::Key& key = batch.keys[i];
    if (key.state != State::Idle || !alive_[i]) continue;
    Consumer* owner = selector_->select(key.slot);
    if (owner == nullptr) {
      orphans = true;
      continue;
    }
    bool wait = !ready(*owner) || !batch.part_of(*owner).sent.empty();
    if (!wait && in_order_) {
      const auto use = slots_.find(key.slot);
      wait = use != slots_.end() && (use->second.parked > 0 || draining(key.slot, owner));
    }
    if (wait) {
      key_waits(position, batch, key, *owner);
    } else {
      key_shown(batch, key, *owner);
    }
  }
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    Consumer& consumer = *batch.parts[i].consumer;
    if (batch.parts[i].shown > 0 && batch.parts[i].sent.empty()) {
      show(entry, metadata, batch, consumer, left);
    }
    defer_keys(position, batch, consumer);
  }
  batch.tidy();
  if (orphans) replay_.insert(position, kMixed);
  spend(0);
  return Verdict::Taken;
}

void DispatcherKeyShared::show(const Entry& entry, const EntryMetadata& metadata, MixedBatch& batch,
                               Consumer& consumer, const AckSet& left) {
  MixedBatch::Part& part = batch.part_of(consumer);
  part.sent = batch.shown_bits(consumer, left);
  part.renumbered = false;
  const std::uint32_t messages = count_bits(part.sent);
  if (messages == batch.messages()) {
    deliver_to(consumer, entry, kMixed, {messages, {}});
    return;
  }
  if (!consumer.acks_by_index || !consumer.outbox().peer().is_java()) {
    const Result<Buffer> payload = batch_payload(entry.data, metadata);
    Result<Buffer> picked = payload ? pick_messages(entry.data, metadata, *payload, part.sent)
                                    : Result<Buffer>(payload.status());
    if (picked) {
      part.renumbered = true;
      const Entry apart{entry.position, std::move(*picked), entry.messages};
      deliver_to(consumer, apart, kMixed, {messages, {}});
      return;
    }
  }
  deliver_to(consumer, entry, kMixed, {messages, part.sent});
}

void DispatcherKeyShared::queue_mixed_again(Position position) {
  MixedBatch* batch = mixed_at(position);
  if (batch == nullptr) return;
  if (env_.cursor.is_acked(position)) {
    mixed_.erase(position);
    return;
  }
  const AckSet left = left_of(position, *batch);
  batch->find_alive(left, alive_);
  bool orphans = false;
  for (std::size_t i = 0; i < batch->keys.size(); ++i) {
    MixedBatch::Key& key = batch->keys[i];
    if (key.state != MixedBatch::State::Idle || !alive_[i]) continue;
    if (Consumer* owner = selector_->select(key.slot)) {
      key_waits(position, *batch, key, *owner);
    } else {
      orphans = true;
    }
  }
  for (std::size_t i = 0; i < batch->parts.size(); ++i) {
    Consumer& consumer = *batch->parts[i].consumer;
    defer_keys(position, *batch, consumer);
    consumer.parked_scanned = std::min(consumer.parked_scanned, position);
  }
  if (orphans) replay_.insert(position, kMixed);
}

bool DispatcherKeyShared::must_wait(const Consumer& consumer, Position position,
                                    const ParkedEntry& entry) const {
  if (entry.bound) return false;
  if (entry.slot != kMixed) return blocked(entry.slot, selector_->select(entry.slot), position);
  MixedBatch* batch = mixed_at(position);
  if (batch == nullptr) return false;
  const MixedBatch::Part* part = batch->find_part(consumer);
  if (part == nullptr) return false;
  if (!part->sent.empty()) return true;
  for (const MixedBatch::Key& key : batch->keys) {
    if (key.state == MixedBatch::State::Waiting && key.consumer == &consumer &&
        !blocked(key.slot, &consumer, position)) {
      return false;
    }
  }
  return true;
}

void DispatcherKeyShared::deliver_parked(Consumer& consumer, const Entry& entry,
                                         ParkedEntry parked) {
  const Position position = entry.position;
  MixedBatch* batch = parked.slot == kMixed ? mixed_at(position) : nullptr;
  const bool in_part = batch != nullptr || env_.cursor.ack_set(position) != nullptr;
  if (!in_part || parked.bound || env_.cursor.is_acked(position)) {
    DispatcherMultiple::deliver_parked(consumer, entry, parked);
    return;
  }
  const auto metadata = admit_entry(entry);
  if (!metadata) {
    unpark(consumer, position);
    return;
  }
  if (batch == nullptr) {
    KeySlot slot = parked.slot;
    batch = mixed_batch(entry, *metadata, slot);
    if (batch == nullptr) {
      DispatcherMultiple::deliver_parked(consumer, entry, parked);
      return;
    }
    unpark(consumer, position);
    for (MixedBatch::Key& key : batch->keys) key_waits(position, *batch, key, consumer);
  }
  const AckSet left = left_of(position, *batch);
  batch->find_alive(left, alive_);
  for (std::size_t i = 0; i < batch->keys.size(); ++i) {
    MixedBatch::Key& key = batch->keys[i];
    if (key.state != MixedBatch::State::Waiting || key.consumer != &consumer) continue;
    if (alive_[i] && blocked(key.slot, &consumer, position)) continue;
    take_key(position, *batch, key);
    if (alive_[i]) key_shown(*batch, key, consumer);
  }
  const bool all_served = batch->part_of(consumer).waiting == 0;
  if (batch->part_of(consumer).shown > 0) show(entry, *metadata, *batch, consumer, left);
  defer_keys(position, *batch, consumer);
  if (all_served) unpark(consumer, position);
  batch->tidy();
}

bool DispatcherKeyShared::may_be_mixed(Position position) {
  std::vector<Entry>& one = one_entry_;
  one.clear();
  if (env_.ledger.read_cached(position, 1, env_.config.max_read_size_bytes, one) == 0) return true;
  const Entry entry = std::move(one.front());
  one.clear();
  if (entry.position != position) return false;  // there is no such entry
  const auto metadata = parse_entry_metadata(entry.data.span());
  return metadata && metadata->num_messages > 1 && is_open_batch(*metadata);
}

AckSet DispatcherKeyShared::kept(const MixedBatch::Part* part, const AckedMessage& message,
                                 const MixedBatch& batch) {
  if (part == nullptr || part->sent.empty()) return {};
  AckSet keep = all_bits(batch.messages());
  for (std::size_t i = 0, nth = 0; i < batch.messages(); ++i) {
    if (!has_bit(part->sent, i)) continue;
    const std::size_t as_told = part->renumbered ? nth : i;
    if (message.remaining.empty() || !has_bit(message.remaining, as_told)) drop_bit(keep, i);
    ++nth;
  }
  return keep;
}

bool DispatcherKeyShared::as_stored(const Consumer& consumer, AckedMessage& message) {
  MixedBatch* batch = mixed_at(message.position);
  if (batch == nullptr) return true;
  message.remaining = kept(batch->find_part(consumer), message, *batch);
  message.batch_size = static_cast<std::uint32_t>(batch->messages());
  return !message.remaining.empty();
}

void DispatcherKeyShared::ack(Consumer& consumer, const AckedMessage& message) {
  if (!message.remaining.empty()) consumer.acks_by_index = true;
  if (MixedBatch* batch = mixed_at(message.position)) {
    const AckSet keep = kept(batch->find_part(consumer), message, *batch);
    if (!keep.empty()) ack_mixed(message.position, keep, *batch);
    return;
  }
  // From a client that had it from an earlier connection: nobody knows any more which messages of
  // the entry it was shown. They come again.
  if (message.remaining.empty() && holder_of(consumer, message.position) == nullptr &&
      !replay_.contains(message.position) && !held_.contains(message.position) &&
      std::none_of(consumers_.begin(), consumers_.end(),
                   [&](const auto& c) { return c->parked.contains(message.position); }) &&
      !env_.cursor.is_acked(message.position) && may_be_mixed(message.position)) {
    return;
  }
  DispatcherMultiple::ack(consumer, message);
}

void DispatcherKeyShared::ack_committed(const AckedMessage& message) {
  MixedBatch* batch = mixed_at(message.position);
  if (batch == nullptr) {
    DispatcherMultiple::ack_committed(message);
    return;
  }
  AckSet keep = message.remaining;
  keep.resize(no_bits(batch->messages()).size());
  ack_mixed(message.position, keep, *batch);
}

void DispatcherKeyShared::ack_mixed(Position position, const AckSet& keep, MixedBatch& batch) {
  std::vector<std::pair<Consumer*, std::uint32_t>> newly;
  const AckSet* stored = env_.cursor.ack_set(position);
  for (const MixedBatch::Part& part : batch.parts) {
    AckSet acked = part.sent;
    for (std::size_t i = 0; i < acked.size(); ++i) {
      const std::uint64_t was_left = stored == nullptr    ? ~std::uint64_t{0}
                                     : i < stored->size() ? (*stored)[i]
                                                          : 0;
      acked[i] &= was_left & ~keep[i];
    }
    if (const std::uint32_t count = count_bits(acked); count > 0)
      newly.emplace_back(part.consumer, count);
  }
  env_.cursor.ack_partly(position, keep, static_cast<std::uint32_t>(batch.messages()));
  for (const auto& [consumer, count] : newly) reduce(*consumer, position, count);
  batch.find_alive(left_of(position, batch), alive_);
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    MixedBatch::Key& key = batch.keys[i];
    if (key.state == MixedBatch::State::Shown && !alive_[i]) take_key(position, batch, key);
  }
  for (const auto& [consumer, count] : newly) {
    const PendingAck* pending = consumer->pending.find(position);
    if (pending != nullptr && pending->messages == 0) release(*consumer, position);
  }
  if (env_.cursor.is_acked(position)) mixed_.erase(position);
  entries_available();
}

void DispatcherKeyShared::transaction_ended(std::span<const AckedMessage> messages,
                                            bool committed) {
  for (const AckedMessage& message : messages) {
    const Position position = message.position;
    MixedBatch* batch = mixed_at(position);
    if (batch == nullptr) {
      DispatcherMultiple::transaction_ended({&message, 1}, committed);
      continue;
    }
    held_.erase(position);
    // Who holds what an aborted transaction had acknowledged has given it back with that.
    std::vector<Consumer*> givers;
    for (const MixedBatch::Part& part : batch->parts) {
      for (std::size_t i = 0; !committed && i < part.sent.size(); ++i) {
        const std::uint64_t kept = i < message.remaining.size() ? message.remaining[i] : 0;
        if ((part.sent[i] & ~kept) == 0) continue;
        givers.push_back(part.consumer);
        break;
      }
    }
    for (Consumer* consumer : givers) {
      if (!release(*consumer, position)) continue;
      env_.cursor.count_redelivery(position);
    }
    queue_mixed_again(position);
  }
  entries_available();
}

void DispatcherKeyShared::mark_delete_moved() {
  DispatcherMultiple::mark_delete_moved();
  mixed_.erase_if(
      [this](Position position, const auto&) { return env_.cursor.is_acked(position); });
}

}  // namespace geminga
