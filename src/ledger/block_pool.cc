#include "ledger/block_pool.h"

#include <utility>

#include "ledger/log_format.h"

namespace geminga {

void PooledBlock::count_as(MemoryUse next) {
  const MemoryUse before = use.exchange(next, std::memory_order_relaxed);
  if (before == next) return;
  pool->budget().give_back(before, bytes);
  pool->budget().take(next, bytes);
}

std::shared_ptr<BlockPool> BlockPool::make(MemoryBudget& budget, std::size_t standard_bytes,
                                           std::size_t keep_blocks) {
  return std::shared_ptr<BlockPool>(
      new BlockPool(budget, log_format::align_up(standard_bytes, 4096), keep_blocks));
}

BlockPool::~BlockPool() {
  for (PooledBlock* pooled : free_) {
    budget_.give_back(pooled->use, pooled->bytes);
    Block::destroy(pooled->block);
    delete pooled;
  }
}

PooledBlock* BlockPool::allocate(std::size_t bytes, MemoryUse use) {
  if (bytes <= standard_bytes_) {
    std::unique_lock lock(mutex_);
    if (!free_.empty()) {
      PooledBlock* pooled = free_.back();
      free_.pop_back();
      lock.unlock();
      pooled->pool = shared_from_this();
      pooled->block->reset_refs();
      pooled->count_as(use);
      return pooled;
    }
  }
  auto pooled = std::make_unique<PooledBlock>();
  pooled->bytes = bytes <= standard_bytes_ ? standard_bytes_ : log_format::align_up(bytes, 4096);
  pooled->use = use;
  pooled->block = Block::allocate(pooled->bytes, 4096, &BlockPool::release, pooled.get());
  pooled->pool = shared_from_this();
  budget_.take(use, pooled->bytes);
  return pooled.release();
}

void BlockPool::release(Block*, void* owner) {
  auto* pooled = static_cast<PooledBlock*>(owner);
  // Keeps the pool alive for the call; with the last block it goes here.
  const std::shared_ptr<BlockPool> pool = std::move(pooled->pool);
  pool->take_back(pooled);
}

void BlockPool::take_back(PooledBlock* pooled) {
  if (pooled->bytes == standard_bytes_) {
    std::lock_guard lock(mutex_);
    if (free_.size() < keep_blocks_) {
      free_.push_back(pooled);
      return;
    }
  }
  budget_.give_back(pooled->use, pooled->bytes);
  Block::destroy(pooled->block);
  delete pooled;
}

}  // namespace geminga
