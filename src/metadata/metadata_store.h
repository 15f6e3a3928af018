// A tree of versioned keys, as ZooKeeper offers it: what names, policies, managed ledgers and
// cursors are kept in.
//
// Paths are absolute ("/admin/policies/public"), segments non-empty, without "." and "..". A key
// may have a value and children at once. Missing parents need not be created: a key exists if it
// was put or has children below it (parents without a value of their own read as empty, version 0,
// like ZooKeeper containers). Versions count the puts of a key, from 0. Every write is durable when
// its call returns OK.
//
// One store a process; may be called from every shard, calls return on the caller's shard. Errors:
// NotFound, BadVersion (someone else wrote first), AlreadyExists, InvalidArgument, Io, Corruption,
// DiskFull, Closed. Two implementations: RocksDB here (metadata/rocksdb_store.h); ZooKeeper later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_function.h"
#include "runtime/task.h"

namespace geminga {

struct MetadataStat {
  std::int64_t version = 0;
  std::int64_t created_ms = 0;
  std::int64_t modified_ms = 0;
  bool ephemeral =
      false;  // removed when the session that put it ends (for RocksDB: when the process ends)
};

struct MetadataValue {
  std::string value;
  MetadataStat stat;
};

struct MetadataPut {
  // Unset: write in any case. -1: the key must not exist (else BadVersion). n: its version must be
  // n.
  std::optional<std::int64_t> expected_version = {};
  bool ephemeral = false;
  // Appends ten digits, a counter of the parent that never goes back (ZooKeeper's sequential
  // nodes).
  bool sequential = false;
};

struct MetadataPutResult {
  std::string path;  // the path written; differs from the one given for sequential keys
  MetadataStat stat;
};

// One write of a transaction (all or nothing).
struct MetadataOp {
  enum class Kind { Put, Remove } kind = Kind::Put;
  std::string path = {};
  std::string value = {};
  std::optional<std::int64_t> expected_version = {};
};

struct MetadataEvent {
  enum class Kind { Created, Modified, Deleted, ChildrenChanged } kind;
  std::string path;
};

// Destroying it ends the watch: no call is running or will be made once the destructor has
// returned, if it runs on the shard that the watch was made on (it must).
class MetadataWatch {
 public:
  virtual ~MetadataWatch() = default;
};

// Counts since the store was opened.
struct MetadataStats {
  std::uint64_t writes = 0;   // made durable
  std::uint64_t groups = 0;   // synced batches that they took
  std::uint64_t failed = 0;   // batches that could not be written
  std::uint64_t refused = 0;  // writes refused because too many waited
};

class MetadataStore {
 public:
  virtual ~MetadataStore() = default;

  // Empty if the key does not exist.
  virtual Task<Result<std::optional<MetadataValue>>> get(std::string path) = 0;
  virtual Task<Result<MetadataPutResult>> put(std::string path, std::string value,
                                              MetadataPut options = {}) = 0;
  // NotFound if missing. Children stay.
  virtual Task<Status> remove(std::string path,
                              std::optional<std::int64_t> expected_version = {}) = 0;
  // The key and everything below it; OK if there is nothing.
  virtual Task<Status> remove_recursive(std::string path) = 0;
  // All or nothing, in one durable write. At most 10,000 operations.
  virtual Task<Status> commit(std::vector<MetadataOp> ops) = 0;

  // Last segments of the direct children, sorted. Empty if the key does not exist.
  virtual Task<Result<std::vector<std::string>>> children(std::string path) = 0;
  // A page of children: those after `after` (exclusive, "" for the first), at most `limit`.
  virtual Task<Result<std::vector<std::string>>> children_page(std::string path, std::string after,
                                                               std::size_t limit) = 0;

  // Calls `on_event` on the calling shard for each change at `prefix` and below it, in the order of
  // the changes, until the watch is destroyed. Call on a shard.
  virtual std::unique_ptr<MetadataWatch> watch(
      std::string prefix, UniqueFunction<void(const MetadataEvent&)> on_event) = 0;

  // Any thread.
  virtual MetadataStats stats() const = 0;

  // Finishes what is queued and refuses the rest. Once, before the runtime stops.
  virtual Task<Status> close() = 0;
};

}  // namespace geminga
