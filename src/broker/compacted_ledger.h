// The compacted data of a topic: a ledger of its own with the latest message of each key, as Pulsar
// keeps it (docs/format/managed-ledger.md).
//
//   BE32 size | MessageIdData (ledger, entry, partition) | BE32 size | entry as in the log
//
// in ascending order of the ids. It stands for everything in the log up to its horizon, whether the
// log still has it or not. Sealed: it never changes; the next compaction writes another. Where an
// id is found is known by binary search over the entries themselves, so nothing is kept in memory
// but the last id; who reads on remembers its Place.
//
// Shared by the topic and by reads in flight, used on the topic's shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/position.h"
#include "base/status.h"
#include "broker/topic.h"
#include "ledger/ledger_store.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/task.h"

namespace geminga {

Buffer encode_compacted_entry(Position position, std::int32_t partition,
                              std::span<const std::byte> entry);
// The id and the entry, which shares the bytes. Corruption.
Result<Entry> decode_compacted_entry(const Buffer& stored);

class CompactedLedger {
 public:
  // Where a reader stands: all entries before `index` have ids before `from`.
  struct Place {
    LedgerId ledger = -1;
    EntryId index = 0;
    Position from;
  };

  // Opens the ledger `id`. NotFound if there is none.
  static Task<Result<std::shared_ptr<CompactedLedger>>> open(LedgerStore* store, LedgerId id,
                                                             Position horizon);
  // `ledger` is sealed.
  static Task<Result<std::shared_ptr<CompactedLedger>>> of(std::shared_ptr<Ledger> ledger,
                                                           Position horizon);
  CompactedLedger(std::shared_ptr<Ledger> ledger, Position horizon)
      : ledger_(std::move(ledger)), horizon_(horizon) {}

  LedgerId id() const { return ledger_->id(); }
  std::int64_t entries() const { return ledger_->last_confirmed() + 1; }
  std::int64_t bytes() const { return ledger_->bytes(); }
  // It has an entry whose id is `from` or later.
  bool reaches(Position from) const { return entries() > 0 && from <= last(); }
  // The last position of the log that it stands for.
  Position horizon() const { return horizon_; }
  Position first() const { return first_; }  // the id of its first entry, if it has one
  // The id of its last entry and the last message of that; (-1, -1) if it is empty.
  Position last() const { return last_.position; }
  const Topic::LastMessage& last_message() const { return last_; }

  // Entries whose id is `from` or later, in order, as the ManagedLedger gives those of the log.
  // read() gives at least one if it reaches(from). A place of another ledger, or beyond `from`, is
  // looked up anew.
  std::size_t read_cached(Position from, Place& place, std::size_t max_entries,
                          std::size_t max_bytes, std::vector<Entry>& out);
  Task<Result<std::vector<Entry>>> read(Position from, Place* place, std::size_t max_entries,
                                        std::size_t max_bytes);
  // By index, for who reads all of it.
  Task<Result<std::vector<Entry>>> read_at(EntryId first, std::size_t max_entries,
                                           std::size_t max_bytes);
  // The id of the first message published at or after `time_ms` (a few earlier ones where times are
  // not in order); nothing if none was.
  Task<Result<std::optional<Position>>> first_published_at(std::int64_t time_ms);

 private:
  Task<Status> learn_ends();
  Task<Result<Entry>> entry_at(EntryId index);
  // The index of the first entry whose id is `from` or later.
  Task<Result<EntryId>> index_of(Position from);
  Status take(std::vector<LedgerEntry>& stored, Position from, Place& place,
              std::vector<Entry>& out) const;

  const std::shared_ptr<Ledger> ledger_;
  const Position horizon_;
  Position first_;
  Topic::LastMessage last_;
};

}  // namespace geminga
