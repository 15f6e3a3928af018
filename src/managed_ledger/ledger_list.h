// The ledgers of one managed ledger in ascending order, and the arithmetic of positions over them.
// Pure data.
//
// Every entry has an index: how many entries were in the log before it, counted from some origin
// that stays fixed while the list lives (dropping ledgers at the front does not move it). Entries,
// bytes and messages before a position are therefore differences of running sums, and a backlog is
// one subtraction. A ledger costs one slot of 80 bytes however many entries it has.
//
// The list is never empty once its owner has opened; the last ledger is the one appended to (or the
// last one of a terminated log). Positions need not exist: ids of ledgers that are gone, empty or
// yet to come are ordered like any other. Belongs to its ManagedLedger, on the ledger's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/position.h"

namespace geminga {

struct LedgerSlot {
  // Not every entry carries the same number of messages, or it is not known.
  static constexpr std::uint32_t kMixed = 0;

  LedgerId id = -1;
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  std::int64_t closed_ms = 0;  // 0: still appended to
  // If not kMixed: each entry carries just so many messages (meaningless while there is no entry).
  std::uint32_t messages_per_entry = kMixed;
  // Running sums: of all ledgers before this one. Set by LedgerList.
  std::int64_t entries_before = 0;
  std::int64_t bytes_before = 0;
  std::int64_t messages_before = 0;

  std::int64_t entries_through() const { return entries_before + entries; }
  std::int64_t bytes_through() const { return bytes_before + bytes; }
  std::int64_t messages_through() const { return messages_before + messages; }
};

class LedgerList {
 public:
  bool empty() const { return slots_.empty(); }
  std::size_t size() const { return slots_.size(); }
  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }
  const LedgerSlot& front() const { return slots_.front(); }
  const LedgerSlot& back() const { return slots_.back(); }
  // nullptr if it is not in the list.
  const LedgerSlot* find(LedgerId id) const;

  // `slot.id` is greater than all before. The running sums are filled in.
  void push_back(LedgerSlot slot);
  // The last ledger must be empty.
  void pop_back_empty();
  // Drops all ledgers before `id`.
  void drop_before(LedgerId id);
  // One entry more in the last ledger.
  void entry_added(std::int64_t bytes, std::uint32_t messages);
  // What the last ledger really holds, and that it is closed.
  void close_back(std::int64_t entries, std::int64_t bytes, std::int64_t messages,
                  std::int64_t closed_ms);

  std::int64_t total_entries() const;
  std::int64_t total_bytes() const;
  std::int64_t total_messages() const;

  // See ManagedLedger for these.
  Position first_position() const { return normalize({-1, -1}); }
  Position last_confirmed() const;
  Position end_position() const;  // one past the last entry
  Position normalize(Position position) const;
  Position next(Position position) const;
  Position previous(Position position) const;
  bool exists(Position position) const;
  std::int64_t entries_between(Position from, Position to) const;

  // How many entries are at or before `position`, from the origin: the index of the entry after it.
  std::int64_t index_after(Position position) const;
  std::int64_t first_index() const { return slots_.empty() ? 0 : slots_.front().entries_before; }
  std::int64_t end_index() const { return slots_.empty() ? 0 : slots_.back().entries_through(); }
  // The entry with that index; first_index() <= index < end_index().
  Position position_at(std::int64_t index) const;

  // Messages in entries at or before `position`, from the origin, where that is known without
  // asking the ledger (between ledgers, at their ends, or if all entries of the ledger count
  // alike).
  std::optional<std::int64_t> messages_through(Position position) const;
  // The same for bytes and messages, by the averages of the ledger's entries.
  std::int64_t bytes_through_estimate(Position position) const;
  std::int64_t messages_through_estimate(Position position) const;

 private:
  // The first slot whose id is >= `id`.
  std::vector<LedgerSlot>::const_iterator at_or_after(LedgerId id) const;
  // The share of the slot's entries that is at or before `position`.
  struct Share {
    const LedgerSlot* slot;
    double of_entries;
  };
  Share share_through(Position position) const;

  std::vector<LedgerSlot> slots_;
};

}  // namespace geminga
