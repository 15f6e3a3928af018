#include "metadata/rocksdb_store.h"

#include <fmt/format.h>
#include <pthread.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "metadata/folder_inventory.h"
#include "metadata/key_layout.h"
#include "metadata/rocksdb_folder.h"
#include "metadata/tree_changes.h"
#include "metadata/watch_registry.h"
#include "runtime/async.h"

namespace geminga {

namespace {

using metadata_keys::NodeRecord;

// Bounds of one batch (its latency) and of what may wait (its memory).
constexpr std::size_t kMaxGroupBytes = 1 << 20;
constexpr std::size_t kMaxGroupWrites = 2000;
constexpr std::size_t kMaxQueued = 100'000;
constexpr std::size_t kMaxQueuedBytes = 64 << 20;
constexpr std::uintmax_t kFlushAtClose = 512 << 10;
constexpr std::size_t kMaxCommitOps = 10'000;
// A removal of a large subtree goes in batches of so many keys, the deepest first.
constexpr std::size_t kRemoveBatch = 10'000;

// Bytes of RocksDB's write-ahead logs.
std::uintmax_t log_bytes(const std::string& path) {
  namespace fs = std::filesystem;
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".log") bytes += at->file_size(error);
  }
  return bytes;
}

struct Write {
  enum class Kind { Put, Remove, RemoveRecursive, Commit, Barrier } kind = Kind::Barrier;
  std::string path;
  std::string value;
  MetadataPut options;
  std::vector<MetadataOp> ops;
  std::size_t bytes = 0;
  UniqueFunction<void(Result<MetadataPutResult>)> done;
};

class RocksdbStore final : public MetadataStore {
 public:
  RocksdbStore(std::string path, std::unique_ptr<rocksdb::DB> db)
      : path_(std::move(path)),
        db_(std::move(db)),
        changes_([this](const std::string& key) { return stored(key); }) {}
  ~RocksdbStore() override;

  // The format record, and the sweep of ephemeral keys. Before start().
  Status prepare();
  void start();

  Task<Result<std::optional<MetadataValue>>> get(std::string path) override;
  Task<Result<MetadataPutResult>> put(std::string path, std::string value,
                                      MetadataPut options) override;
  Task<Status> remove(std::string path, std::optional<std::int64_t> expected_version) override;
  Task<Status> remove_recursive(std::string path) override;
  Task<Status> commit(std::vector<MetadataOp> ops) override;
  Task<Result<std::vector<std::string>>> children(std::string path) override;
  Task<Result<std::vector<std::string>>> children_page(std::string path, std::string after,
                                                       std::size_t limit) override;
  std::unique_ptr<MetadataWatch> watch(
      std::string prefix, UniqueFunction<void(const MetadataEvent&)> on_event) override {
    return watches_->add(std::move(prefix), std::move(on_event));
  }
  MetadataStats stats() const override {
    return {writes_.value(), groups_.value(), failed_.value(), refused_.load()};
  }
  Task<Status> close() override;

 private:
  // Shards.
  Task<Result<MetadataPutResult>> submit(Write write);
  Status enqueue(Write& write);
  Result<std::optional<MetadataValue>> value_of(const std::string& path,
                                                const rocksdb::PinnableSlice& bytes) const;
  Status closed() const { return Status::Closed("the metadata store in " + path_ + " is closed"); }

  // The reader thread.
  Result<std::optional<MetadataValue>> read(const std::string& path);
  Result<std::vector<std::string>> list(const std::string& path, const std::string& after,
                                        std::size_t limit);

  // The writer thread.
  void write_loop();
  std::deque<Write> next_group();
  void run_group(std::deque<Write> group);
  Result<MetadataPutResult> apply(Write& write);
  Status remove_below(const std::string& path);
  Status write_changes();
  Result<std::optional<std::string>> stored(const std::string& key);

  const std::string path_;
  std::unique_ptr<rocksdb::DB> db_;
  std::shared_ptr<WatchRegistry> watches_ = std::make_shared<WatchRegistry>();
  asio::thread_pool readers_{1};

  std::mutex mutex_;  // between the shards and the writer thread: the queue
  std::condition_variable wake_;
  std::deque<Write> queue_;
  std::size_t queued_bytes_ = 0;
  bool stopping_ = false;
  std::atomic<bool> closed_{false};

  // The writer thread's own.
  TreeChanges changes_;
  bool last_write_failed_ = false;
  Counter writes_;
  Counter groups_;
  Counter failed_;
  std::atomic<std::uint64_t> refused_{0};  // counted by all shards
  std::thread writer_;
};

RocksdbStore::~RocksdbStore() {
  const bool clean = closed_.exchange(true);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (writer_.joinable()) writer_.join();
  readers_.join();
  // Leave the next start little to replay. An error is Close()'s to report.
  if (clean && log_bytes(path_) > kFlushAtClose) (void)db_->Flush(rocksdb::FlushOptions());
  const rocksdb::Status status = db_->Close();
  db_.reset();
  if (!status.ok()) {
    GM_LOG_ERROR("{}", from_rocksdb(status, path_, "closing").to_string());
  } else if (clean && !last_write_failed_) {
    const Status written = write_inventory(path_);
    if (!written) GM_LOG_WARN("no list of the metadata files was left: {}", written.to_string());
  }
}

Status RocksdbStore::prepare() {
  GM_ASSIGN_OR_RETURN(const std::optional<std::string> format,
                      stored(std::string(metadata_keys::kFormatKey)));
  if (format && *format != metadata_keys::kFormat) {
    return Status::Unsupported(fmt::format(
        "metadata folder {} has format '{}', this version reads '{}': use the version of "
        "Geminga that wrote it",
        path_, *format, metadata_keys::kFormat));
  }
  std::vector<std::string> ephemeral;
  {
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options));
    for (at->Seek(std::string(1, metadata_keys::kEphemeralPrefix));
         at->Valid() && at->key()[0] == metadata_keys::kEphemeralPrefix; at->Next()) {
      ephemeral.push_back(at->key().ToString().substr(1));
    }
    GM_RETURN_IF_ERROR(from_rocksdb(at->status(), path_, "reading"));
  }
  const std::int64_t now = now_ms();
  for (const std::string& path : ephemeral) {
    const Status removed = changes_.remove(path, {}, now);
    if (!removed && !removed.is(ErrorCode::NotFound)) return removed;
  }
  if (!format) {
    rocksdb::WriteOptions options;
    options.sync = true;
    GM_RETURN_IF_ERROR(from_rocksdb(
        db_->Put(options,
                 rocksdb::Slice(metadata_keys::kFormatKey.data(), metadata_keys::kFormatKey.size()),
                 rocksdb::Slice(metadata_keys::kFormat.data(), metadata_keys::kFormat.size())),
        path_, "writing"));
  }
  GM_RETURN_IF_ERROR(write_changes());
  changes_.clear();
  return {};
}

void RocksdbStore::start() {
  writer_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "metadata-writer");
    write_loop();
  });
}

// Reads

Result<std::optional<MetadataValue>> RocksdbStore::value_of(
    const std::string& path, const rocksdb::PinnableSlice& bytes) const {
  GM_ASSIGN_OR_RETURN(NodeRecord record, metadata_keys::decode_node(
                                             path, std::string_view(bytes.data(), bytes.size())));
  return std::optional<MetadataValue>(MetadataValue{std::move(record.value), record.stat});
}

Task<Result<std::optional<MetadataValue>>> RocksdbStore::get(std::string path) {
  GM_CO_RETURN_IF_ERROR(metadata_keys::check_path(path));
  if (closed_.load(std::memory_order_acquire)) co_return closed();
  if (path == "/") co_return std::optional<MetadataValue>(MetadataValue{});
  {
    rocksdb::ReadOptions options;
    options.read_tier = rocksdb::kBlockCacheTier;  // memory only
    rocksdb::PinnableSlice bytes;
    const rocksdb::Status status =
        db_->Get(options, db_->DefaultColumnFamily(), metadata_keys::node_key(path), &bytes);
    if (status.ok()) co_return value_of(path, bytes);
    if (status.IsNotFound()) co_return std::optional<MetadataValue>();
    if (!status.IsIncomplete()) co_return from_rocksdb(status, path_, "reading " + path);
  }
  // Named: GCC 12 destroys a closure twice that is made in the argument of an awaited call.
  auto work = [this, path = std::move(path)] { return read(path); };
  co_return co_await run_blocking(readers_, std::move(work));
}

Result<std::optional<MetadataValue>> RocksdbStore::read(const std::string& path) {
  rocksdb::PinnableSlice bytes;
  const rocksdb::Status status =
      db_->Get({}, db_->DefaultColumnFamily(), metadata_keys::node_key(path), &bytes);
  if (status.IsNotFound()) return std::optional<MetadataValue>();
  GM_RETURN_IF_ERROR(from_rocksdb(status, path_, "reading " + path));
  return value_of(path, bytes);
}

Task<Result<std::vector<std::string>>> RocksdbStore::children(std::string path) {
  return children_page(std::move(path), "", std::numeric_limits<std::size_t>::max());
}

Task<Result<std::vector<std::string>>> RocksdbStore::children_page(std::string path,
                                                                   std::string after,
                                                                   std::size_t limit) {
  GM_CO_RETURN_IF_ERROR(metadata_keys::check_path(path));
  if (closed_.load(std::memory_order_acquire)) co_return closed();
  if (limit == 0) co_return std::vector<std::string>();
  auto work = [this, path = std::move(path), after = std::move(after), limit] {
    return list(path, after, limit);
  };
  co_return co_await run_blocking(readers_, std::move(work));
}

Result<std::vector<std::string>> RocksdbStore::list(const std::string& path,
                                                    const std::string& after, std::size_t limit) {
  const std::string prefix = metadata_keys::children_prefix(path);
  std::string end = prefix;
  ++end.back();
  const rocksdb::Slice bound(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound;
  options.fill_cache = limit <= 1000;  // a full listing must not push everything else out
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options));
  std::vector<std::string> names;
  at->Seek(prefix + after);
  if (!after.empty() && at->Valid() && at->key() == prefix + after) at->Next();
  for (; at->Valid() && names.size() < limit; at->Next()) {
    names.emplace_back(at->key().data() + prefix.size(), at->key().size() - prefix.size());
  }
  GM_RETURN_IF_ERROR(from_rocksdb(at->status(), path_, "listing " + path));
  return names;
}

// Writes: the callers' side

Task<Result<MetadataPutResult>> RocksdbStore::put(std::string path, std::string value,
                                                  MetadataPut options) {
  // A sequential key may be only the digits: "/locks/" stands for "/locks/0000000000".
  std::string checked = options.sequential ? path + "0000000000" : path;
  GM_CO_RETURN_IF_ERROR(metadata_keys::check_path(checked));
  if (path == "/") co_return Status::InvalidArgument("the root of the metadata tree has no value");
  if (value.size() > metadata_keys::kMaxValue) {
    co_return Status::InvalidArgument(
        fmt::format("the value of '{}' has {} bytes, at most {} are allowed", path, value.size(),
                    metadata_keys::kMaxValue));
  }
  Write write;
  write.kind = Write::Kind::Put;
  write.bytes = path.size() + value.size();
  write.path = std::move(path);
  write.value = std::move(value);
  write.options = options;
  co_return co_await submit(std::move(write));
}

Task<Status> RocksdbStore::remove(std::string path, std::optional<std::int64_t> expected_version) {
  GM_CO_RETURN_IF_ERROR(metadata_keys::check_path(path));
  if (path == "/")
    co_return Status::InvalidArgument("the root of the metadata tree cannot be removed");
  Write write;
  write.kind = Write::Kind::Remove;
  write.bytes = path.size();
  write.path = std::move(path);
  write.options.expected_version = expected_version;
  const auto result = co_await submit(std::move(write));
  co_return result.status();
}

Task<Status> RocksdbStore::remove_recursive(std::string path) {
  GM_CO_RETURN_IF_ERROR(metadata_keys::check_path(path));
  Write write;
  write.kind = Write::Kind::RemoveRecursive;
  write.bytes = path.size();
  write.path = std::move(path);
  const auto result = co_await submit(std::move(write));
  co_return result.status();
}

Task<Status> RocksdbStore::commit(std::vector<MetadataOp> ops) {
  if (ops.size() > kMaxCommitOps) {
    co_return Status::InvalidArgument(fmt::format(
        "{} operations in one commit, at most {} are allowed", ops.size(), kMaxCommitOps));
  }
  Write write;
  write.kind = Write::Kind::Commit;
  for (const MetadataOp& op : ops) {
    GM_CO_RETURN_IF_ERROR(metadata_keys::check_path(op.path));
    if (op.path == "/")
      co_return Status::InvalidArgument("the root of the metadata tree has no value");
    if (op.value.size() > metadata_keys::kMaxValue) {
      co_return Status::InvalidArgument(
          fmt::format("the value of '{}' has {} bytes, at most {} are allowed", op.path,
                      op.value.size(), metadata_keys::kMaxValue));
    }
    write.bytes += op.path.size() + op.value.size();
  }
  write.ops = std::move(ops);
  const auto result = co_await submit(std::move(write));
  co_return result.status();
}

Task<Status> RocksdbStore::close() {
  if (closed_.exchange(true, std::memory_order_acq_rel)) co_return Status::ok();
  Write barrier;
  const auto drained = co_await submit(std::move(barrier));
  co_return drained.status();
}

Task<Result<MetadataPutResult>> RocksdbStore::submit(Write write) {
  const auto executor = co_await asio::this_coro::executor;
  // Named, as in get().
  auto initiate = [this, executor](auto handler, Write queued) {
    queued.done = [handler = std::move(handler),
                   executor](Result<MetadataPutResult> result) mutable {
      asio::post(executor, [handler = std::move(handler), result = std::move(result)]() mutable {
        std::move(handler)(std::move(result));
      });
    };
    const Status accepted = enqueue(queued);
    if (!accepted) queued.done(accepted);
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>,
                                          void(Result<MetadataPutResult>)>(
      initiate, asio::use_awaitable, std::move(write));
}

Status RocksdbStore::enqueue(Write& write) {
  if (write.kind != Write::Kind::Barrier && closed_.load(std::memory_order_acquire))
    return closed();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return closed();
    if (queue_.size() >= kMaxQueued || queued_bytes_ + write.bytes > kMaxQueuedBytes) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return Status::NoMemory(fmt::format(
          "{} writes wait for the metadata store in {}: try again later", queue_.size(), path_));
    }
    queued_bytes_ += write.bytes;
    queue_.push_back(std::move(write));
  }
  wake_.notify_one();
  return {};
}

// Writes: the writer thread

void RocksdbStore::write_loop() {
  while (true) {
    std::deque<Write> group = next_group();
    if (group.empty()) return;
    run_group(std::move(group));
  }
}

// Waits for writes; empty when the store ends and nothing is left.
std::deque<Write> RocksdbStore::next_group() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  std::deque<Write> group;
  std::size_t bytes = 0;
  while (!queue_.empty() && group.size() < kMaxGroupWrites && bytes < kMaxGroupBytes) {
    bytes += queue_.front().bytes;
    queued_bytes_ -= queue_.front().bytes;
    group.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return group;
}

void RocksdbStore::run_group(std::deque<Write> group) {
  std::vector<Result<MetadataPutResult>> results;
  results.reserve(group.size());
  for (Write& write : group) results.push_back(apply(write));
  // A refusal may rest on a change of the same group: no answer leaves before the group is on the
  // disk.
  const Status written = write_changes();
  if (written) {
    watches_->publish(changes_.events());
    writes_.add(group.size());
    groups_.add();
  } else {
    failed_.add();
  }
  changes_.clear();
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (written) {
      group[i].done(std::move(results[i]));
    } else {
      group[i].done(written);
    }
  }
}

Result<MetadataPutResult> RocksdbStore::apply(Write& write) {
  switch (write.kind) {
    case Write::Kind::Put:
      return changes_.put(std::move(write.path), write.value, write.options, now_ms());
    case Write::Kind::Remove:
      GM_RETURN_IF_ERROR(changes_.remove(write.path, write.options.expected_version, now_ms()));
      return MetadataPutResult{};
    case Write::Kind::RemoveRecursive:
      GM_RETURN_IF_ERROR(remove_below(write.path));
      return MetadataPutResult{};
    case Write::Kind::Commit:
      GM_RETURN_IF_ERROR(changes_.commit(write.ops, now_ms()));
      return MetadataPutResult{};
    case Write::Kind::Barrier: return MetadataPutResult{};
  }
  return Status::InvalidArgument("unknown metadata write");
}

// Removes what is below `path` and then the key itself. What the group holds so far is written
// first, so that an iterator sees it. Keys go deepest first (the reverse of key order), in batches:
// a crash leaves a sound tree from which the upper part of the subtree is not gone yet.
Status RocksdbStore::remove_below(const std::string& path) {
  const auto flush = [this]() -> Status {
    GM_RETURN_IF_ERROR(write_changes());
    watches_->publish(changes_.events());
    changes_.clear();
    return {};
  };
  GM_RETURN_IF_ERROR(flush());
  const std::int64_t now = now_ms();
  std::size_t in_batch = 0;
  for (const std::string& prefix :
       {metadata_keys::deeper_prefix(path), metadata_keys::children_prefix(path)}) {
    std::string end = prefix;
    ++end.back();
    const rocksdb::Slice lower(prefix);
    rocksdb::ReadOptions options;
    options.iterate_lower_bound = &lower;
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options));
    for (at->SeekForPrev(end); at->Valid(); at->Prev()) {
      if (at->key() == end) continue;
      const std::string below = metadata_keys::node_path(at->key().ToStringView());
      // Its last child may have taken it along.
      const Status removed = changes_.remove(below, {}, now);
      if (!removed && !removed.is(ErrorCode::NotFound)) return removed;
      if (++in_batch % kRemoveBatch == 0) GM_RETURN_IF_ERROR(flush());
    }
    GM_RETURN_IF_ERROR(from_rocksdb(at->status(), path_, "removing " + path));
  }
  if (path == "/") return {};
  const Status removed = changes_.remove(path, {}, now);
  return removed.is(ErrorCode::NotFound) ? Status::ok() : removed;
}

Status RocksdbStore::write_changes() {
  if (changes_.changes().empty()) return {};
  rocksdb::WriteBatch batch(changes_.bytes());
  for (const auto& [key, value] : changes_.changes()) {
    const rocksdb::Status status = value ? batch.Put(key, *value) : batch.Delete(key);
    GM_RETURN_IF_ERROR(from_rocksdb(status, path_, "writing"));
  }
  // RocksDB refuses writes after an error until it is told to try again, or has seen by itself (it
  // looks every five seconds) that there is space. Busy: it is looking now.
  if (last_write_failed_) (void)db_->Resume();
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = db_->Write(options, &batch);
  if (!status.ok() && !last_write_failed_) {
    GM_LOG_ERROR("{}", from_rocksdb(status, path_, "writing").to_string());
  }
  last_write_failed_ = !status.ok();
  return from_rocksdb(status, path_, "writing");
}

Result<std::optional<std::string>> RocksdbStore::stored(const std::string& key) {
  std::string value;
  const rocksdb::Status status = db_->Get({}, key, &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  GM_RETURN_IF_ERROR(from_rocksdb(status, path_, "reading"));
  return std::optional<std::string>(std::move(value));
}

}  // namespace

Result<std::unique_ptr<MetadataStore>> open_rocksdb_store(RocksdbStoreOptions options) {
  GM_ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> db, open_rocksdb_folder(options));
  auto store = std::make_unique<RocksdbStore>(options.path, std::move(db));
  GM_RETURN_IF_ERROR(store->prepare());
  store->start();
  return std::unique_ptr<MetadataStore>(std::move(store));
}

}  // namespace geminga
