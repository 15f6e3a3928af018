// Opens the folder of the RocksDB store: makes it, looks whether it is whole, tunes RocksDB for a
// small footprint and a quick start. Errors name the folder and the next step. Main thread.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/status.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "metadata/rocksdb_store.h"

namespace geminga {

// Errors as open_rocksdb_store().
Result<std::unique_ptr<rocksdb::DB>> open_rocksdb_folder(const RocksdbStoreOptions& options);

// DiskFull, Corruption or Io with the folder and what was being done.
Status from_rocksdb(const rocksdb::Status& status, const std::string& path,
                    const std::string& doing);

}  // namespace geminga
