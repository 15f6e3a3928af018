// One run of compaction: reads what a topic holds up to some position and writes what is to be kept
// of it into a new ledger.
//
// What it reads is the data of the last run (if any), then the log behind its horizon. First it
// finds, in one pass or, where the keys do not fit into the memory given, in as many as it takes
// (one for each part of the range of their hashes), which message is the latest of each key; then
// it reads all once more and writes those. Between the passes a message is its number in the order
// of reading, so both must see the same: if they do not (the topic was truncated) the run fails.
//
// Memory: LatestByKey (27 to 55 bytes a key, at most `index_bytes`), and of the messages to keep at
// most an eighth of a byte a message read. It reads `step_bytes` at a time and lets everybody else
// have their turn after each step. It knows nothing of cursors, and leaves nothing behind but the
// ledger it was given to write. On the topic's shard.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/range_counts.h"
#include "base/siphash.h"
#include "broker/compacted_ledger.h"
#include "broker/compaction_entry.h"
#include "broker/latest_by_key.h"
#include "broker/windowed_rate.h"
#include "managed_ledger/entry_set.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/shard.h"

namespace geminga {

// What runs have done, for metrics.
struct CompactionMeters {
  WindowedRate bytes_read, bytes_written;
  WriteLatency write_latency;  // of an entry
};

struct CompactorOptions {
  bool retain_null_key = false;  // topicCompactionRetainNullKey
  std::int32_t partition = -1;
  // Messages of aborted transactions count as not there; unset: there are no transactions.
  std::function<bool(const TxnId&)> is_aborted;
  CompactionMeters* meters = nullptr;  // outlives the run
  std::size_t index_bytes = std::size_t{64} << 20;
  std::size_t step_entries = 100;
  std::size_t step_bytes = std::size_t{256} << 10;
};

struct CompactionCounts {
  std::int64_t entries_read = 0;
  std::int64_t messages_read = 0;  // without those that were compacted out before
  std::int64_t bytes_read = 0;
  std::int64_t entries_written = 0;
  std::int64_t messages_kept = 0;
  std::int64_t bytes_written = 0;
  int passes = 0;  // over the data, the one that writes included
};

class Compactor {
 public:
  // `previous` may be null; its horizon is where the log is read from. `last` is the last position
  // to read. `stopped` is asked at every step. All outlive the run.
  Compactor(Shard& shard, ManagedLedger& log, std::shared_ptr<CompactedLedger> previous,
            Position last, CompactorOptions options, const bool& stopped);

  // Finds what to keep. Cancelled if stopped.
  Task<Status> choose();
  // Writes it. `into` holds all of it, sealed, when this returns OK.
  Task<Status> write(std::shared_ptr<Ledger> into);

  const CompactionCounts& counts() const { return counts_; }

 private:
  class Input;
  class Output;

  // The messages of one that came in several entries, by the producer's id for it.
  struct Chunks {
    std::vector<std::uint64_t> numbers;
  };

  Task<Status> pass(std::uint64_t from);
  // Takes the entry in content_, whose first message has the number `first`, into the table.
  void look_at(std::uint64_t first);
  void look_at_chunk(std::uint64_t number);
  void latest(std::string_view key, bool empty, std::uint64_t number);
  void keep_chosen();
  void count_read(std::int64_t bytes) const;
  Status write_entry(const Entry& entry, std::uint64_t first, Output& output);
  Task<Status> step();

  Shard& shard_;
  ManagedLedger& log_;
  const std::shared_ptr<CompactedLedger> previous_;
  const Position last_;
  const CompactorOptions options_;
  const bool& stopped_;
  const SipKey hash_key_ = random_sip_key();

  LatestByKey latest_;
  EntrySet kept_;  // numbers of messages
  CompactionEntry content_;
  std::unordered_map<std::string, Chunks> unfinished_;
  std::unordered_map<std::uint64_t, Chunks> chunks_of_;  // by the number of the last chunk
  std::vector<bool> keep_;
  CompactionCounts counts_;
};

}  // namespace geminga
