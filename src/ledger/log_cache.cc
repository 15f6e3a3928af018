#include "ledger/log_cache.h"

#include <algorithm>
#include <utility>

namespace geminga {

namespace {
// Share of the process's budget from which on the cache gives way: below MemoryBudget::kHoldAt, so
// that producers are held back only when there is nothing left to evict.
constexpr double kShrinkAt = 0.75;

// A block that would have been found raises the target by kRaise blocks, any other lowers it by
// 1/kLower of one: it grows where more than one block in nine is read back.
constexpr std::size_t kRaise = 2;
constexpr std::size_t kLower = 4;
}  // namespace

CachedBlock::~CachedBlock() {
  if (memory != nullptr) memory->block->unref();
}

LogCache::LogCache(std::shared_ptr<BlockPool> pool, std::size_t least, std::size_t limit,
                   LogCounters& counters)
    : pool_(std::move(pool)),
      least_(std::min(least, limit)),
      limit_(limit),
      target_(least_),
      counters_(counters) {}

LogCache::~LogCache() {
  for (auto& [at, block] : blocks_) {
    for (LedgerState* ledger : block->ledgers) ledger->runs.clear();
  }
}

std::shared_ptr<CachedBlock> LogCache::new_write_block(std::size_t bytes) {
  auto block = std::make_shared<CachedBlock>();
  block->memory = pool_->allocate(bytes, MemoryUse::LogWrite);
  return block;
}

std::shared_ptr<CachedBlock> LogCache::new_cold_block(std::size_t bytes) {
  auto block = std::make_shared<CachedBlock>();
  block->memory = pool_->allocate(bytes, MemoryUse::Cache);
  block->cold = true;
  return block;
}

void LogCache::insert(const std::shared_ptr<CachedBlock>& block) {
  blocks_[key(block->segment, block->ordinal)] = block;
}

void LogCache::finish(const std::shared_ptr<CachedBlock>& block) {
  block->memory->count_as(MemoryUse::Cache);
  if (!blocks_.contains(key(block->segment, block->ordinal))) return;  // its segment was dropped
  tail_bytes_ += block->memory->bytes;
  block->place = tail_.insert(tail_.end(), block);
  block->evictable = true;
  adapt(*block);
  trim();
}

void LogCache::insert_cold(const std::shared_ptr<CachedBlock>& block) {
  insert(block);
  cold_bytes_ += block->memory->bytes;
  block->place = cold_.insert(cold_.end(), block);
  block->evictable = true;
  adapt(*block);
  trim();
}

void LogCache::adapt(const CachedBlock& inserted) {
  const std::size_t block = inserted.memory->bytes;
  const auto missed = evicted_at_.find(key(inserted.segment, inserted.ordinal));
  if (missed != evicted_at_.end()) {
    evicted_[static_cast<std::size_t>(missed->second - evicted_begin_)] = 0;
    evicted_at_.erase(missed);
    target_ = std::min(limit_, target_ + kRaise * block);
  } else {
    target_ = std::max(least_, target_ - std::min(target_, block / kLower));
  }
}

void LogCache::remember(const CachedBlock& evicted) {
  const std::size_t most = (limit_ - least_) / pool_->standard_bytes();
  if (most == 0) return;
  const std::uint64_t at = key(evicted.segment, evicted.ordinal);
  evicted_at_[at] = evicted_begin_ + evicted_.size();
  evicted_.push_back(at);
  while (evicted_.size() > most) {
    const auto oldest = evicted_at_.find(evicted_.front());
    if (oldest != evicted_at_.end() && oldest->second == evicted_begin_) evicted_at_.erase(oldest);
    evicted_.pop_front();
    ++evicted_begin_;
  }
}

std::shared_ptr<CachedBlock> LogCache::find(std::uint64_t segment, std::uint32_t ordinal) {
  auto found = blocks_.find(key(segment, ordinal));
  if (found == blocks_.end()) return nullptr;
  used(*found->second);
  return found->second;
}

void LogCache::used(CachedBlock& block) {
  if (block.cold && block.evictable) cold_.splice(cold_.end(), cold_, block.place);
}

void LogCache::add_run(LedgerState& ledger, CachedBlock& block, Run run) {
  const auto held = blocks_.find(key(block.segment, block.ordinal));
  if (held == blocks_.end() || held->second.get() != &block) return;  // evicted: a run would dangle
  const std::size_t before = ledger.runs.size();
  run.block = &block;
  ledger.add_run(std::move(run));
  if (ledger.runs.size() == before) return;
  if (std::find(block.ledgers.begin(), block.ledgers.end(), &ledger) == block.ledgers.end()) {
    block.ledgers.push_back(&ledger);
  }
}

void LogCache::note_written(LedgerState& ledger, CachedBlock& block, EntryId entry,
                            std::uint32_t offset) {
  if (!ledger.runs.empty()) {
    Run& last = ledger.runs.back();
    if (last.block == &block && last.last() + 1 == entry) {
      last.offsets.push_back(offset);
      return;
    }
  }
  Run run;
  run.first = entry;
  run.block = &block;
  run.offsets.push_back(offset);
  ledger.runs.push_back(std::move(run));
  // Entries of a ledger go up, so this is its first run in the block unless others were moved here
  // between.
  if (block.ledgers.empty() || block.ledgers.back() != &ledger) block.ledgers.push_back(&ledger);
}

void LogCache::drop_ledger(LedgerState& ledger) {
  for (const Run& run : ledger.runs) std::erase(run.block->ledgers, &ledger);
  ledger.runs.clear();
  ledger.runs.shrink_to_fit();
}

void LogCache::drop_segment(std::uint64_t segment) {
  std::vector<std::shared_ptr<CachedBlock>> dropped;
  for (const auto& [at, block] : blocks_) {
    if (block->segment == segment) dropped.push_back(block);
  }
  for (const auto& block : dropped) evict(*block);
}

void LogCache::trim() {
  while (bytes() > target_ && evict_one()) {
  }
  const MemoryBudget& budget = pool_->budget();
  const auto shrink_at = static_cast<std::size_t>(kShrinkAt * static_cast<double>(budget.limit()));
  // An evicted block that is still referenced frees nothing yet: a few are enough for one call.
  for (int i = 0; i < 8 && budget.used() > shrink_at && evict_one(); ++i) {
  }
}

bool LogCache::evict_one() {
  const bool from_cold =
      !cold_.empty() && (cold_bytes_ > target_ / 2 || tail_bytes_ <= target_ / 2);
  List& list = from_cold || tail_.empty() ? cold_ : tail_;
  if (list.empty()) return false;
  const std::shared_ptr<CachedBlock> block = list.front();
  remember(*block);
  evict(*block);
  return true;
}

void LogCache::evict(CachedBlock& block) {
  for (LedgerState* ledger : block.ledgers) {
    std::erase_if(ledger->runs, [&block](const Run& run) { return run.block == &block; });
  }
  block.ledgers.clear();
  const auto held = blocks_.find(key(block.segment, block.ordinal));
  std::shared_ptr<CachedBlock> keep;
  if (held != blocks_.end() && held->second.get() == &block) {
    keep = std::move(held->second);
    blocks_.erase(held);
  }
  if (block.evictable) {
    (block.cold ? cold_bytes_ : tail_bytes_) -= block.memory->bytes;
    block.evictable = false;
    const auto place = block.place;
    (block.cold ? cold_ : tail_).erase(place);  // last: may drop the block
  }
}

}  // namespace geminga
