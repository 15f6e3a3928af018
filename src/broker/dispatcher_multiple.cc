#include "broker/dispatcher_multiple.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "broker/topic.h"

namespace geminga {

namespace {
constexpr std::size_t kChunkedMessagesPerGeneration = 5'000;
// What passing over many acknowledged and held ranges counts of a turn's bytes.
constexpr std::size_t kStepsTurnBytes = 512 << 10;
constexpr Position after(Position position) { return {position.ledger, position.entry + 1}; }

// How many items from `item` on are neighbours in the log, so that one read brings them.
template <typename Map>
std::size_t run_length(Map& map, Position from, std::size_t at_most) {
  std::size_t n = 1;
  while (n < at_most && map.contains({from.ledger, from.entry + static_cast<EntryId>(n)})) ++n;
  return n;
}
}  // namespace

Status DispatcherMultiple::add(std::shared_ptr<Consumer> consumer) {
  GM_RETURN_IF_ERROR(joined(*consumer));
  consumer->attach(this);
  const auto at = std::find_if(consumers_.begin(), consumers_.end(), [&](const auto& other) {
    return other->priority() > consumer->priority();
  });
  consumers_.insert(at, std::move(consumer));
  schedule();
  return Status::ok();
}

void DispatcherMultiple::remove(Consumer& consumer) {
  auto removed = take_out(consumer);
  if (!removed) return;
  std::erase_if(chunks_, [&](const auto& chunk) { return chunk.second == &consumer; });
  std::erase_if(older_chunks_, [&](const auto& chunk) { return chunk.second == &consumer; });
  left(consumer);
  unacked_ -= consumer.pending.messages();
  auto pending = consumer.pending.take();
  pending.for_each(
      [&](Position position, const PendingAck& p) { slot_released(consumer, position, p.slot); });
  parked_ -= consumer.parked.size();
  consumer.parked.for_each(
      [&](Position position, const ParkedEntry& p) { slot_unparked(consumer, position, p.slot); });
  auto parked = std::exchange(consumer.parked, {});
  if (consumers_.empty()) {
    rewind();
    return;
  }
  pending.for_each(
      [this](Position position, const PendingAck& p) { queue_again(position, p.slot); });
  parked.for_each(
      [this](Position position, const ParkedEntry& p) { queue_again(position, p.slot); });
  schedule();
}

Consumer* DispatcherMultiple::holder_of(Consumer& first, Position position) {
  if (first.pending.find(position) != nullptr) return &first;
  for (auto& other : consumers_) {
    if (other->pending.find(position) != nullptr) return other.get();
  }
  return nullptr;
}

std::optional<PendingAck> DispatcherMultiple::release(Consumer& consumer, Position position) {
  auto pending = consumer.pending.remove(position);
  if (pending) {
    unacked_ -= pending->messages;
    slot_released(consumer, position, pending->slot);
  }
  return pending;
}

void DispatcherMultiple::ack(Consumer& consumer, const AckedMessage& message) {
  Consumer* holder = holder_of(consumer, message.position);
  std::uint32_t newly = 0;
  const std::uint32_t size =
      holder == nullptr ? 0 : holder->pending.find(message.position)->batch_size;
  if (ack_in_cursor(message, size, &newly)) {
    if (holder != nullptr) {
      release(*holder, message.position);
    } else {
      forget_queued(message.position);
    }
  } else if (holder != nullptr && newly > 0) {
    reduce(*holder, message.position, newly);
  }
  schedule();
}

// Acknowledged while it waited to be sent again.
void DispatcherMultiple::forget_queued(Position position) {
  if (replay_.erase(position) || held_.erase(position) || parked_ == 0) return;
  for (auto& consumer : consumers_) {
    if (!consumer->parked.contains(position)) continue;
    unpark(*consumer, position);
    return;
  }
}

void DispatcherMultiple::redeliver(Consumer& consumer, std::span<const Position> positions,
                                   std::int64_t) {
  const auto again = [this](Position position, const PendingAck& pending) {
    env_.cursor.count_redelivery(position);
    queue_again(position, pending.slot);
  };
  if (positions.empty()) {
    unacked_ -= consumer.pending.messages();
    auto pending = consumer.pending.take();
    pending.for_each(
        [&](Position position, const PendingAck& p) { slot_released(consumer, position, p.slot); });
    pending.for_each(again);
  } else {
    for (const Position position : positions) {
      if (auto pending = release(consumer, position)) again(position, *pending);
    }
  }
  schedule();
}

void DispatcherMultiple::mark_delete_moved() {
  std::vector<Position> gone;
  for (auto& consumer : consumers_) {
    gone.clear();
    consumer->pending.for_each([&](Position position, const PendingAck&) {
      if (env_.cursor.is_acked(position)) gone.push_back(position);
    });
    for (const Position position : gone) release(*consumer, position);
    gone.clear();
    consumer->parked.for_each([&](Position position, const ParkedEntry&) {
      if (env_.cursor.is_acked(position)) gone.push_back(position);
    });
    for (const Position position : gone) unpark(*consumer, position);
  }
  replay_.erase_if(
      [&](Position position, std::uint16_t) { return env_.cursor.is_acked(position); });
  held_.erase_if([&](Position position, std::uint16_t) { return env_.cursor.is_acked(position); });
  Dispatcher::mark_delete_moved();
}

void DispatcherMultiple::rewind() {
  replay_.clear();
  held_.clear();
  due_.clear();
  collected_ = DelayedItem::before_all();
  collected_through_ms_ = -1;
  reread_until_ = {};
  chunks_.clear();
  older_chunks_.clear();
  chunks_forgotten_ = false;
  Dispatcher::rewind();
}

std::size_t DispatcherMultiple::look_ahead_limit() const {
  return std::min(env_.config.look_ahead_per_consumer * std::max<std::size_t>(consumers_.size(), 1),
                  env_.config.look_ahead_per_subscription);
}

bool DispatcherMultiple::any_ready() const {
  return std::any_of(consumers_.begin(), consumers_.end(),
                     [&](const auto& c) { return ready(*c); });
}

void DispatcherMultiple::deliver_to(Consumer& consumer, const Entry& entry, std::uint16_t slot) {
  deliver_to(consumer, entry, slot, remaining(entry));
}

void DispatcherMultiple::deliver_to(Consumer& consumer, const Entry& entry, std::uint16_t slot,
                                    const Remaining& part) {
  consumer.pending.add(entry.position,
                       {part.messages, std::max<std::uint32_t>(entry.messages, 1), slot});
  unacked_ += part.messages;
  slot_pending(consumer, entry.position, slot);
  send(consumer, entry, part);
}

bool DispatcherMultiple::park(Consumer& consumer, Position position, ParkedEntry entry) {
  if (look_ahead_full()) return false;
  park_anyway(consumer, position, entry);
  return true;
}

void DispatcherMultiple::park_anyway(Consumer& consumer, Position position, ParkedEntry entry) {
  if (!consumer.parked.insert(position, entry)) return;
  ++parked_;
  slot_parked(consumer, position, entry.slot);
  consumer.parked_scanned = std::min(consumer.parked_scanned, position);
}

void DispatcherMultiple::unpark(Consumer& consumer, Position position) {
  auto entry = consumer.parked.erase(position);
  if (!entry) return;
  --parked_;
  slot_unparked(consumer, position, entry->slot);
}

bool DispatcherMultiple::hold_if_early(const Entry& entry, const EntryMetadata& metadata,
                                       std::uint16_t, Verdict& verdict) {
  if (metadata.deliver_at_time == 0) return false;
  switch (env_.topic.hold_if_early(metadata.deliver_at_time, entry.position)) {
    case Topic::Hold::NotEarly: return false;
    case Topic::Hold::NoRoom: verdict = Verdict::NoRoom; return true;
    case Topic::Hold::Held: break;
  }
  spend(0);
  verdict = Verdict::Taken;
  return true;
}

bool DispatcherMultiple::hold_for_transaction(Position position, std::uint16_t slot) {
  if (!held_by_transaction(position)) return false;
  held_.insert(position, slot);
  spend(0);
  return true;
}

void DispatcherMultiple::acked_in_transaction(std::span<const Position> positions) {
  for (const Position position : positions) {
    if (!held_by_transaction(position)) continue;
    for (auto& consumer : consumers_) {
      if (const PendingAck* pending = consumer->pending.find(position))
        reduce(*consumer, position, pending->messages);
    }
  }
  schedule();  // a limit may be lifted
}

void DispatcherMultiple::transaction_ended(std::span<const AckedMessage> messages, bool committed) {
  for (const AckedMessage& message : messages) {
    const Position position = message.position;
    const auto held = held_.erase(position);
    if (env_.cursor.is_acked(position)) continue;
    if (held) {
      queue_again(position, *held);
      continue;
    }
    if (committed) continue;  // part of a batch that its consumer still has
    for (auto& consumer : consumers_) {
      const auto pending = release(*consumer, position);
      if (!pending) continue;
      env_.cursor.count_redelivery(position);
      queue_again(position, pending->slot);
      break;
    }
  }
  schedule();
}

Consumer* DispatcherMultiple::bound_to(const EntryMetadata& metadata) const {
  if (!metadata.is_chunk() || metadata.chunk_id == 0 ||
      (chunks_.empty() && older_chunks_.empty())) {
    return nullptr;
  }
  const std::string uuid(metadata.uuid);
  if (const auto it = chunks_.find(uuid); it != chunks_.end()) return it->second;
  const auto it = older_chunks_.find(uuid);
  return it == older_chunks_.end() ? nullptr : it->second;
}

void DispatcherMultiple::bind_chunks(const EntryMetadata& metadata, Consumer& consumer) {
  if (!metadata.is_chunk()) return;
  std::string uuid(metadata.uuid);
  if (metadata.is_last_chunk()) {
    chunks_.erase(uuid);
    older_chunks_.erase(uuid);
    return;
  }
  chunks_[std::move(uuid)] = &consumer;
  if (chunks_.size() < kChunkedMessagesPerGeneration) return;
  chunks_forgotten_ = chunks_forgotten_ || !older_chunks_.empty();
  older_chunks_ = std::exchange(chunks_, {});
}

bool DispatcherMultiple::skip_headless(const Entry& entry, const EntryMetadata& metadata) {
  if (!from_log_ || !metadata.is_chunk() || metadata.chunk_id == 0 || chunks_forgotten_)
    return false;
  if (!replay_.empty() || !held_.empty() || held() != nullptr || parked_ > 0 ||
      bound_to(metadata) != nullptr)
    return false;
  if (env_.counters.headless_chunks++ == 0) {
    GM_LOG_WARN(
        "{}: entry {} is chunk {} of {} of a message whose first chunk subscription {} has "
        "acknowledged; it is passed over",
        env_.topic.name().full(), entry.position.to_string(), metadata.chunk_id,
        metadata.num_chunks, env_.subscription);
  }
  env_.cursor.ack(entry.position, entry.messages);
  spend(0);
  return true;
}

void DispatcherMultiple::deliver() {
  collect_due();
  if (const auto source = arrived()) {
    serve(*source);
    drop_arrived();
  }
  serve_due();
  ++first_served_;
  for (std::size_t i = 0; parked_ > 0 && i < consumers_.size() && !out_of_budget(); ++i) {
    Consumer& consumer = *consumers_[(first_served_ + i) % consumers_.size()];
    if (!consumer.parked.empty()) serve_parked(consumer);
  }
  serve_replay();
  serve_log();
}

void DispatcherMultiple::serve(Source source) {
  switch (source.kind) {
    case Source::Kind::Log: serve_log(); return;
    case Source::Kind::Replay: serve_replay(); return;
    case Source::Kind::Due: serve_due(); return;
    case Source::Kind::Parked:
      for (auto& consumer : consumers_) {
        if (consumer.get() == source.whose) serve_parked(*consumer);
      }
      return;
    case Source::Kind::Compacted: return;  // only in order, to one consumer
  }
}

void DispatcherMultiple::serve_log() {
  while (!out_of_budget() && any_ready() && !nothing_fits()) {
    const Position from = read_position_ = next_to_read(read_position_);
    if (!readable(from)) {
      announce_end_of_topic();
      return;
    }
    if (const DelayedIndex* index = held(); index != nullptr && index->contains(from)) {
      spend(kStepsTurnBytes);  // there is more to pass over
      continue;
    }
    if (!fetch({Source::Kind::Log}, from, wanted_from_log())) return;
    for (const Entry& entry : batch()) {
      if (out_of_budget() || !any_ready()) return;
      const DelayedIndex* index = held();
      const bool pass = env_.cursor.is_acked(entry.position) ||
                        (index != nullptr && index->contains(entry.position)) ||
                        (entry.position < reread_until_ && is_out(entry.position));
      from_log_ = true;
      const bool stays = !pass && dispatch(entry) == Verdict::NoRoom;
      from_log_ = false;
      if (stays) return;
      read_position_ = after(entry.position);
    }
  }
}

void DispatcherMultiple::serve_replay() {
  if (replay_waits()) return;
  while (!replay_.empty() && !out_of_budget() && any_ready()) {
    const Position from = replay_.first()->position;
    if (env_.cursor.is_acked(from)) {
      replay_.erase(from);
      continue;
    }
    if (!fetch({Source::Kind::Replay}, from,
               run_length(replay_, from, env_.config.max_read_batch_size))) {
      return;
    }
    // What is not there any more cannot be sent.
    if (batch().front().position != from) replay_.erase(from);
    for (const Entry& entry : batch()) {
      const std::uint16_t* slot = replay_.find(entry.position);
      if (slot == nullptr) continue;
      if (out_of_budget() || !any_ready()) return;
      // Out first: dispatch() may put it into another queue, and the look-ahead counts it here.
      const std::uint16_t kept = *slot;
      replay_.erase(entry.position);
      if (env_.cursor.is_acked(entry.position)) continue;
      if (dispatch(entry) == Verdict::NoRoom) {
        replay_.insert(entry.position, kept);
        return;
      }
    }
  }
}

void DispatcherMultiple::serve_parked(Consumer& consumer) {
  while (!out_of_budget() && ready(consumer)) {
    const auto* item = consumer.parked.at_or_after(consumer.parked_scanned);
    if (item == nullptr) return;
    const Position from = item->position;
    if (env_.cursor.is_acked(from)) {
      unpark(consumer, from);
      continue;
    }
    if (must_wait(consumer, from, item->value)) {
      consumer.parked_scanned = after(from);
      continue;
    }
    const std::size_t wanted = consumer.entries_wanted(env_.config.max_read_batch_size);
    if (!fetch({Source::Kind::Parked, &consumer}, from, run_length(consumer.parked, from, wanted)))
      return;
    if (batch().front().position != from) unpark(consumer, from);
    for (const Entry& entry : batch()) {
      const ParkedEntry* parked = consumer.parked.find(entry.position);
      if (parked == nullptr || must_wait(consumer, entry.position, *parked)) continue;
      if (out_of_budget() || !ready(consumer)) return;
      deliver_parked(consumer, entry, *parked);
    }
  }
}

void DispatcherMultiple::deliver_parked(Consumer& consumer, const Entry& entry,
                                        ParkedEntry parked) {
  unpark(consumer, entry.position);
  if (env_.cursor.is_acked(entry.position)) return;
  if (hold_for_transaction(entry.position, parked.slot)) return;
  const auto metadata = admit_entry(entry);
  if (!metadata) return;
  deliver_to(consumer, entry, parked.slot);
  bind_chunks(*metadata, consumer);
}

WaitReason DispatcherMultiple::why_waiting(const Consumer& consumer) const {
  const WaitReason own = Dispatcher::why_waiting(consumer);
  if (own != WaitReason::None) return own;
  return below_limit(consumer) ? WaitReason::None : WaitReason::UnackedLimit;
}

WaitReason DispatcherMultiple::why_waiting() const {
  if (const WaitReason reason = engine_reason(); reason != WaitReason::None) return reason;
  const Position next = next_to_read(read_position_);
  const DelayedIndex* index = held();
  const bool log_left = readable(next) && (index == nullptr || !index->contains(next));
  if (!log_left && parked_ == 0 && replay_.empty() && !due_left()) {
    if (!readable(next) && nothing_readable(next) == WaitReason::OpenTransaction)
      return WaitReason::OpenTransaction;
    return delayed() > 0 ? WaitReason::Delayed : WaitReason::NothingToRead;
  }
  if (unacked_.blocked()) return WaitReason::BrokerUnackedLimit;
  if (subscription_full()) return WaitReason::SubscriptionUnackedLimit;
  if (!any_ready()) {
    WaitReason reason = WaitReason::NoPermits;
    for (const auto& consumer : consumers_) {
      if (consumer->permits() <= 0) continue;
      reason =
          consumer->outbox().writable() ? WaitReason::UnackedLimit : WaitReason::ClientNotReading;
    }
    return reason;
  }
  for (const auto& consumer : consumers_) {
    if (!ready(*consumer)) continue;
    bool deliverable = false;
    consumer->parked.for_each([&](Position position, const ParkedEntry& entry) {
      deliverable |= !must_wait(*consumer, position, entry);
    });
    if (deliverable) return WaitReason::None;
  }
  if (!due_.empty() && !readable(due_.front()) && !log_left && replay_.empty())
    return WaitReason::OpenTransaction;
  if (!due_.empty() && readable(due_.front()) && !look_ahead_full()) return WaitReason::None;
  if (!log_left)
    return replay_.empty() || replay_waits() ? WaitReason::KeysInUse : WaitReason::None;
  if (look_ahead_full()) return WaitReason::LookAheadFull;
  if (delayed_full()) return WaitReason::DelayedIndexFull;
  return WaitReason::None;
}

void DispatcherMultiple::measure(SubscriptionNumbers& numbers) const {
  Dispatcher::measure(numbers);
  numbers.blocked_on_unacked = subscription_full();
  numbers.msg_in_replay = static_cast<std::int64_t>(replay_.size() + parked_);
}

}  // namespace geminga
