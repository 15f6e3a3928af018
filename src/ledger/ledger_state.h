// What a log remembers of one ledger: its end, where its entries are, and which of them are in
// memory. Owned by the log's table, shared with open handles; on the log's shard only. Small, since
// there may be very many ledgers; what grows with its entries is one Extent a segment and, for
// blocks in memory only, one Run a block.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/position.h"

namespace geminga {

struct CachedBlock;
class LogLedger;

// Consecutive entries of the ledger in one segment.
struct Extent {
  EntryId first = -1;
  EntryId last = -1;
  std::uint64_t segment = 0;  // its sequence
  std::uint64_t payload_bytes = 0;
  std::uint64_t record_bytes = 0;
  std::int64_t messages_through = 0;
  bool moved = false;
};

// Consecutive entries of the ledger in one block in memory: entry first + i is the record at
// offsets[i] of the block.
struct Run {
  EntryId first = -1;
  CachedBlock* block = nullptr;
  std::vector<std::uint32_t> offsets;

  EntryId last() const { return first + static_cast<EntryId>(offsets.size()) - 1; }
};

// Consecutive entries of the ledger in one write block of the open segment.
struct OpenPoint {
  EntryId first = -1;
  std::uint32_t block = 0;
  std::uint32_t count = 0;
};

struct LedgerState {
  explicit LedgerState(LedgerId ledger) : id(ledger) {}

  const LedgerId id;
  bool reserve = false;  // may use the disk's reserve
  bool sealed = false;   // durable or about to be: no appends
  bool removed = false;
  bool failed = false;  // an append failed: no further ones
  EntryId last_added = -1;
  EntryId last_confirmed = -1;
  std::int64_t messages_added = 0;
  std::int64_t messages_confirmed = 0;
  std::int64_t bytes_confirmed = 0;
  std::uint64_t created_in = 0;  // sequence of the segment with its "created" record
  std::uint32_t created_bytes = 0;

  std::vector<Extent> extents;    // ascending; cover [0, last_added]
  std::vector<Run> runs;          // ascending, no overlap
  std::uint64_t points_of = 0;    // sequence of the segment that `points` are about
  std::vector<OpenPoint> points;  // ascending

  EntryId next_cold_read = -1;  // where a sequential reader will go on
  bool prefetching = false;
  std::weak_ptr<LogLedger> handle;

  // The extent with the entry, which must have been added.
  const Extent* extent_of(EntryId entry) const;
  // The run with the entry, or nullptr.
  Run* run_of(EntryId entry);
  // Puts a run in its place unless one with the same entries is there.
  void add_run(Run run);
};

}  // namespace geminga
