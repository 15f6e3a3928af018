#include "managed_ledger/ledger_list.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace geminga {

std::vector<LedgerSlot>::const_iterator LedgerList::at_or_after(LedgerId id) const {
  return std::lower_bound(slots_.begin(), slots_.end(), id,
                          [](const LedgerSlot& slot, LedgerId wanted) { return slot.id < wanted; });
}

const LedgerSlot* LedgerList::find(LedgerId id) const {
  const auto at = at_or_after(id);
  return at != slots_.end() && at->id == id ? &*at : nullptr;
}

void LedgerList::push_back(LedgerSlot slot) {
  if (!slots_.empty()) {
    const LedgerSlot& last = slots_.back();
    assert(slot.id > last.id);
    slot.entries_before = last.entries_through();
    slot.bytes_before = last.bytes_through();
    slot.messages_before = last.messages_through();
  }
  slots_.push_back(slot);
}

void LedgerList::pop_back_empty() {
  assert(!slots_.empty() && slots_.back().entries == 0);
  slots_.pop_back();
}

void LedgerList::drop_before(LedgerId id) { slots_.erase(slots_.begin(), at_or_after(id)); }

void LedgerList::entry_added(std::int64_t bytes, std::uint32_t messages) {
  LedgerSlot& last = slots_.back();
  if (last.entries == 0) {
    last.messages_per_entry = messages;
  } else if (last.messages_per_entry != messages) {
    last.messages_per_entry = LedgerSlot::kMixed;
  }
  ++last.entries;
  last.bytes += bytes;
  last.messages += messages;
}

void LedgerList::close_back(std::int64_t entries, std::int64_t bytes, std::int64_t messages,
                            std::int64_t closed_ms) {
  LedgerSlot& last = slots_.back();
  if (entries != last.entries || messages != last.messages)
    last.messages_per_entry = LedgerSlot::kMixed;
  last.entries = entries;
  last.bytes = bytes;
  last.messages = messages;
  last.closed_ms = closed_ms;
}

std::int64_t LedgerList::total_entries() const { return end_index() - first_index(); }

std::int64_t LedgerList::total_bytes() const {
  return slots_.empty() ? 0 : slots_.back().bytes_through() - slots_.front().bytes_before;
}

std::int64_t LedgerList::total_messages() const {
  return slots_.empty() ? 0 : slots_.back().messages_through() - slots_.front().messages_before;
}

Position LedgerList::last_confirmed() const { return previous(Position::latest()); }

Position LedgerList::end_position() const {
  if (slots_.empty()) return {-1, 0};
  return {slots_.back().id, slots_.back().entries};
}

Position LedgerList::normalize(Position position) const {
  auto at = at_or_after(position.ledger);
  if (at == slots_.end()) return end_position();
  EntryId entry = at->id == position.ledger ? std::max<EntryId>(position.entry, 0) : 0;
  while (entry >= at->entries) {
    if (++at == slots_.end()) return end_position();
    entry = 0;
  }
  return {at->id, entry};
}

Position LedgerList::next(Position position) const {
  if (position.entry < std::numeric_limits<EntryId>::max()) ++position.entry;
  return normalize(position);
}

Position LedgerList::previous(Position position) const {
  auto at = at_or_after(position.ledger);
  if (at != slots_.end() && at->id == position.ledger && position.entry > 0 && at->entries > 0) {
    return {at->id, std::min(position.entry, at->entries) - 1};
  }
  while (at != slots_.begin()) {
    --at;
    if (at->entries > 0) return {at->id, at->entries - 1};
  }
  return {slots_.empty() ? -1 : slots_.front().id, -1};
}

bool LedgerList::exists(Position position) const {
  const LedgerSlot* slot = find(position.ledger);
  return slot != nullptr && position.entry >= 0 && position.entry < slot->entries;
}

std::int64_t LedgerList::index_after(Position position) const {
  const auto at = at_or_after(position.ledger);
  if (at == slots_.end()) return end_index();
  if (at->id != position.ledger || position.entry < 0) return at->entries_before;
  return at->entries_before + (position.entry >= at->entries ? at->entries : position.entry + 1);
}

std::int64_t LedgerList::entries_between(Position from, Position to) const {
  return std::max<std::int64_t>(0, index_after(to) - index_after(from));
}

Position LedgerList::position_at(std::int64_t index) const {
  assert(index >= first_index() && index < end_index());
  // The last slot that begins at or before `index`; empty ledgers begin where their successor does.
  auto after = std::upper_bound(
      slots_.begin(), slots_.end(), index,
      [](std::int64_t wanted, const LedgerSlot& slot) { return wanted < slot.entries_before; });
  --after;
  return {after->id, index - after->entries_before};
}

std::optional<std::int64_t> LedgerList::messages_through(Position position) const {
  const auto at = at_or_after(position.ledger);
  if (at == slots_.end()) return slots_.empty() ? 0 : slots_.back().messages_through();
  if (at->id != position.ledger || position.entry < 0) return at->messages_before;
  if (position.entry >= at->entries - 1) return at->messages_through();
  if (at->messages_per_entry == LedgerSlot::kMixed) return std::nullopt;
  return at->messages_before + (position.entry + 1) * at->messages_per_entry;
}

LedgerList::Share LedgerList::share_through(Position position) const {
  const auto at = at_or_after(position.ledger);
  if (at == slots_.end()) return {slots_.empty() ? nullptr : &slots_.back(), 1};
  if (at->id != position.ledger || position.entry < 0 || at->entries == 0) return {&*at, 0};
  if (position.entry >= at->entries - 1) return {&*at, 1};
  return {&*at, static_cast<double>(position.entry + 1) / static_cast<double>(at->entries)};
}

std::int64_t LedgerList::bytes_through_estimate(Position position) const {
  const auto [slot, share] = share_through(position);
  if (slot == nullptr) return 0;
  return slot->bytes_before + static_cast<std::int64_t>(share * static_cast<double>(slot->bytes));
}

std::int64_t LedgerList::messages_through_estimate(Position position) const {
  const auto [slot, share] = share_through(position);
  if (slot == nullptr) return 0;
  return slot->messages_before +
         static_cast<std::int64_t>(share * static_cast<double>(slot->messages));
}

}  // namespace geminga
