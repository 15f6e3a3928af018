// A cursor: how far one subscription has acknowledged a managed ledger.
//
// State = mark-delete position (everything up to and including it is acknowledged), the ranges
// acknowledged beyond it, for partly acknowledged batches a bit set of what is left, and how often
// entries were asked for again. Everything else (backlog, next position to deliver) is derived from
// it. Acknowledgements and counts act in memory at once and are persisted within the flush
// interval; a crash may bring back what was acknowledged in the last interval, nothing older. Where
// a reader stands is the dispatcher's business, not the cursor's.
//
// Owned by its ManagedLedger (shared with the subscription), used on the ledger's shard only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "managed_ledger/position_map.h"
#include "runtime/task.h"

namespace geminga {

// Bit i = message i of a batch, 64 a word, lowest bit first; 1 = NOT yet acknowledged. Missing
// words are zero. (The form of MessageIdData.ack_set and of stored cursors.)
using AckSet = std::vector<std::uint64_t>;

// How often each entry was asked for again.
using RedeliveryCounts = PositionMap<std::uint32_t>;
// So many entries of a cursor have a count (24 bytes each in memory). Beyond it the lowest counts
// are the ones not kept: an entry asked for again for the first time is not counted until one of
// the others is acknowledged.
constexpr std::size_t kMaxRedeliveryCounts = 100'000;

class ManagedCursor {
 public:
  virtual ~ManagedCursor() = default;

  virtual const std::string& name() const = 0;
  virtual bool durable() const = 0;

  virtual Position mark_delete() const = 0;
  // The first position after mark-delete that holds an entry not wholly acknowledged; one past the
  // last entry's position if there is none. Never in a gap between ledgers.
  virtual Position first_unacked() const = 0;
  virtual bool is_acked(Position position) const = 0;
  // The first position >= `from` that is not wholly acknowledged (may be past the last entry).
  virtual Position next_unacked(Position from) const = 0;
  // What is left of a batch; nullptr if nothing of it was acknowledged (or all of it).
  virtual const AckSet* ack_set(Position position) const = 0;

  // Acknowledge one entry of `messages` messages (Entry::messages, which whoever delivered it
  // knows). True: it was not wholly acknowledged before. Positions that hold no entry are ignored
  // (false). 0 or no `messages`: not known; then backlog_messages() may need a moment (see there).
  virtual bool ack(Position position, std::uint32_t messages) = 0;
  bool ack(Position position) { return ack(position, 0); }
  // Acknowledge part of a batch of `batch_size` messages: keep only what `remaining` and what is
  // left so far have in common. True: this made the entry wholly acknowledged. `newly_acked`, if
  // given, receives how many messages of it this call acknowledged. `batch_size` 0: not known; then
  // `newly_acked` may be 0, and ones beyond the batch's end are dropped when its size is known.
  virtual bool ack_partly(Position position, std::span<const std::uint64_t> remaining,
                          std::uint32_t batch_size, std::uint32_t* newly_acked = nullptr) = 0;
  // Everything up to and including `position`; positions beyond the last entry are cut to it.
  virtual void ack_cumulative(Position position) = 0;

  // Counts of entries that are not wholly acknowledged; an entry without one was not asked for
  // again. They go with the acknowledgement, and all with reset().
  virtual const RedeliveryCounts& redeliveries() const = 0;
  // One more for this entry. Ignored if it is acknowledged or does not exist.
  virtual void count_redelivery(Position position) = 0;

  // Not yet acknowledged: entries (Pulsar's msgBacklog counts these), messages, payload bytes
  // (estimate). O(1), from memory. Entries are exact always. Messages are exact at once after ack()
  // with a count, ack_partly(), and whenever the counts follow from the log's own (up to the end or
  // an end of a ledger, or all entries of a ledger carry alike); after ack() without a count,
  // ack_cumulative() or reset() into the middle of a ledger of mixed batches, the ledger is asked
  // and the number is an estimate until it has answered: backlog_is_exact() tells.
  virtual bool backlog_is_exact() const { return true; }
  virtual std::int64_t backlog_entries() const = 0;
  virtual std::int64_t backlog_messages() const = 0;
  virtual std::int64_t backlog_bytes() const = 0;
  virtual std::size_t acked_range_count() const = 0;
  // Time of the last acknowledgement or consumer activity, ms since 1970.
  virtual std::int64_t last_active_ms() const = 0;
  virtual void touch() = 0;

  // Seek: the next entry to deliver becomes the first at or after `position` (Position::earliest()
  // and latest() understood); all acknowledgements beyond it are forgotten. Durable when it
  // returns.
  virtual Task<Status> reset(Position position) = 0;
  // Persist now. OK at once for non-durable cursors.
  virtual Task<Status> flush() = 0;

  // Subscription properties (text) and the numbers kept with the mark-delete position
  // ("CompactedTopicLedger", deduplication). Setting is durable when it returns; the numbers are
  // persisted with the next flush.
  virtual const std::map<std::string, std::string>& properties() const = 0;
  virtual Task<Status> set_properties(std::map<std::string, std::string> properties) = 0;
  virtual const std::map<std::string, std::int64_t>& position_properties() const = 0;
  virtual void set_position_properties(std::map<std::string, std::int64_t> properties) = 0;
  // For the broker's own cursors: the state becomes "everything through `mark_delete`, nothing
  // beyond" and these numbers, both or neither, on disk before in memory. An error says that memory
  // has not changed; if the write took effect all the same, the next one answers Fenced. The
  // numbers are in the cursor's key, where referenced_ledgers() finds them.
  virtual Task<Status> commit(Position mark_delete,
                              std::map<std::string, std::int64_t> properties) = 0;
};

// The number under which a cursor keeps the ledger of a topic's compacted data.
inline constexpr char kCompactedLedgerProperty[] = "CompactedTopicLedger";

}  // namespace geminga
