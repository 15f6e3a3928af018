// Memory for log blocks: 4096-aligned Blocks that are counted in the memory budget from allocation
// until the last Buffer into them is gone, wherever that is. A few blocks of the standard size are
// kept for reuse (and stay counted), which saves the page faults of fresh memory.
//
// allocate() on the log's shard; blocks come back on any thread. The pool lives until its owner has
// dropped it and the last block is back. The budget outlives it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/buffer.h"
#include "runtime/memory_budget.h"

namespace geminga {

class BlockPool;

// A block of the pool. Whoever allocated it holds one reference to `block`; after unref() of that,
// this is gone.
struct PooledBlock {
  Block* block = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<BlockPool> pool;  // empty while it lies in the pool
  std::atomic<MemoryUse> use{MemoryUse::Cache};

  // What the memory is counted as from now on.
  void count_as(MemoryUse use);
};

class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  static std::shared_ptr<BlockPool> make(MemoryBudget& budget, std::size_t standard_bytes,
                                         std::size_t keep_blocks);
  ~BlockPool();

  // At least `bytes`, rounded up to 4096.
  PooledBlock* allocate(std::size_t bytes, MemoryUse use);
  MemoryBudget& budget() { return budget_; }
  std::size_t standard_bytes() const { return standard_bytes_; }

 private:
  BlockPool(MemoryBudget& budget, std::size_t standard_bytes, std::size_t keep_blocks)
      : budget_(budget), standard_bytes_(standard_bytes), keep_blocks_(keep_blocks) {}
  static void release(Block* block, void* owner);
  void take_back(PooledBlock* pooled);

  MemoryBudget& budget_;
  const std::size_t standard_bytes_;
  const std::size_t keep_blocks_;
  std::mutex
      mutex_;  // taken a few thousand times a second, by whichever thread drops the last Buffer
  std::vector<PooledBlock*> free_;
};

}  // namespace geminga
