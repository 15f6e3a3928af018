// A ledger of a LogStore: the handle that its users hold. See ledger_store.h for what the calls
// mean. On the log's shard; valid as long as the store is open, afterwards every call answers
// Closed.
#pragma once

#include <memory>
#include <vector>

#include "ledger/ledger_store.h"
#include "ledger/log_store.h"

namespace geminga {

class LogLedger final : public Ledger {
 public:
  LogLedger(LogStore* store, std::shared_ptr<LedgerState> state)
      : store_(store), state_(std::move(state)) {}

  LedgerId id() const override { return state_->id; }
  EntryId last_confirmed() const override { return state_->last_confirmed; }
  std::int64_t bytes() const override { return state_->bytes_confirmed; }
  std::int64_t messages() const override { return state_->messages_confirmed; }
  bool sealed() const override { return state_->sealed; }

  Result<EntryId> append(const Buffer& data, std::uint32_t messages, AppendSink* sink) override;
  std::size_t read_cached(EntryId first, std::size_t max_entries, std::size_t max_bytes,
                          std::vector<LedgerEntry>& out) override;
  Task<Result<std::vector<LedgerEntry>>> read(EntryId first, std::size_t max_entries,
                                              std::size_t max_bytes) override;
  Task<Result<std::int64_t>> messages_through(EntryId entry) override;
  Task<Status> seal() override;

 private:
  friend class LogStore;
  Status closed() const;

  LogStore* store_;  // nullptr once the store is closed
  const std::shared_ptr<LedgerState> state_;
};

}  // namespace geminga
