// Shared and Key_Shared subscriptions and the topic's delayed index: what is passed over in the
// log, and what comes from the index when it is due.
#include <algorithm>

#include "broker/dispatcher_multiple.h"
#include "broker/topic.h"

namespace geminga {

namespace {
// Over acknowledged and held ranges, at a time.
constexpr int kSteps = 1'000;
// Collected ahead of being given out: enough for a turn.
constexpr std::size_t kMostDue = 512;
// What a call to the index counts of a turn's bytes: it looks at thousands of items.
constexpr std::size_t kCollectTurnBytes = 512 << 10;
// Beyond it what is held is estimated.
constexpr int kCountedOneByOne = 1'000;
}  // namespace

Position DispatcherMultiple::next_to_read(Position from) const {
  Position at = env_.cursor.next_unacked(from);
  const DelayedIndex* index = held();
  if (index == nullptr) return at;
  for (int step = 0; step < kSteps && readable(at) && index->contains(at); ++step)
    at = env_.cursor.next_unacked(env_.ledger.normalize(index->next_not_held(at)));
  return at;
}

bool DispatcherMultiple::is_out(Position position) {
  if (replay_.contains(position) || held_.contains(position)) return true;
  for (std::size_t i = 0; i < due_.size(); ++i) {
    if (due_[i] == position) return true;
  }
  return std::any_of(consumers_.begin(), consumers_.end(), [&](const auto& consumer) {
    return consumer->pending.find(position) != nullptr || consumer->parked.contains(position);
  });
}

// The index was emptied: what it held and this subscription has not had lies in the log again,
// between what is out.
void DispatcherMultiple::look_at_index_again(const DelayedIndex& index) {
  index_revision_ = index.revision();
  reread_until_ = std::max(reread_until_, read_position_);
  read_position_ = env_.cursor.first_unacked();
  // What it holds from now on is due later than everything collected before.
}

bool DispatcherMultiple::due_left() const {
  const DelayedIndex* index = env_.topic.delayed_index();
  if (index == nullptr) return !due_.empty();
  return !due_.empty() || index->revision() != index_revision_ ||
         (!index->empty() && collected_through_ms_ < index->ripe_ms());
}

void DispatcherMultiple::collect_due() {
  DelayedIndex* index = env_.topic.delayed_index();
  if (index == nullptr) return;
  if (index->revision() != index_revision_) look_at_index_again(*index);
  static thread_local std::vector<DelayedItem> items;
  while (collected_through_ms_ < index->ripe_ms() && due_.size() < kMostDue && !out_of_budget()) {
    const std::int64_t ripe = index->ripe_ms();
    items.clear();
    const auto collected = index->collect(collected_, kMostDue - due_.size(), items);
    for (const DelayedItem& item : items) {
      if (!env_.cursor.is_acked(item.position)) due_.push_back(item.position);
    }
    collected_ = collected.through;
    if (collected.next == DelayedIndex::Collected::Next::Nothing) collected_through_ms_ = ripe;
    if (collected.next != DelayedIndex::Collected::Next::More) return;
    spend(kCollectTurnBytes);
  }
}

void DispatcherMultiple::serve_due() {
  while (!out_of_budget() && any_ready()) {
    if (due_.empty()) collect_due();
    if (due_.empty()) return;
    const Position from = due_.front();
    if (env_.cursor.is_acked(from)) {
      due_.pop_front();
      continue;
    }
    if (!readable(from)) return;
    // Neighbours in the log come in one read.
    std::size_t neighbours = 1;
    while (neighbours < std::min(due_.size(), env_.config.max_read_batch_size) &&
           due_[neighbours] ==
               Position{from.ledger, from.entry + static_cast<EntryId>(neighbours)}) {
      ++neighbours;
    }
    if (!fetch({Source::Kind::Due}, from, neighbours)) return;
    // What is not there any more cannot be sent.
    if (batch().front().position != from) due_.pop_front();
    for (const Entry& entry : batch()) {
      if (due_.empty() || due_.front() != entry.position) break;
      if (out_of_budget() || !any_ready()) return;
      if (!env_.cursor.is_acked(entry.position) && dispatch(entry) == Verdict::NoRoom) return;
      due_.pop_front();
    }
  }
}

std::size_t DispatcherMultiple::delayed() const {
  const DelayedIndex* index = held();
  if (index == nullptr) return 0;
  std::size_t count = 0;
  int left = kCountedOneByOne;
  const bool all = index->for_each_buffered_after(index->ripe_ms(), [&](const DelayedItem& item) {
    if (index->contains(item.position) && !env_.cursor.is_acked(item.position)) ++count;
    return --left > 0;
  });
  if (all && left > 0) return count;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(env_.cursor.backlog_entries(), 0,
                                                           index->due_after(index->ripe_ms())));
}

}  // namespace geminga
