// The embedded ledger store: one log in one folder, for the ledgers of one shard (DESIGN §3; bytes
// in docs/format/log.md).
//
//   append -> LogWriter (group commit) -> segments on disk        LogSegments: which exist, which
//   are free
//                 |  write blocks                                 LogReclaim: moves what lives out
//                 of old segments
//                 v
//   read <- LogCache <- LogReader (cold blocks, read-ahead)       recover_log: what was there at
//   the start
//
// On its shard only, from open_log_store() to close(), without which it must not be destroyed while
// the shard runs. Errors of the disk while writing stop the log: everything pending fails, reads go
// on, and a restart recovers what is durable.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ledger/ledger_store.h"
#include "ledger/log_options.h"
#include "ledger/log_reader.h"
#include "ledger/log_recovery.h"
#include "ledger/log_segments.h"
#include "ledger/log_writer.h"
#include "runtime/memory_budget.h"
#include "runtime/shard.h"

namespace geminga {

class LogReclaim;

class LogStore final : public LedgerStore {
 public:
  LogStore(Shard& shard, MemoryBudget& budget, LogStoreOptions options, std::unique_ptr<LogIo> io,
           std::shared_ptr<LogFolder> folder);
  ~LogStore() override;

  // Takes over what recovery found; once, before anything else.
  void start(RecoveredLog recovered);

  Task<Result<std::shared_ptr<Ledger>>> create(
      std::map<std::string, std::string> metadata) override;
  Task<Result<std::shared_ptr<Ledger>>> open(LedgerId id) override;
  Task<Status> remove(LedgerId id) override;
  std::vector<LedgerId> list() const override;
  bool after_crash() const override { return after_crash_; }
  LedgerStats stats() const override;
  bool writable() const override { return !writer_.failed() && segments_.writable(); }
  Task<Status> close() override;

  // Instead of close(): stops what runs without writing anything more, as a crash would.
  Task<void> abandon();

  const LogStoreOptions& options() const { return options_; }
  const LogCounters& counters() const { return counters_; }
  std::string_view io_name() const { return io_->name(); }
  std::size_t cached_bytes() const { return cache_.bytes(); }

 private:
  friend class LogLedger;

  std::shared_ptr<LedgerState> find(LedgerId id) const;
  std::vector<log_format::CheckpointLedger> snapshot() const;
  std::shared_ptr<LogLedger> handle_of(const std::shared_ptr<LedgerState>& state);
  Task<Status> seal(std::shared_ptr<LedgerState> state);
  void forget(LedgerState& state);
  Task<Status> list_segments();
  void drop_handles();

  Shard& shard_;
  MemoryBudget& budget_;
  const LogStoreOptions options_;
  LogCounters counters_;
  std::shared_ptr<LogFolder> folder_;
  std::unordered_map<LedgerId, std::shared_ptr<LedgerState>> ledgers_;
  // Ends the threads before what their results would reach.
  LogSegments segments_;
  LogCache cache_;
  LogReader reader_;
  LogWriter writer_;
  std::unique_ptr<LogReclaim> reclaim_;
  std::unique_ptr<LogIo> io_;
  Gate gate_;
  bool closing_ = false;
  bool after_crash_ = false;
};

// Opens the log in options.folder, which is made if it is missing, and recovers it. Call on
// `shard`; the work is done on a thread of its own. `shard` and `budget` outlive the store. Errors:
// InvalidArgument (options; the folder belongs to another log), Corruption (damage, by segment and
// offset), Io, DiskFull.
Task<Result<std::unique_ptr<LedgerStore>>> open_log_store(Shard& shard, MemoryBudget& budget,
                                                          LogStoreOptions options);
// The same with its own type, for counters.
Task<Result<std::unique_ptr<LogStore>>> open_log(Shard& shard, MemoryBudget& budget,
                                                 LogStoreOptions options);

}  // namespace geminga
