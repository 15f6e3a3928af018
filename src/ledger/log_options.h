// What can be set of a log, and what it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ledger/log_file.h"
#include "ledger/log_io.h"

namespace geminga {

struct LogStoreOptions {
  std::string group;                 // of the logs beside it, for messages; may be empty
  std::string folder;                // made if missing; one log
  std::uint32_t log_index = 0;       // ledger ids are first_ledger_id + k * log_count + log_index
  std::int64_t first_ledger_id = 0;  // of all logs of the folder's group; fixed, too
  std::uint32_t log_count = 1;       // fixed for the life of the folder
  std::uint64_t segment_bytes = 64 << 20;  // less on a disk of less than a gigabyte
  std::size_t block_bytes = 256 << 10;
  std::size_t max_batch_bytes = 4 << 20;     // of one flush
  std::size_t cache_bytes = 64 << 20;        // most that is kept of blocks for reading (LogCache)
  std::size_t least_cache_bytes = 64 << 20;  // ... and what is kept whether it is used or not
  std::size_t index_cache_bytes = 8 << 20;   // indexes of sealed segments
  std::size_t read_ahead_blocks = 4;
  bool sync_data = true;  // journalSyncData: acknowledge only what is on the disk
  bool zero_fill = true;  // new segments, ahead of use
  bool direct_io = true;  // O_DIRECT where the file system has it
  LogIoKind io = LogIoKind::Auto;
  // Below this much free space appends of data answer DiskFull; half of it no segment takes. 0: 256
  // MiB, or less on a small disk (LogSegments).
  std::uint64_t disk_reserve_bytes = 0;
  // Sealed segments with a smaller share of live bytes are rewritten.
  double rewrite_below = 0.25;
  std::size_t rewrite_bytes_per_second = 32 << 20;
  // For tests: these stand in for the folder's real files and the real I/O.
  std::shared_ptr<LogFolder> files;
  std::function<std::unique_ptr<LogIo>(Shard&)> make_io;

  // How messages call it: "0", or "GROUP/0".
  std::string label() const {
    return (group.empty() ? group : group + '/') + std::to_string(log_index);
  }
};

// Counters of a log since it was opened.
struct LogCounters {
  std::uint64_t appends = 0;
  std::uint64_t append_bytes = 0;  // payload
  std::uint64_t flushes = 0;
  std::uint64_t flushed_bytes = 0;  // with headers and padding
  std::uint64_t cache_hits = 0;     // read_cached that gave entries
  std::uint64_t cache_misses = 0;
  std::uint64_t block_reads = 0;
  std::uint64_t block_read_bytes = 0;
  std::uint64_t prefetches = 0;
  std::uint64_t segments_created = 0;
  std::uint64_t segments_recycled = 0;
  std::uint64_t segments_deleted = 0;
  std::uint64_t rewritten_segments = 0;
  std::uint64_t rewritten_bytes = 0;
  std::uint64_t refused_disk_full = 0;
  std::uint64_t read_errors = 0;
};

}  // namespace geminga
