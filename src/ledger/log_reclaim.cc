#include "ledger/log_reclaim.h"

namespace geminga {

LogReclaim::LogReclaim(Shard& shard, LogSegments& segments, LogCache& cache, LogReader& reader,
                       LogWriter& writer, const LogStoreOptions& options, LogCounters& counters)
    : shard_(shard),
      segments_(segments),
      cache_(cache),
      reader_(reader),
      writer_(writer),
      options_(options),
      counters_(counters) {}

void LogReclaim::start() {}
void LogReclaim::look() {}
Task<void> LogReclaim::stop() { co_await gate_.close(); }

}  // namespace geminga
