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
      if (!entry.bound && selector_->select(entry.slot) != consumer.get())
        moved.push_back(position);
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

bool DispatcherKeyShared::must_wait(const ParkedEntry& entry) const {
  return !entry.bound && draining(entry.slot, selector_->select(entry.slot));
}

// The replay queue holds only what no consumer owns.
bool DispatcherKeyShared::replay_waits() const { return true; }

DispatcherMultiple::Verdict DispatcherKeyShared::dispatch(const Entry& entry) {
  const auto metadata = admit_entry(entry);
  if (!metadata) {
    spend(0);
    return Verdict::Taken;
  }
  const KeySlot slot = selector_->slot_of(sticky_key_hash(sticky_key(*metadata, key_scratch_)));
  if (Verdict verdict; hold_if_early(entry, *metadata, slot, verdict)) return verdict;

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

void DispatcherKeyShared::slot_pending(Consumer& consumer, std::uint16_t slot) {
  if (!in_order_) return;
  SlotUse& use = slots_[slot];
  use.holder = &consumer;
  ++use.pending;
}

void DispatcherKeyShared::slot_released(std::uint16_t slot) {
  if (!in_order_) return;
  const auto it = slots_.find(slot);
  if (it == slots_.end() || it->second.pending == 0) return;
  if (--it->second.pending > 0) return;
  it->second.holder = nullptr;
  if (it->second.parked == 0) {
    slots_.erase(it);
  } else if (Consumer* owner = selector_->select(slot)) {
    owner->parked_scanned = {};  // what waited for this may go
  }
}

void DispatcherKeyShared::slot_parked(std::uint16_t slot) {
  if (in_order_) ++slots_[slot].parked;
}

void DispatcherKeyShared::slot_unparked(std::uint16_t slot) {
  if (!in_order_) return;
  const auto it = slots_.find(slot);
  if (it == slots_.end() || it->second.parked == 0) return;
  if (--it->second.parked == 0 && it->second.pending == 0) slots_.erase(it);
}

std::size_t DispatcherKeyShared::draining_slots() const {
  return static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(),
      [this](const auto& slot) { return draining(slot.first, selector_->select(slot.first)); }));
}

void DispatcherKeyShared::describe(SubscriptionStats& stats) const {
  DispatcherMultiple::describe(stats);
  stats.key_shared_mode = mode_ == KeySharedMode::Sticky ? "STICKY" : "AUTO_SPLIT";
  stats.allow_out_of_order = !in_order_;
  stats.draining_hashes = static_cast<std::int64_t>(draining_slots());
}

std::vector<std::string> DispatcherKeyShared::key_ranges(const Consumer& consumer) const {
  return ranges_text(*selector_, consumer);
}

}  // namespace geminga
