// What a cursor knows: the mark-delete position, the entries acknowledged beyond it, what is left
// of partly acknowledged batches, how often entries were asked for again, and how many messages are
// acknowledged. Pure data, no I/O.
//
// Entries are counted from the structure itself and always exact. Messages need to know how many an
// entry carries. Each call below is exact at once if that follows from its arguments, from what is
// left of a batch, or from the LedgerList; otherwise the state becomes "not exact" and its owner
// must count anew: begin_count(), then next_share() and add_counted() ledger by ledger (asking the
// ledgers may take time, acknowledgements go on meanwhile), then end_count(). Until then
// backlog_messages() is an estimate from the averages.
//
// A recount is consistent without stopping anything because a ledger's share is taken at one
// instant: an acknowledgement in a ledger whose share was taken is added to the sum, one in a later
// ledger will be part of its share. Only what cannot be added (an unknown count, a reset) makes the
// recount start again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/position.h"
#include "managed_ledger/entry_set.h"
#include "managed_ledger/ledger_list.h"
#include "managed_ledger/managed_cursor.h"

namespace geminga {

class CursorState {
 public:
  // What is left of a batch.
  struct Partial {
    AckSet remaining;
    std::uint32_t batch_size = 0;  // 0: not known (loaded from disk)
    std::uint32_t left() const;
  };

  // `ledgers` outlives the state. Begins before the first entry, with nothing acknowledged.
  explicit CursorState(const LedgerList& ledgers);

  Position mark_delete() const { return mark_delete_; }
  bool is_acked(Position position) const;
  Position next_unacked(Position from) const;
  const AckSet* ack_set(Position position) const;
  // The first ledger that has, or will have, an entry not acknowledged.
  LedgerId needed_ledger() const { return ledgers_.next(mark_delete_).ledger; }
  const std::map<LedgerId, EntrySet>& acked() const { return acked_; }
  const std::map<Position, Partial>& partials() const { return partials_; }
  std::size_t acked_range_count() const;
  const RedeliveryCounts& redeliveries() const { return redeliveries_; }
  // How often count_redelivery() found no room for another entry.
  std::uint64_t redeliveries_not_kept() const { return redeliveries_not_kept_; }

  // As in ManagedCursor. `messages` or `batch_size` 0: not known. All return whether something
  // changed.
  bool ack(Position position, std::uint32_t messages);
  bool ack_partly(Position position, std::span<const std::uint64_t> remaining,
                  std::uint32_t batch_size, std::uint32_t* newly_acked, bool* completed);
  bool ack_cumulative(Position position);
  bool count_redelivery(Position position);
  // Everything through `mark_delete` is acknowledged and nothing beyond.
  void reset(Position mark_delete);
  // The list has dropped ledgers at its front.
  void ledgers_dropped();

  // Loading a stored state: restore(), then the ranges and batches in any order, then restored().
  // What does not exist (any more) is left out. `acked_messages` as stored_acked_messages() gave
  // it, if known.
  void restore(Position mark_delete);
  void restore_range(LedgerId ledger, EntryId first, EntryId last);
  // From `first` through `last` in a later ledger, with all ledgers between.
  void restore_span(Position first, Position last);
  void restore_partial(Position position, AckSet remaining);
  void restore_redeliveries(Position position, std::uint32_t count);
  void restored(std::optional<std::int64_t> acked_messages);
  // Messages acknowledged in the mark-delete position's ledger and later ones; empty while not
  // exact.
  std::optional<std::int64_t> stored_acked_messages() const;

  std::int64_t backlog_entries() const;
  std::int64_t backlog_messages() const;
  std::int64_t backlog_bytes() const;
  bool exact() const { return exact_; }
  std::size_t memory_bytes() const;

  // What of one ledger is acknowledged: entries [0, through] and the ranges, wholly, plus `partly`
  // (known numbers of messages), plus of each entry in `unsized` all messages but so many.
  struct Share {
    LedgerId ledger = -1;
    EntryId through = -1;
    std::vector<std::pair<EntryId, EntryId>> ranges;
    std::int64_t partly = 0;
    std::vector<std::pair<EntryId, std::uint32_t>> unsized;
  };
  void begin_count();
  // What was asked about an entry of `unsized`. Returns how many of the messages left lie beyond
  // the batch's end (a client may send more ones than messages): they are not left, so add them.
  std::uint32_t sized(Position position, std::uint32_t messages);
  // The next ledger to ask about; empty when all have been.
  std::optional<Share> next_share();
  void add_counted(std::int64_t messages) { count_.sum += messages; }
  void end_count();

 private:
  struct Count {
    bool running = false;
    bool stale = false;
    LedgerId through = -1;  // the shares of this ledger and all before are in the sum
    std::int64_t sum = 0;
  };

  void add_acked(Position position);
  void collapse();
  // `messages` more of `ledger` are acknowledged.
  void counted(LedgerId ledger, std::int64_t messages);
  void uncounted();
  std::int64_t acked_messages_estimate() const;
  void exactly(std::int64_t acked_messages);

  const LedgerList& ledgers_;
  Position mark_delete_;
  std::map<LedgerId, EntrySet> acked_;  // beyond mark_delete_, never empty sets
  std::map<Position, Partial> partials_;
  RedeliveryCounts redeliveries_;
  std::uint64_t redeliveries_not_kept_ = 0;
  std::int64_t acked_entries_ = 0;  // in acked_
  // Messages acknowledged, from the list's origin (what lies before its first ledger counts as
  // acknowledged).
  std::int64_t acked_messages_ = 0;
  bool exact_ = true;
  Count count_;
  bool restore_clipped_ = false;
};

}  // namespace geminga
