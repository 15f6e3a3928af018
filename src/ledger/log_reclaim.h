// Gives the space of deleted ledgers back while something still lives in their segments: moves what
// lives into the open segment, after which the old one is free. Needed because ledgers that live
// long (cursors) share segments with those that do not.
//
// One segment at a time, the one with the smallest live share below LogStoreOptions::rewrite_below,
// one block at a time at a bounded rate, so that it never competes with publishing. A crash at any
// point leaves the old segment as it was; the copies made so far are garbage. Ledgers are switched
// to the copies once all are durable. On the log's shard only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ledger/log_reader.h"
#include "ledger/log_writer.h"

namespace geminga {

class LogReclaim {
 public:
  LogReclaim(Shard& shard, LogSegments& segments, LogReader& reader, LogWriter& writer,
             const LogStoreOptions& options, LogCounters& counters);

  // Finds the state of a ledger that exists, or nullptr.
  void on_lookup(UniqueFunction<std::shared_ptr<LedgerState>(LedgerId)> hook) {
    lookup_ = std::move(hook);
  }
  void start();
  // Something was deleted: see whether a segment is worth it now.
  void look();
  Task<void> stop();
  bool busy() const { return busy_; }

 private:
  // Where the live records of one ledger went.
  struct Move {
    std::shared_ptr<LedgerState> ledger;
    std::vector<Extent> extents;
    std::uint64_t created_in = 0;
  };
  using Moves = std::map<LedgerId, Move>;

  Task<void> loop();
  std::shared_ptr<LogSegment> candidate() const;
  Task<Status> rewrite(std::shared_ptr<LogSegment> segment);
  Status copy_block(const LogSegment& segment, const CachedBlock& block, Moves& moves);
  void switch_over(std::uint64_t from, Moves& moves);

  Shard& shard_;
  LogSegments& segments_;
  LogReader& reader_;
  LogWriter& writer_;
  const LogStoreOptions& options_;
  LogCounters& counters_;
  UniqueFunction<std::shared_ptr<LedgerState>(LedgerId)> lookup_;
  asio::steady_timer wake_;
  std::set<std::uint64_t> given_up_;  // sequences that cannot be rewritten: damaged
  bool stopping_ = false;
  bool wanted_ = false;
  bool busy_ = false;
  bool met_removed_ = false;
  Gate gate_;
};

}  // namespace geminga
