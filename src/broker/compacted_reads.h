// How one subscription reads a compacted topic: up to the horizon from the compacted data, behind
// it from the log; and what its acknowledgements mean there.
//
// What compaction took out will never be delivered to such a subscription: it is acknowledged as
// soon as everything before it is. So the backlog goes to nothing, and nothing is kept for it for
// ever. The entries sent from the compacted data and not acknowledged are remembered in order, each
// with where the gap before it begins (64 bytes, at most kMaxTracked; what is sent beyond is
// acknowledged in the cursor only, entry by entry).
//
// The compacted data may begin before the log does, where the cursor cannot stand. Then the place
// up to which it has acknowledged is kept with the cursor, as two numbers beside its mark-delete
// position, until it reaches the log.
//
// Owned by the subscription, used by its dispatcher; on the topic's shard.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "broker/compacted_ledger.h"
#include "broker/ring.h"
#include "broker/topic_compaction.h"
#include "managed_ledger/managed_ledger.h"
#include "wire/message_metadata.h"

namespace geminga {

class CompactedReads {
 public:
  static constexpr std::size_t kMaxTracked = 100'000;

  // All outlive it.
  CompactedReads(const TopicCompaction& topic, ManagedLedger& log, ManagedCursor& cursor)
      : topic_(topic), log_(log), cursor_(cursor) {}

  // A cursor that was just made, or is about to be reset, is to deliver `next` and what follows.
  // Not on disk before the cursor's next flush.
  void start_at(Position next);

  // Reading begins (again) at what is not acknowledged: where.
  Position begin();
  // Is `from` to be read from the compacted data? If they hold nothing from there on, `from`
  // becomes the position behind the horizon.
  bool covers(Position& from);
  // The compacted data hold something at or after `from`.
  bool has(Position from) const {
    return topic_.current() != nullptr && topic_.current()->reaches(from);
  }
  std::size_t read_cached(Position from, std::size_t max_entries, std::size_t max_bytes,
                          std::vector<Entry>& out);
  Task<Result<std::vector<Entry>>> read(Position from, std::size_t max_entries,
                                        std::size_t max_bytes);

  bool is_acked(Position position);
  // What of a batch of the compacted data is to be sent, as in MESSAGE's ack_set: not what was
  // taken out, which not every client passes over by itself. Empty: all of it, as far as is known
  // here. Valid until the next call.
  const AckSet& left_of(const Entry& entry, const EntryMetadata& metadata);
  // An entry of the compacted data is sent; they hold nothing from `from` up to it. `left` as
  // above.
  void delivered(Position from, Position position, const AckSet& left);
  // An entry was wholly acknowledged; the cursor knows, if it can.
  void ack(Position position);
  // A part of a batch was, all but `remaining`.
  void ack_partly(Position position, const AckSet& remaining);
  void ack_cumulative(Position position);
  // Up to where everything is acknowledged that this subscription gets.
  Position mark_delete() const;

  // The first message published at or after `time_ms`, given the log's.
  Task<Result<Position>> first_published_at(std::int64_t time_ms, Position of_log);

 private:
  struct Sent {
    Position gap_from;
    Position position;
    bool acked = false;
    AckSet left;  // of a batch; empty if that is the cursor's business
  };
  struct Gap {
    Position from;
    Position through;
  };

  std::optional<Position> place() const;
  void set_place(std::optional<Position> place);
  Sent* find(Position position);
  Position first_unacked() const;
  void advance();
  // Everything through `position` is done with.
  void move_to(Position position);

  const TopicCompaction& topic_;
  ManagedLedger& log_;
  ManagedCursor& cursor_;
  CompactedLedger::Place reading_;
  Ring<Sent> sent_;
  AckSet left_;
  bool untracked_ = false;   // some were sent beyond kMaxTracked
  std::optional<Gap> tail_;  // behind all of sent_: the data are read to their end
};

}  // namespace geminga
