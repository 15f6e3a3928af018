#include "managed_ledger/cursor_state.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace geminga {

namespace {

std::uint32_t ones(const AckSet& set) {
  std::uint32_t n = 0;
  for (const std::uint64_t word : set) n += static_cast<std::uint32_t>(std::popcount(word));
  return n;
}

// The first `bits` bits of `words`, without empty words at the end.
AckSet first_bits(std::span<const std::uint64_t> words, std::uint32_t bits) {
  const std::size_t needed = (static_cast<std::size_t>(bits) + 63) / 64;
  AckSet set(words.begin(),
             words.begin() + static_cast<std::ptrdiff_t>(std::min(needed, words.size())));
  if (set.size() == needed && bits % 64 != 0) set.back() &= (std::uint64_t{1} << (bits % 64)) - 1;
  while (!set.empty() && set.back() == 0) set.pop_back();
  return set;
}

}  // namespace

std::uint32_t CursorState::Partial::left() const { return ones(remaining); }

CursorState::CursorState(const LedgerList& ledgers)
    : ledgers_(ledgers), mark_delete_{ledgers.empty() ? -1 : ledgers.front().id, -1} {
  acked_messages_ = ledgers_.empty() ? 0 : ledgers_.front().messages_before;
}

bool CursorState::is_acked(Position position) const {
  if (position <= mark_delete_) return true;
  const auto at = acked_.find(position.ledger);
  return at != acked_.end() && position.entry >= 0 && at->second.contains(position.entry);
}

Position CursorState::next_unacked(Position from) const {
  Position at = from <= mark_delete_ ? ledgers_.next(mark_delete_) : ledgers_.normalize(from);
  for (auto set = acked_.find(at.ledger); set != acked_.end(); set = acked_.find(at.ledger)) {
    const EntryId missing = set->second.next_missing(at.entry);
    if (missing == at.entry) break;
    at = ledgers_.normalize({at.ledger, missing});
  }
  return at;
}

const AckSet* CursorState::ack_set(Position position) const {
  const auto at = partials_.find(position);
  return at == partials_.end() ? nullptr : &at->second.remaining;
}

std::size_t CursorState::acked_range_count() const {
  std::int64_t ranges = 0;
  for (const auto& [ledger, set] : acked_) ranges += set.ranges();
  return static_cast<std::size_t>(ranges);
}

void CursorState::counted(LedgerId ledger, std::int64_t messages) {
  acked_messages_ += messages;
  if (count_.running && ledger <= count_.through) count_.sum += messages;
}

void CursorState::uncounted() {
  exact_ = false;
  count_.stale = true;
}

std::int64_t CursorState::acked_messages_estimate() const {
  const std::int64_t entries = ledgers_.total_entries();
  const double an_entry =
      entries > 0 ? static_cast<double>(ledgers_.total_messages()) / static_cast<double>(entries)
                  : 1;
  return ledgers_.messages_through_estimate(mark_delete_) +
         static_cast<std::int64_t>(an_entry * static_cast<double>(acked_entries_));
}

void CursorState::exactly(std::int64_t acked_messages) {
  acked_messages_ = acked_messages;
  exact_ = true;
  count_.stale = true;
}

void CursorState::collapse() {
  while (!acked_.empty()) {
    const Position next = ledgers_.next(mark_delete_);
    const auto at = acked_.find(next.ledger);
    if (at == acked_.end() || !at->second.contains(next.entry)) break;
    mark_delete_ = {next.ledger, at->second.next_missing(next.entry) - 1};
    acked_entries_ -= at->second.erase_through(mark_delete_.entry);
    if (at->second.empty()) acked_.erase(at);
  }
}

bool CursorState::ack(Position position, std::uint32_t messages) {
  if (position <= mark_delete_ || !ledgers_.exists(position) || is_acked(position)) return false;
  if (messages > 0) {
    counted(position.ledger, sized(position, messages));
    if (is_acked(position)) return true;
  }
  const auto partial = partials_.find(position);
  if (partial != partials_.end()) {
    counted(position.ledger, partial->second.left());
    partials_.erase(partial);
  } else if (messages > 0) {
    counted(position.ledger, messages);
  } else if (const LedgerSlot* slot = ledgers_.find(position.ledger);
             slot->messages_per_entry != LedgerSlot::kMixed) {
    counted(position.ledger, slot->messages_per_entry);
  } else {
    uncounted();
  }
  add_acked(position);
  return true;
}

void CursorState::add_acked(Position position) {
  if (!redeliveries_.empty()) redeliveries_.erase(position);
  if (ledgers_.next(mark_delete_) != position) {
    acked_[position.ledger].insert(position.entry);
    ++acked_entries_;
    return;
  }
  mark_delete_ = position;
  collapse();
}

bool CursorState::ack_partly(Position position, std::span<const std::uint64_t> remaining,
                             std::uint32_t batch_size, std::uint32_t* newly_acked,
                             bool* completed) {
  if (newly_acked != nullptr) *newly_acked = 0;
  *completed = false;
  if (!ledgers_.exists(position) || is_acked(position)) return false;
  auto known = partials_.find(position);
  if (batch_size == 0 && known != partials_.end()) batch_size = known->second.batch_size;
  if (batch_size == 0) batch_size = ledgers_.find(position.ledger)->messages_per_entry;
  if (known != partials_.end() && batch_size != 0) {
    counted(position.ledger, sized(position, batch_size));
    *completed = is_acked(position);
    if (*completed) return true;
    known = partials_.find(position);
  }
  AckSet left = first_bits(
      remaining, batch_size != 0 ? batch_size : static_cast<std::uint32_t>(remaining.size() * 64));
  std::uint32_t left_before = batch_size;
  if (known != partials_.end()) {
    left_before = known->second.left();
    const AckSet& before = known->second.remaining;
    if (left.size() > before.size()) left.resize(before.size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] &= before[i];
    while (!left.empty() && left.back() == 0) left.pop_back();
  }
  const std::uint32_t left_now = ones(left);
  // Of a batch of unknown size nothing is known yet: not even whether something is acknowledged.
  const bool sized = left_before != 0;
  if (sized && left_now == left_before) return false;
  if (sized && newly_acked != nullptr) *newly_acked = left_before - left_now;
  if (left_now == 0) {
    *completed = true;
    return ack(position, batch_size);
  }
  if (sized) {
    counted(position.ledger, left_before - left_now);
  } else {
    uncounted();
  }
  partials_[position] = Partial{std::move(left), batch_size};
  return true;
}

std::uint32_t CursorState::sized(Position position, std::uint32_t messages) {
  const auto at = partials_.find(position);
  if (at == partials_.end() || at->second.batch_size != 0) return 0;
  Partial& partial = at->second;
  const std::uint32_t left_before = partial.left();
  partial.batch_size = messages;
  partial.remaining = first_bits(partial.remaining, messages);
  const std::uint32_t beyond = left_before - partial.left();
  if (partial.remaining.empty()) {
    partials_.erase(at);
    add_acked(position);
  } else if (partial.left() == messages) {
    partials_.erase(at);
  }
  return beyond;
}

bool CursorState::ack_cumulative(Position position) {
  if (!ledgers_.exists(position)) position = ledgers_.previous(position);
  if (ledgers_.index_after(position) <= ledgers_.index_after(mark_delete_)) return false;

  const std::int64_t entries_before = backlog_entries();
  // What was counted of the part that is swallowed.
  std::int64_t counted_before = 0;
  bool known = exact_;
  while (!acked_.empty() && acked_.begin()->first <= position.ledger) {
    const auto at = acked_.begin();
    const EntryId last =
        at->first < position.ledger ? std::numeric_limits<EntryId>::max() - 1 : position.entry;
    const std::int64_t removed = at->second.erase_through(last);
    acked_entries_ -= removed;
    const LedgerSlot* slot = ledgers_.find(at->first);
    if (removed > 0 && (slot == nullptr || slot->messages_per_entry == LedgerSlot::kMixed))
      known = false;
    if (slot != nullptr) counted_before += removed * slot->messages_per_entry;
    if (!at->second.empty()) break;
    acked_.erase(at);
  }
  while (!partials_.empty() && partials_.begin()->first <= position) {
    const Partial& partial = partials_.begin()->second;
    if (partial.batch_size == 0) known = false;
    counted_before += static_cast<std::int64_t>(partial.batch_size) - partial.left();
    partials_.erase(partials_.begin());
  }

  redeliveries_.erase_through(position);

  const auto through_before = ledgers_.messages_through(mark_delete_);
  const auto through_now = ledgers_.messages_through(position);
  mark_delete_ = position;
  if (acked_entries_ == 0 && partials_.empty() && through_now) {
    exactly(*through_now);
  } else if (known && through_before && through_now) {
    exactly(acked_messages_ + *through_now - *through_before - counted_before);
  } else {
    // Never backwards, and at least a message an entry.
    acked_messages_ =
        std::max(acked_messages_ + entries_before - backlog_entries(), acked_messages_estimate());
    uncounted();
  }
  collapse();
  return true;
}

bool CursorState::count_redelivery(Position position) {
  if (std::uint32_t* count = redeliveries_.find(position)) {
    if (*count == std::numeric_limits<std::uint32_t>::max()) return false;
    ++*count;
    return true;
  }
  if (!ledgers_.exists(position) || is_acked(position)) return false;
  if (redeliveries_.size() >= kMaxRedeliveryCounts) {
    ++redeliveries_not_kept_;
    return false;
  }
  return redeliveries_.insert(position, 1);
}

void CursorState::reset(Position mark_delete) {
  acked_.clear();
  partials_.clear();
  redeliveries_.clear();
  acked_entries_ = 0;
  mark_delete_ = mark_delete;
  if (const auto through = ledgers_.messages_through(mark_delete)) {
    exactly(*through);
  } else {
    acked_messages_ = acked_messages_estimate();
    uncounted();
  }
}

void CursorState::ledgers_dropped() {
  if (ledgers_.empty()) return;
  const LedgerSlot& first = ledgers_.front();
  if (mark_delete_.ledger < first.id) mark_delete_ = {first.id, -1};
  while (!acked_.empty() && acked_.begin()->first < first.id) {
    acked_entries_ -= acked_.begin()->second.size();
    acked_.erase(acked_.begin());
  }
  while (!partials_.empty() && partials_.begin()->first.ledger < first.id)
    partials_.erase(partials_.begin());
  redeliveries_.erase_through({first.id, -1});
  collapse();
}

// ---- loading ----

void CursorState::restore(Position mark_delete) {
  acked_.clear();
  partials_.clear();
  redeliveries_.clear();
  acked_entries_ = 0;
  restore_clipped_ = false;
  mark_delete_ = mark_delete;
  const LedgerSlot* slot = ledgers_.find(mark_delete.ledger);
  if (slot != nullptr) {
    if (mark_delete.entry >= slot->entries) {
      mark_delete_.entry = slot->entries - 1;
      restore_clipped_ = true;
    }
    return;
  }
  // Its ledger is gone (everything in it was consumed) or beyond the end.
  restore_clipped_ = true;
  if (ledgers_.empty()) return;
  mark_delete_ = mark_delete.ledger > ledgers_.back().id
                     ? ledgers_.last_confirmed()
                     : Position{ledgers_.normalize({mark_delete.ledger, 0}).ledger, -1};
}

void CursorState::restore_range(LedgerId ledger, EntryId first, EntryId last) {
  const LedgerSlot* slot = ledgers_.find(ledger);
  if (slot == nullptr || ledger < mark_delete_.ledger) {
    restore_clipped_ = true;
    return;
  }
  EntryId from = std::max<EntryId>(first, 0);
  if (ledger == mark_delete_.ledger) from = std::max(from, mark_delete_.entry + 1);
  const EntryId until = std::min(last, slot->entries - 1);
  if (from != first || until != last) restore_clipped_ = true;
  if (from > until) return;
  EntrySet& set = acked_[ledger];
  const std::int64_t before = set.size();
  set.insert_range(from, until);
  acked_entries_ += set.size() - before;
}

void CursorState::restore_span(Position first, Position last) {
  for (const LedgerSlot& slot : ledgers_) {
    if (slot.entries == 0 || slot.id < first.ledger || slot.id > last.ledger) continue;
    restore_range(slot.id, slot.id == first.ledger ? first.entry : 0,
                  slot.id == last.ledger ? last.entry : slot.entries - 1);
  }
}

void CursorState::restore_partial(Position position, AckSet remaining) {
  while (!remaining.empty() && remaining.back() == 0) remaining.pop_back();
  if (remaining.empty() || !ledgers_.exists(position) || position <= mark_delete_) {
    restore_clipped_ = true;
    return;
  }
  partials_[position] = Partial{std::move(remaining), 0};
}

void CursorState::restore_redeliveries(Position position, std::uint32_t count) {
  if (count == 0 || redeliveries_.size() >= kMaxRedeliveryCounts) return;
  if (ledgers_.exists(position)) redeliveries_.insert(position, count);
}

void CursorState::restored(std::optional<std::int64_t> acked_messages) {
  redeliveries_.erase_if([this](Position position, std::uint32_t) { return is_acked(position); });
  // A batch both acknowledged and listed as partly acknowledged is acknowledged.
  for (auto at = partials_.begin(); at != partials_.end();) {
    at = is_acked(at->first) ? partials_.erase(at) : std::next(at);
  }
  const LedgerSlot* slot = ledgers_.find(mark_delete_.ledger);
  if (acked_messages && slot != nullptr && !restore_clipped_) {
    exactly(slot->messages_before + *acked_messages);
  } else if (const auto through = ledgers_.messages_through(mark_delete_);
             through && acked_entries_ == 0 && partials_.empty()) {
    exactly(*through);
  } else {
    acked_messages_ = acked_messages_estimate();
    uncounted();
  }
  collapse();
}

std::optional<std::int64_t> CursorState::stored_acked_messages() const {
  const LedgerSlot* slot = ledgers_.find(mark_delete_.ledger);
  if (!exact_ || slot == nullptr) return std::nullopt;
  return acked_messages_ - slot->messages_before;
}

// ---- numbers ----

std::int64_t CursorState::backlog_entries() const {
  return ledgers_.end_index() - ledgers_.index_after(mark_delete_) - acked_entries_;
}

std::int64_t CursorState::backlog_messages() const {
  const std::int64_t entries = backlog_entries();
  if (entries == 0) return 0;
  // Not less than the entries, should it be an estimate.
  return std::max(entries, ledgers_.back().messages_through() - acked_messages_);
}

std::int64_t CursorState::backlog_bytes() const {
  const std::int64_t left = backlog_entries();
  const std::int64_t beyond = left + acked_entries_;
  if (left == 0) return 0;
  const std::int64_t bytes =
      ledgers_.back().bytes_through() - ledgers_.bytes_through_estimate(mark_delete_);
  if (acked_entries_ == 0) return bytes;
  return static_cast<std::int64_t>(static_cast<double>(bytes) * static_cast<double>(left) /
                                   static_cast<double>(beyond));
}

std::size_t CursorState::memory_bytes() const {
  std::size_t bytes = sizeof *this + redeliveries_.size() * sizeof(RedeliveryCounts::Item);
  for (const auto& [ledger, set] : acked_) bytes += sizeof set + 48 + set.memory_bytes();
  for (const auto& [position, partial] : partials_) {
    bytes += sizeof position + sizeof partial + 48 + partial.remaining.capacity() * 8;
  }
  return bytes;
}

// ---- counting anew ----

void CursorState::begin_count() {
  const Position from = {mark_delete_.ledger, -1};
  count_ = {.running = true,
            .stale = false,
            .through = from.ledger - 1,
            .sum = ledgers_.messages_through(from).value_or(0)};
}

std::optional<CursorState::Share> CursorState::next_share() {
  while (true) {
    if (count_.stale) return std::nullopt;
    const LedgerSlot* slot = nullptr;
    for (const LedgerSlot& candidate : ledgers_) {
      if (candidate.id > count_.through) {
        slot = &candidate;
        break;
      }
    }
    if (slot == nullptr) return std::nullopt;
    count_.through = slot->id;
    if (slot->id < mark_delete_.ledger) {
      count_.sum += slot->messages;
      continue;
    }
    Share share;
    share.ledger = slot->id;
    if (slot->id == mark_delete_.ledger) share.through = mark_delete_.entry;
    if (const auto set = acked_.find(slot->id); set != acked_.end()) {
      share.ranges.reserve(static_cast<std::size_t>(set->second.ranges()));
      set->second.for_each_range([&](EntryId first, EntryId last) {
        share.ranges.emplace_back(first, last);
        return true;
      });
    }
    for (auto at = partials_.lower_bound({slot->id, -1});
         at != partials_.end() && at->first.ledger == slot->id; ++at) {
      const Partial& partial = at->second;
      if (partial.batch_size != 0) {
        share.partly += static_cast<std::int64_t>(partial.batch_size) - partial.left();
      } else {
        share.unsized.emplace_back(at->first.entry, partial.left());
      }
    }
    if (share.through < 0 && share.ranges.empty() && share.unsized.empty() && share.partly == 0)
      continue;
    return share;
  }
}

void CursorState::end_count() {
  count_.running = false;
  if (count_.stale) return;
  acked_messages_ = count_.sum;
  exact_ = true;
}

}  // namespace geminga
