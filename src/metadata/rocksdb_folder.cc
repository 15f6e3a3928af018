#include "metadata/rocksdb_folder.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "metadata/folder_inventory.h"

namespace geminga {

namespace {

namespace fs = std::filesystem;

rocksdb::Options rocksdb_options(const RocksdbStoreOptions& options) {
  const std::size_t memory = std::max<std::size_t>(options.memory, 4 << 20);
  const std::size_t write_buffer = memory / 8;  // two of them
  rocksdb::Options o;
  if (options.env != nullptr) o.env = options.env;
  o.paranoid_checks = true;
  // A torn last record is what a crash leaves; anything else is refused, not skipped.
  o.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  o.write_buffer_size = write_buffer;
  o.max_write_buffer_number = 2;
  // What has to be replayed at the next start.
  o.max_total_wal_size = 2 * write_buffer;
  o.avoid_flush_during_recovery = true;
  o.max_background_jobs = 2;
  o.max_open_files = 128;
  o.max_file_opening_threads = 1;
  o.skip_stats_update_on_db_open = true;
  o.target_file_size_base = 4 << 20;
  o.max_bytes_for_level_base = 16 << 20;
  o.level_compaction_dynamic_level_bytes = true;
  o.compression = rocksdb::kLZ4Compression;
  o.max_manifest_file_size = 1 << 20;
  o.manifest_preallocation_size = 64 << 10;
  o.keep_log_file_num = 2;
  o.max_log_file_size = 1 << 20;
  o.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  o.stats_dump_period_sec = 0;
  o.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(memory, 2);
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Charges the write buffers to the cache: together they stay within `memory`.
  o.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(2 * write_buffer, table.block_cache);
  return o;
}

Status make_folder(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return {};
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (::mkdir(path.c_str(), 0700) != 0) {
    const int failed = errno;
    const std::string text =
        fmt::format("cannot make the metadata folder {}: {}", path, std::strerror(failed));
    return failed == ENOSPC ? Status::DiskFull(text) : Status::Io(text);
  }
  return {};
}

// RocksDB makes a new database where CURRENT is missing, and deletes the files of the old one. Data
// without CURRENT means that somebody or something took it away: logs and tables are made only
// after it.
Status check_not_headless(const std::string& path, bool& fresh) {
  std::error_code error;
  fresh = !fs::exists(path + "/CURRENT", error);
  if (!fresh) return {};
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string extension = at->path().extension().string();
    if (extension == ".sst" || (extension == ".log" && at->file_size(error) > 0)) {
      return Status::Corruption(fmt::format("the file {}/CURRENT is missing", path));
    }
  }
  if (error) return Status::Io(fmt::format("cannot list {}: {}", path, error.message()));
  return {};
}

Status explained(const Status& status, const std::string& path) {
  if (!status.is(ErrorCode::Corruption)) return status;
  return Status::Corruption(
      fmt::format("{}. Nothing in the metadata folder {} was changed. Restore the folder from a "
                  "copy, or move it away "
                  "to start without topics, subscriptions and policies",
                  status.message(), path));
}

Result<std::unique_ptr<rocksdb::DB>> open_folder(const RocksdbStoreOptions& options) {
  const std::string& path = options.path;
  GM_RETURN_IF_ERROR(make_folder(path));
  bool fresh = false;
  GM_RETURN_IF_ERROR(check_not_headless(path, fresh));
  // Dropped before RocksDB changes a file, so that a crash from here on leaves no list that is
  // wrong.
  GM_RETURN_IF_ERROR(verify_inventory(path));
  GM_RETURN_IF_ERROR(drop_inventory(path));
  rocksdb::Options rocksdb = rocksdb_options(options);
  rocksdb.create_if_missing = fresh;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(rocksdb, path, &db);
  if (opened.ok()) return std::unique_ptr<rocksdb::DB>(db);
  if (opened.IsIOError() && opened.ToString().find("lock ") != std::string::npos) {
    return Status::Io(fmt::format("the metadata folder {} is in use by another process ({})", path,
                                  opened.ToString()));
  }
  if (opened.IsPathNotFound()) {
    // Everything that could be made is there by now: a file that RocksDB counts on is gone.
    return Status::Corruption(fmt::format("metadata folder {}: {}", path, opened.ToString()));
  }
  return from_rocksdb(opened, path, "opening");
}

}  // namespace

Status from_rocksdb(const rocksdb::Status& status, const std::string& path,
                    const std::string& doing) {
  if (status.ok()) return {};
  const std::string text =
      fmt::format("metadata folder {}: {}: {}", path, doing, status.ToString());
  if (status.IsNoSpace())
    return Status::DiskFull(text + "; free some space, then it goes on by itself");
  if (status.IsCorruption()) return Status::Corruption(text);
  return Status::Io(text);
}

Result<std::unique_ptr<rocksdb::DB>> open_rocksdb_folder(const RocksdbStoreOptions& options) {
  auto db = open_folder(options);
  if (!db.is_ok()) return explained(db.status(), options.path);
  return db;
}

}  // namespace geminga
