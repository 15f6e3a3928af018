#include "broker/dispatcher_key_shared.h"

#include <algorithm>

namespace geminga {

DispatcherKeyShared::DispatcherKeyShared(const DispatcherEnv& env, const KeySharedOptions& options)
    : DispatcherMultiple(env, SubscriptionType::KeyShared),
      mode_(options.mode),
      in_order_(!options.allow_out_of_order),
      selector_(make_selector(options.mode, env.config)) {}

Status DispatcherKeyShared::admit(const SubscribeRequest& request) const {
  const KeySharedOptions options = request.key_shared.value_or(KeySharedOptions{});
  if (options.mode != mode_ || options.allow_out_of_order == in_order_) {
    return Status::ConsumerBusy("Subscription is of different type");
  }
  return Status::ok();
}

void DispatcherKeyShared::rewind() {
  slots_.clear();
  mixed_.clear();
  DispatcherMultiple::rewind();
}

Status DispatcherKeyShared::joined(Consumer& consumer) {
  GM_RETURN_IF_ERROR(selector_->add(consumer));
  share_out_again();
  return Status::ok();
}

void DispatcherKeyShared::left(Consumer& consumer) {
  selector_->remove(consumer);
  share_out_again();
}

void DispatcherKeyShared::share_out_again() {
  PositionMap<std::uint16_t> waiting = std::exchange(replay_, {});
  std::vector<Position> moved;
  for (auto& consumer : consumers_) {
    moved.clear();
    consumer->parked.for_each([&](Position position, const ParkedEntry& entry) {
      const bool moves = entry.slot == kMixed || selector_->select(entry.slot) != consumer.get();
      if (!entry.bound && moves) moved.push_back(position);
    });
    for (const Position position : moved) {
      waiting.insert(position, consumer->parked.find(position)->slot);
      unpark(*consumer, position);
    }
    consumer->parked_scanned = {};
  }
  waiting.for_each([this](Position position, std::uint16_t slot) { queue_again(position, slot); });
}

void DispatcherKeyShared::queue_again(Position position, std::uint16_t slot) {
  if (slot == kMixed) {
    queue_mixed_again(position);
    return;
  }
  if (Consumer* owner = selector_->select(slot)) {
    park_anyway(*owner, position, {slot, false});
  } else {
    replay_.insert(position, slot);
  }
}

bool DispatcherKeyShared::draining(KeySlot slot, const Consumer* owner) const {
  if (!in_order_ || mode_ == KeySharedMode::Sticky) return false;
  const auto it = slots_.find(slot);
  return it != slots_.end() && it->second.pending > 0 && it->second.holder != owner;
}

bool DispatcherKeyShared::blocked(KeySlot slot, const Consumer* owner, Position position) const {
  if (!in_order_) return false;
  const auto it = slots_.find(slot);
  if (it == slots_.end()) return false;
  const auto& deferred = it->second.deferred;
  return draining(slot, owner) ||
         std::any_of(deferred.begin(), deferred.end(), [&](Position p) { return p < position; });
}

// The replay queue holds only what no consumer owns.
bool DispatcherKeyShared::replay_waits() const { return true; }

DispatcherMultiple::Verdict DispatcherKeyShared::dispatch(const Entry& entry) {
  const auto metadata = admit_entry(entry);
  if (!metadata) {
    spend(0);
    return Verdict::Taken;
  }
  if (skip_headless(entry, *metadata)) return Verdict::Taken;
  KeySlot slot = selector_->slot_of(sticky_key_hash(sticky_key(*metadata, key_scratch_)));
  MixedBatch* mixed = mixed_batch(entry, *metadata, slot);
  if (mixed != nullptr) slot = kMixed;
  if (hold_for_transaction(entry.position, slot)) return Verdict::Taken;
  if (Verdict verdict; hold_if_early(entry, *metadata, slot, verdict)) return verdict;
  if (mixed != nullptr) return dispatch_mixed(entry, *metadata, *mixed);

  Consumer* bound = bound_to(*metadata);
  Consumer* consumer = bound != nullptr ? bound : selector_->select(slot);
  if (consumer == nullptr) {
    if (look_ahead_full()) return Verdict::NoRoom;
    replay_.insert(entry.position, slot);
    spend(0);
    return Verdict::Taken;
  }
  bool wait = !ready(*consumer);
  if (!wait && in_order_ && bound == nullptr) {
    const auto use = slots_.find(slot);
    wait = use != slots_.end() && (use->second.parked > 0 || draining(slot, consumer));
  }
  if (wait) {
    spend(0);
    return park(*consumer, entry.position, {slot, bound != nullptr}) ? Verdict::Taken
                                                                     : Verdict::NoRoom;
  }
  deliver_to(*consumer, entry, slot);
  bind_chunks(*metadata, *consumer);
  return Verdict::Taken;
}

void DispatcherKeyShared::use_slot(Consumer& consumer, KeySlot slot) {
  if (!in_order_) return;
  SlotUse& use = slots_[slot];
  use.holder = &consumer;
  ++use.pending;
}

void DispatcherKeyShared::release_slot(const Consumer& consumer, KeySlot slot) {
  if (!in_order_) return;
  const auto it = slots_.find(slot);
  if (it == slots_.end() || it->second.pending == 0) return;
  if (--it->second.pending > 0) return;
  it->second.holder = nullptr;
  if (it->second.parked == 0) {
    slots_.erase(it);
  } else if (Consumer* owner = selector_->select(slot)) {
    if (owner != &consumer) ++drained_slots_;
    owner->parked_scanned = {};  // what waited for this may go
  }
}

void DispatcherKeyShared::park_slot(KeySlot slot) {
  if (in_order_) ++slots_[slot].parked;
}

void DispatcherKeyShared::unpark_slot(KeySlot slot) {
  if (!in_order_) return;
  const auto it = slots_.find(slot);
  if (it == slots_.end() || it->second.parked == 0) return;
  if (--it->second.parked == 0 && it->second.pending == 0) slots_.erase(it);
}

void DispatcherKeyShared::slot_pending(Consumer& consumer, Position, std::uint16_t slot) {
  if (slot != kMixed) use_slot(consumer, slot);  // those of a mixed batch are counted key by key
}

void DispatcherKeyShared::slot_released(Consumer& consumer, Position position, std::uint16_t slot) {
  if (slot != kMixed) {
    release_slot(consumer, slot);
    return;
  }
  MixedBatch* batch = mixed_at(position);
  if (batch == nullptr) return;
  for (MixedBatch::Key& key : batch->keys) {
    if (key.state == MixedBatch::State::Shown && key.consumer == &consumer)
      take_key(position, *batch, key);
  }
  if (MixedBatch::Part* part = batch->find_part(consumer)) part->sent.clear();
  defer_keys(position, *batch, consumer);
  batch->tidy();
}

void DispatcherKeyShared::slot_parked(Consumer&, Position, std::uint16_t slot) {
  if (slot != kMixed) park_slot(slot);
}

void DispatcherKeyShared::slot_unparked(Consumer& consumer, Position position, std::uint16_t slot) {
  if (slot != kMixed) {
    unpark_slot(slot);
    return;
  }
  MixedBatch* batch = mixed_at(position);
  if (batch == nullptr) return;
  for (MixedBatch::Key& key : batch->keys) {
    if (key.state == MixedBatch::State::Waiting && key.consumer == &consumer)
      take_key(position, *batch, key);
  }
  batch->tidy();
}

void DispatcherKeyShared::measure(SubscriptionNumbers& numbers) const {
  DispatcherMultiple::measure(numbers);
  numbers.draining_hashes_cleared = drained_slots_;
  for (const auto& [slot, use] : slots_) {
    if (!draining(slot, selector_->select(slot))) continue;
    ++numbers.draining_hashes;
    numbers.draining_hashes_unacked += use.pending;
  }
}

void DispatcherKeyShared::describe(SubscriptionStats& stats) const {
  DispatcherMultiple::describe(stats);
  stats.key_shared_mode = mode_ == KeySharedMode::Sticky ? "STICKY" : "AUTO_SPLIT";
  stats.allow_out_of_order = !in_order_;
}

void DispatcherKeyShared::describe(const Consumer& consumer, ConsumerStats& stats) const {
  for (const auto& [slot, use] : slots_) {
    if (use.holder == &consumer && draining(slot, selector_->select(slot)))
      stats.draining_hashes.push_back({slot, use.pending, use.parked});
  }
  std::sort(stats.draining_hashes.begin(), stats.draining_hashes.end(),
            [](const auto& a, const auto& b) { return a.hash < b.hash; });
}

std::vector<std::string> DispatcherKeyShared::key_ranges(const Consumer& consumer) const {
  return ranges_text(*selector_, consumer);
}

}  // namespace geminga
