// The metadata store of a process on its own: a RocksDB folder (layout: docs/format/metadata.md).
//
// Writes go to one writer thread, which puts all that wait into one synced batch (group commit);
// each call completes on its caller's shard when the batch is on the disk. get() is answered on the
// calling shard if the value is in memory (RocksDB's write buffer or block cache, a few
// microseconds) and on a reader thread if the disk must be asked, so that a shard never waits for
// it; listings always go to the reader thread. Ephemeral keys end with the process: open() sweeps
// those of the last one.
//
// After a failed write (disk full, I/O error) each further write first tries to bring RocksDB back;
// nothing that was acknowledged is lost. Queued writes are bounded (kMaxQueued); beyond that calls
// fail with NoMemory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "metadata/metadata_store.h"

namespace rocksdb {
class Env;
}

namespace geminga {

struct RocksdbStoreOptions {
  std::string path;               // made if missing (mode 0700), its parent too
  std::size_t memory = 16 << 20;  // block cache and write buffers together; at least 4 MiB
  rocksdb::Env* env = nullptr;    // for tests that inject faults; outlives the store
};

// Blocks (10 to 30 ms): call it before the shards serve. Errors: Corruption (names the folder and
// what to do; nothing was changed), Io (cannot be read, written or made; in use by another
// process), DiskFull. Destroy the store after close(), when no call is running, before the shards
// it was used on.
Result<std::unique_ptr<MetadataStore>> open_rocksdb_store(RocksdbStoreOptions options);

// For `geminga doctor`: reads every record and its checksums and compares the counts of children.
// The folder must not be in use; nothing is changed.
struct MetadataReport {
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> problems;  // for people; empty: sound
  // Path and value of the children of `keep`, those that can be read.
  std::vector<std::pair<std::string, std::string>> kept;
};
Result<MetadataReport> check_rocksdb_store(const std::string& path, const std::string& keep = {});

}  // namespace geminga
