#include "cli/standalone_node.h"

#include <charconv>
#include <filesystem>
#include <future>

#include "base/log.h"
#include "broker/broker.h"
#include "cli/exit_codes.h"
#include "ledger/log_file.h"
#include "ledger/log_store.h"
#include "metadata/rocksdb_store.h"
#include "server/admin/admin.h"
#include "server/binary_server.h"
#include "server/http_router.h"
#include "server/http_server.h"

namespace geminga {

namespace {

constexpr char kLogCountPath[] = "/geminga/logs";
constexpr std::size_t kMetadataMemory = 16 << 20;
// What the logs' caches keep together, and each of them at least, before readers show that more is
// worth it.
constexpr std::size_t kLeastCache = 64 << 20;
constexpr std::size_t kLeastCacheOfLog = 16 << 20;

// A folder with logs and without metadata is not new: starting in it would forget every topic.
Status check_metadata_is_there(const std::string& data_dir) {
  std::error_code error;
  const std::string metadata = data_dir + "/metadata";
  if (std::filesystem::exists(metadata, error) && !std::filesystem::is_empty(metadata, error)) {
    return Status::ok();
  }
  for (const auto& entry : std::filesystem::directory_iterator(data_dir, error)) {
    if (!entry.path().filename().string().starts_with("log-")) continue;
    return Status::Corruption(
        metadata + " is missing or empty beside " + entry.path().string() +
        "; put the metadata folder back (from a backup), or start with another --data-dir");
  }
  return Status::ok();
}

int exit_code_of(const Status& status, int otherwise) {
  if (status.is(ErrorCode::Corruption)) return kExitCorrupt;
  if (status.is(ErrorCode::Conflict)) return kExitLocked;
  return otherwise;
}

StartFailure failure(const Status& status, int otherwise) {
  return {exit_code_of(status, otherwise), status};
}

std::string log_folder(const std::string& data_dir, unsigned index) {
  return data_dir + "/log-" + std::to_string(index);
}

// The folders are made before their number is stored: from then on each must be there.
Status make_log_folders(const std::string& data_dir, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    std::error_code error;
    std::filesystem::create_directories(log_folder(data_dir, i), error);
    if (error) {
      return Status::Io("cannot make the folder " + log_folder(data_dir, i) + ": " +
                        error.message());
    }
  }
  GM_ASSIGN_OR_RETURN(const auto folder, open_log_folder(data_dir, false, true));
  return folder->sync();
}

Status check_log_folders(const std::string& data_dir, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    std::error_code error;
    if (std::filesystem::is_directory(log_folder(data_dir, i), error)) continue;
    return Status::Corruption("the folder " + log_folder(data_dir, i) +
                              " is missing, and with it all messages of its topics; put it back");
  }
  return Status::ok();
}

// How many logs this data folder has: fixed when it was made (docs/decisions/0002).
Task<Result<unsigned>> stored_log_count(MetadataStore& metadata, std::string data_dir,
                                        unsigned wanted) {
  auto found = co_await metadata.get(kLogCountPath);
  if (!found) co_return found.status();
  if (found->has_value()) {
    const std::string& text = (*found)->value;
    unsigned count = 0;
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, count).ptr != end || count == 0 || count > 1024) {
      co_return Status::Corruption(std::string("metadata key ") + kLogCountPath + " holds '" +
                                   text + "' where a number of logs must be");
    }
    GM_CO_RETURN_IF_ERROR(check_log_folders(data_dir, count));
    co_return count;
  }
  GM_CO_RETURN_IF_ERROR(make_log_folders(data_dir, wanted));
  MetadataPut options;
  options.expected_version = -1;
  auto put = co_await metadata.put(kLogCountPath, std::to_string(wanted), options);
  if (!put) co_return put.status();
  co_return wanted;
}

}  // namespace

StandaloneNode::StandaloneNode(const StandaloneOptions& options)
    : options_(options), runtime_([&] {
        RuntimeOptions runtime;
        runtime.shards = options.shards;
        runtime.memory_limit = options.memory;
        return runtime;
      }()) {}

StandaloneNode::~StandaloneNode() { (void)close(); }

std::optional<StartFailure> StandaloneNode::open() {
  auto lock = FolderLock::acquire(options_.data_dir);
  if (!lock) return failure(lock.status(), kExitDataFolder);
  lock_.emplace(std::move(*lock));
  runtime_.start();
  running_ = true;
  auto failed = open_metadata();
  if (!failed) failed = open_logs();
  if (!failed) failed = open_servers();
  if (failed) {
    const Status closed = close();
    if (!closed.is_ok()) GM_LOG_WARN("closing after a failed start: {}", closed.to_string());
  }
  return failed;
}

std::optional<StartFailure> StandaloneNode::open_metadata() {
  if (const Status there = check_metadata_is_there(options_.data_dir); !there.is_ok()) {
    return failure(there, kExitCorrupt);
  }
  RocksdbStoreOptions options;
  options.path = options_.data_dir + "/metadata";
  options.memory = kMetadataMemory;
  auto store = open_rocksdb_store(std::move(options));
  if (!store) return failure(store.status(), kExitDataFolder);
  metadata_ = std::move(*store);
  runtime_.memory().take(MemoryUse::Metadata, kMetadataMemory);
  return std::nullopt;
}

std::optional<StartFailure> StandaloneNode::open_logs() {
  auto count = runtime_.run_and_wait(0, [this]() {
    return stored_log_count(*metadata_, options_.data_dir, runtime_.shard_count());
  });
  if (!count) return failure(count.status(), kExitDataFolder);
  const auto cache_mb = static_cast<std::size_t>(options_.config.managed_ledger_cache_size_mb);
  const std::size_t cache = cache_mb != 0 ? cache_mb << 20 : options_.memory / 3;
  // All at once: each spends its time waiting for the disk.
  std::vector<std::future<Result<std::unique_ptr<LogStore>>>> opening;
  for (unsigned i = 0; i < *count; ++i) {
    LogStoreOptions options;
    options.folder = log_folder(options_.data_dir, i);
    options.log_index = i;
    options.log_count = *count;
    options.cache_bytes = cache / *count;
    options.least_cache_bytes = std::max(kLeastCache / *count, kLeastCacheOfLog);
    options.sync_data = options_.config.journal_sync_data;
    if (options_.log_io == "uring") options.io = LogIoKind::Uring;
    if (options_.log_io == "thread") options.io = LogIoKind::Threads;
    Shard& shard = runtime_.shard(i % runtime_.shard_count());
    auto open_one = [this, &shard, options]() {
      return open_log(shard, runtime_.memory(), options);
    };
    opening.push_back(asio::co_spawn(shard.executor(), std::move(open_one), asio::use_future));
  }
  std::optional<StartFailure> failed;
  for (auto& one : opening) {
    auto log = one.get();
    if (!log && !failed) failed = failure(log.status(), kExitDataFolder);
    // A log that could not be opened leaves a gap: the place of a log tells its shard.
    logs_.push_back(log ? std::move(*log) : nullptr);
  }
  return failed;
}

std::optional<StartFailure> StandaloneNode::open_servers() {
  std::vector<LedgerStore*> logs;
  for (auto& log : logs_) logs.push_back(log.get());
  broker_ =
      std::make_unique<Broker>(runtime_, options_.config, *metadata_, logs, BrokerAddresses{});
  Status status = runtime_.run_and_wait(0, [this]() { return broker_->open(); });
  if (!status.is_ok()) return failure(status, kExitFailed);

  router_ = std::make_unique<HttpRouter>();
  admin_ = std::make_unique<Admin>(Admin{*broker_});
  admin_->metadata_url = "rocksdb://" + options_.data_dir + "/metadata";
  add_admin_routes(*router_, *admin_);
  http_ = std::make_unique<HttpServer>(runtime_, *router_);
  admin_->http = http_.get();
  HttpServerOptions http;
  http.bind_address = options_.config.bind_address;
  http.port = static_cast<unsigned>(options_.config.web_service_port);
  http.max_header_bytes = static_cast<std::size_t>(options_.config.http_max_request_header_size);
  http.max_connections = static_cast<std::size_t>(options_.config.max_http_server_connections);
  status = runtime_.run_and_wait(0, [&]() { return http_->start(http); });
  if (!status.is_ok()) return failure(status, kExitPortInUse);

  binary_ = std::make_unique<BinaryServer>(*broker_);
  status = runtime_.run_and_wait(0, [this]() -> Task<Status> {
    Status started = co_await binary_->start(
        options_.config.bind_address, static_cast<unsigned>(options_.config.broker_service_port));
    // Before the loop of this shard turns, that is, before anything is accepted.
    if (started.is_ok()) broker_->set_addresses({service_url(), web_service_url()});
    co_return started;
  });
  if (!status.is_ok()) return failure(status, kExitPortInUse);
  return std::nullopt;
}

Status StandaloneNode::close() {
  if (!running_) return Status::ok();
  running_ = false;
  Status first;
  const auto note = [&](const Status& status) {
    if (first.is_ok() && !status.is_ok()) first = status;
  };
  // Clients first, then what serves them, then what that stands on.
  if (binary_) runtime_.run_and_wait(0, [this]() { return binary_->stop_accepting(); });
  if (http_) runtime_.run_and_wait(0, [this]() { return http_->stop(); });
  if (broker_) note(runtime_.run_and_wait(0, [this]() { return broker_->close(); }));
  if (binary_) runtime_.run_and_wait(0, [this]() { return binary_->stop(); });
  for (unsigned i = 0; i < logs_.size(); ++i) {
    if (!logs_[i]) continue;
    note(runtime_.run_and_wait(i % runtime_.shard_count(), [&]() { return logs_[i]->close(); }));
  }
  if (metadata_) note(runtime_.run_and_wait(0, [this]() { return metadata_->close(); }));
  runtime_.stop();
  http_.reset();
  router_.reset();
  admin_.reset();
  binary_.reset();
  broker_.reset();
  logs_.clear();
  metadata_.reset();
  lock_.reset();
  return first;
}

std::string StandaloneNode::service_url() const {
  return "pulsar://" + options_.config.advertised_address + ":" + std::to_string(binary_->port());
}

std::string StandaloneNode::web_service_url() const {
  return "http://" + options_.config.advertised_address + ":" + std::to_string(http_->port());
}

}  // namespace geminga
