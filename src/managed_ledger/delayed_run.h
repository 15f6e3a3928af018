// A sorted run of the delayed index: an immutable list of items in order of due time, in a ledger
// of its own (docs/format/delayed-index.md). In memory are only the first item of each block.
//
// Blocks hold kItemsPerBlock items each (the last one fewer); a reader gets a whole block at a
// time. A run that was not finished has no footer and is no run. Used on the ledger store's shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/ledger_store.h"
#include "managed_ledger/delayed_items.h"
#include "managed_ledger/position_set.h"
#include "runtime/task.h"

namespace geminga {

class DelayedRun {
 public:
  static constexpr std::size_t kItemsPerBlock = 4096;

  // Reads the footer, and adds the positions of the run to `held`. Corruption: it is no whole run;
  // NotFound: there is no such ledger.
  static Task<Result<std::shared_ptr<DelayedRun>>> open(LedgerStore& store, LedgerId id,
                                                        PositionSet& held);

  LedgerId id() const { return ledger_->id(); }
  std::int64_t items() const { return items_; }
  std::int64_t bytes() const { return ledger_->bytes(); }
  std::size_t blocks() const { return firsts_.size(); }
  const DelayedItem& first_of(std::size_t block) const { return firsts_[block]; }
  const DelayedItem& last() const { return last_; }
  // No item of the block is behind this.
  const DelayedItem& end_of(std::size_t block) const {
    return block + 1 < blocks() ? firsts_[block + 1] : last_;
  }
  // No item behind `item` is in an earlier block; blocks() if there is none at all.
  std::size_t block_after(const DelayedItem& item) const;
  std::int64_t items_before(std::size_t block) const {
    return static_cast<std::int64_t>(block * kItemsPerBlock);
  }
  std::size_t memory_bytes() const {
    return sizeof *this + firsts_.capacity() * sizeof(DelayedItem);
  }

  Task<Result<std::vector<DelayedItem>>> read_block(std::size_t block) const;

  // Blocks before this one hold nothing that anybody waits for any more. Kept by the index.
  std::size_t live_from = 0;

 private:
  friend class DelayedRunWriter;
  DelayedRun() = default;
  Status decode_footer(std::string_view bytes, std::uint64_t& set_parts);

  std::shared_ptr<Ledger> ledger_;
  std::vector<DelayedItem> firsts_;
  DelayedItem last_;
  std::int64_t items_ = 0;
};

// Makes a run: add() in order; write_block() whenever block_full(); then finish(). After an error,
// or to give up, abandon().
class DelayedRunWriter {
 public:
  DelayedRunWriter(LedgerStore& store, std::map<std::string, std::string> metadata)
      : store_(store), metadata_(std::move(metadata)), run_(new DelayedRun) {}

  // An item like the one before is left out.
  void add(const DelayedItem& item);
  bool block_full() const { return block_.size() >= DelayedRun::kItemsPerBlock; }
  std::int64_t items() const { return run_->items_; }
  Task<Status> write_block();
  // What is left, the positions and the footer; the ledger is sealed. There is at least one item.
  Task<Result<std::shared_ptr<DelayedRun>>> finish();
  Task<void> abandon();

 private:
  Task<Status> append(std::string bytes);

  LedgerStore& store_;
  std::map<std::string, std::string> metadata_;
  std::shared_ptr<DelayedRun> run_;
  std::vector<DelayedItem> block_;
  PositionSet held_;
};

}  // namespace geminga
