// Gives the space of deleted ledgers back while something still lives in their segments: moves what
// lives into the open segment, after which the old one is free. Needed because ledgers that live
// long (cursors) share segments with those that do not.
//
// One segment at a time, the one with the smallest live share below LogStoreOptions::rewrite_below,
// one block at a time at a bounded rate, so that it never competes with publishing. A crash at any
// point leaves the old segment as it was; the copies made so far are garbage. Ledgers are switched
// to the copies once all of them are durable. On the log's shard only.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ledger/log_reader.h"
#include "ledger/log_writer.h"

namespace geminga {

class LogReclaim {
 public:
  LogReclaim(Shard& shard, LogSegments& segments, LogCache& cache, LogReader& reader,
             LogWriter& writer, const LogStoreOptions& options, LogCounters& counters);

  void on_lookup(UniqueFunction<std::shared_ptr<LedgerState>(LedgerId)> hook) {
    lookup_ = std::move(hook);
  }
  void start();
  // Something was deleted: see whether a segment is worth it now.
  void look();
  Task<void> stop();

 private:
  Shard& shard_;
  LogSegments& segments_;
  LogCache& cache_;
  LogReader& reader_;
  LogWriter& writer_;
  const LogStoreOptions& options_;
  LogCounters& counters_;
  UniqueFunction<std::shared_ptr<LedgerState>(LedgerId)> lookup_;
  Gate gate_;
};

}  // namespace geminga
