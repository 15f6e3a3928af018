// Reads of entries: from blocks in memory (read_cached, the tail) and from disk (read). A cold read
// finds the block through the ledger's extents and the segment's index, brings the whole block into
// the cache, checks every record in it, and, when a ledger is read on from where the last read
// ended, fetches the next blocks ahead. Concurrent reads of one block share one fetch. On the log's
// shard only.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ledger/ledger_store.h"
#include "ledger/log_cache.h"
#include "ledger/log_segments.h"
#include "runtime/async.h"

namespace geminga {

class LogReader {
 public:
  LogReader(Shard& shard, LogIo& io, LogSegments& segments, LogCache& cache,
            const LogStoreOptions& options, LogCounters& counters)
      : shard_(shard),
        io_(io),
        segments_(segments),
        cache_(cache),
        options_(options),
        counters_(counters) {}

  // Finds the state of a ledger that exists, or nullptr: to give the entries of a fetched block to
  // their ledgers.
  void on_lookup(UniqueFunction<std::shared_ptr<LedgerState>(LedgerId)> hook) {
    lookup_ = std::move(hook);
  }

  std::size_t read_cached(const std::shared_ptr<LedgerState>& ledger, EntryId first,
                          std::size_t max_entries, std::size_t max_bytes,
                          std::vector<LedgerEntry>& out);
  Task<Result<std::vector<LedgerEntry>>> read(std::shared_ptr<LedgerState> ledger, EntryId first,
                                              std::size_t max_entries, std::size_t max_bytes);
  Task<Result<std::int64_t>> messages_through(std::shared_ptr<LedgerState> ledger, EntryId entry);

  // A block of a segment by its number, and the index of a segment; for space reclaim.
  Task<Result<std::shared_ptr<CachedBlock>>> fetch(std::shared_ptr<LogSegment> segment,
                                                   std::shared_ptr<SegmentIndex> index,
                                                   std::uint32_t ordinal);
  Task<Result<std::shared_ptr<SegmentIndex>>> index_of(std::shared_ptr<LogSegment> segment);

  // Waits for reads ahead; nothing is read after it.
  Task<void> close();

 private:
  struct Located {
    std::shared_ptr<LogSegment> segment;
    std::shared_ptr<SegmentIndex> index;
    std::uint32_t ordinal = 0;
  };
  struct Fetch {
    Event done;
    Result<std::shared_ptr<CachedBlock>> result{std::shared_ptr<CachedBlock>()};
  };

  struct Found {
    std::shared_ptr<CachedBlock> block;
    Run run;
  };

  std::size_t copy_out(const Run& run, CachedBlock& block, EntryId entry, std::size_t max_entries,
                       std::size_t max_bytes, std::size_t& bytes, std::vector<LedgerEntry>& out);
  Task<Result<Found>> find(std::shared_ptr<LedgerState> ledger, EntryId entry);
  Task<Result<Located>> locate(std::shared_ptr<LedgerState> ledger, EntryId entry);
  Task<Status> read_file(std::shared_ptr<LogSegment> segment, std::uint64_t offset,
                         std::span<std::byte> into);
  Task<Result<std::shared_ptr<SegmentIndex>>> read_index(std::shared_ptr<LogSegment> segment);
  Task<Result<std::shared_ptr<SegmentIndex>>> rebuild_index(std::shared_ptr<LogSegment> segment);
  void index_block(CachedBlock& block);
  static Run scan_for(const LedgerState& ledger, const CachedBlock& block, EntryId entry,
                      std::uint32_t alignment);
  void read_ahead(const std::shared_ptr<LedgerState>& ledger, EntryId from);
  Task<void> fetch_ahead(std::shared_ptr<LedgerState> ledger, EntryId from);
  static Status damaged(const LogSegment& segment, const CachedBlock& block, LedgerId ledger,
                        EntryId entry);

  Shard& shard_;
  LogIo& io_;
  LogSegments& segments_;
  LogCache& cache_;
  const LogStoreOptions& options_;
  LogCounters& counters_;
  UniqueFunction<std::shared_ptr<LedgerState>(LedgerId)> lookup_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Fetch>> fetching_;  // by segment and block
  Gate gate_;
};

}  // namespace geminga
