// The opened ledgers of one managed ledger: the one that is written to, and a few most recently
// read ones, opened on demand. A ledger's handle costs its store memory (index, read-ahead), so a
// topic with thousands of ledgers must not hold them all. The one that is written to stays, however
// many others are read: to open it would be to fence its writer, which is us. Belongs to its
// LedgerChain, on the ledger's shard.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ledger/ledger_store.h"
#include "managed_ledger/slim_mutex.h"

namespace geminga {

class LedgerHandles {
 public:
  explicit LedgerHandles(LedgerStore& store) : store_(store) {}

  // nullptr if it is not open. Never waits.
  Ledger* cached(LedgerId id);
  // Opens it if need be (then no one can append to it any more).
  Task<Result<std::shared_ptr<Ledger>>> get(LedgerId id);
  // The ledger that is written to now; the one before becomes one of the others.
  void keep(std::shared_ptr<Ledger> ledger);
  void drop(LedgerId id);
  void clear() {
    written_.reset();
    recent_.clear();
  }

 private:
  static constexpr std::size_t kMost = 8;

  std::shared_ptr<Ledger> find(LedgerId id);
  void put(std::shared_ptr<Ledger> ledger);

  LedgerStore& store_;
  std::shared_ptr<Ledger> written_;
  std::vector<std::shared_ptr<Ledger>> recent_;  // most recently used first
  SlimMutex opening_;
};

}  // namespace geminga
