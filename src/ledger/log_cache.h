// The blocks of a log that are in memory: those being written, those written lately (tail reads
// find their entries here), and those read back from disk. One copy of an entry serves disk, cache
// and delivery.
//
//   writing --finish()--> tail (first in, first out) --evict--> gone
//                         cold (least recently used) --evict--> gone
//
// Evicted memory that Buffers still point into stays counted in the budget until they are gone
// (BlockPool). A catch-up read cannot push out the tail: cold blocks are evicted first once they
// take half of the cache, and tail blocks keep the other half. Under pressure of the process's
// budget the cache shrinks. On the log's shard only.
//
// How much is kept follows from what it is good for: the target begins at `least` bytes. Blocks
// that are read back although they were evicted a short while ago (a larger cache would have had
// them) raise it, up to `limit`; blocks that come and go without that lower it again. So a backlog
// that nobody reads twice costs little memory, and readers that follow each other share what one of
// them has read.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "ledger/block_pool.h"
#include "ledger/ledger_state.h"
#include "ledger/log_options.h"

namespace geminga {

// One write block of a segment: the same range of the file when it is written and when it is read
// back.
struct CachedBlock {
  CachedBlock() = default;
  ~CachedBlock();
  CachedBlock(const CachedBlock&) = delete;
  CachedBlock& operator=(const CachedBlock&) = delete;

  std::byte* data() const { return memory->block->data(); }

  PooledBlock* memory = nullptr;
  std::uint64_t segment = 0;  // sequence
  std::uint32_t ordinal = 0;  // among the segment's blocks
  std::uint64_t begin = 0;    // offset in the segment
  std::size_t size = 0;       // bytes with records; grows while it is written
  std::uint32_t seed = 0;     // of the segment
  bool cold = false;
  bool read_on = false;  // a reader has been here
  bool evictable = false;
  // A record that failed its check when the block was read: its offset in the block.
  std::vector<std::uint32_t> damaged;
  std::vector<LedgerState*> ledgers;                        // those with runs in this block
  std::list<std::shared_ptr<CachedBlock>>::iterator place;  // if evictable
};

class LogCache {
 public:
  LogCache(std::shared_ptr<BlockPool> pool, std::size_t least, std::size_t limit,
           LogCounters& counters);
  ~LogCache();

  // A block of at least `bytes` for writing; not evictable until finish().
  std::shared_ptr<CachedBlock> new_write_block(std::size_t bytes);
  void finish(const std::shared_ptr<CachedBlock>& block);
  // Memory for a block that is read; insert_cold() when it is filled and checked.
  std::shared_ptr<CachedBlock> new_cold_block(std::size_t bytes);
  void insert_cold(const std::shared_ptr<CachedBlock>& block);
  // Enters a write block into the table, once segment and ordinal are set.
  void insert(const std::shared_ptr<CachedBlock>& block);

  // Counts as a use.
  std::shared_ptr<CachedBlock> find(std::uint64_t segment, std::uint32_t ordinal);
  void used(CachedBlock& block);

  void add_run(LedgerState& ledger, CachedBlock& block, Run run);
  // Appends the record at `offset` of the block being written to the ledger's last run, or to a new
  // one.
  void note_written(LedgerState& ledger, CachedBlock& block, EntryId entry, std::uint32_t offset);
  void drop_ledger(LedgerState& ledger);
  void drop_segment(std::uint64_t segment);

  std::size_t bytes() const { return tail_bytes_ + cold_bytes_; }
  std::size_t target() const { return target_; }
  void trim();

 private:
  using List = std::list<std::shared_ptr<CachedBlock>>;
  static std::uint64_t key(std::uint64_t segment, std::uint32_t ordinal) {
    return segment << 24 | ordinal;
  }
  bool evict_one();
  void evict(CachedBlock& block);
  void remember(const CachedBlock& evicted);
  void adapt(const CachedBlock& inserted);

  const std::shared_ptr<BlockPool> pool_;
  const std::size_t least_;
  const std::size_t limit_;
  std::size_t target_;  // least_ <= target_ <= limit_
  LogCounters& counters_;
  std::unordered_map<std::uint64_t, std::shared_ptr<CachedBlock>> blocks_;
  List tail_;  // oldest first
  List cold_;  // least recently used first
  std::size_t tail_bytes_ = 0;
  std::size_t cold_bytes_ = 0;
  // Keys of blocks evicted lately, oldest first: as many as the limit holds beyond `least`. One
  // that was read back is 0 in the queue.
  std::deque<std::uint64_t> evicted_;
  std::unordered_map<std::uint64_t, std::uint64_t> evicted_at_;  // key -> its number in the queue
  std::uint64_t evicted_begin_ = 0;                              // number of evicted_.front()
};

}  // namespace geminga
