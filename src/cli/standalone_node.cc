#include "cli/standalone_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  auto groups = parse_isolation_groups(options_.config.isolation_groups);
  if (!groups) return failure(groups.status(), kExitConfig);
  auto plan = runtime_.run_and_wait(0, [&]() {
    return plan_logs(*metadata_, options_.data_dir, runtime_.shard_count(), *groups);
  });
  if (!plan) {
    return failure(plan.status(),
                   plan.is(ErrorCode::InvalidArgument) ? kExitConfig : kExitDataFolder);
  }
  plan_ = std::move(*plan);
  // Everybody's is below the data folder, which is locked already.
  for (std::size_t i = 1; i < plan_.groups.size(); ++i) {
    auto lock = FolderLock::acquire(plan_.groups[i].folder);
    if (!lock) return failure(lock.status(), kExitDataFolder);
    volume_locks_.push_back(std::move(*lock));
  }
  const auto count = plan_.logs.size();
  const auto cache_mb = static_cast<std::size_t>(options_.config.managed_ledger_cache_size_mb);
  const std::size_t cache = cache_mb != 0 ? cache_mb << 20 : options_.memory / 3;
  // All at once: each spends its time waiting for the disk.
  std::vector<std::future<Result<std::unique_ptr<LogStore>>>> opening;
  for (const NodeLog& log : plan_.logs) {
    LogStoreOptions options;
    options.folder = log.folder;
    options.group = log.group;
    options.log_index = log.index;
    options.log_count = log.count;
    options.first_ledger_id = log.first_ledger_id;
    options.cache_bytes = cache / count;
    options.least_cache_bytes = std::max(kLeastCache / count, kLeastCacheOfLog);
    options.sync_data = options_.config.journal_sync_data;
    if (options_.log_io == "uring") options.io = LogIoKind::Uring;
    if (options_.log_io == "thread") options.io = LogIoKind::Threads;
    Shard& shard = runtime_.shard(log.shard);
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
  BrokerLogs logs;
  for (std::size_t i = 0; i < logs_.size(); ++i)
    logs.logs.push_back({logs_[i].get(), plan_.logs[i].shard});
  for (const NodeLogGroup& group : plan_.groups)
    logs.groups.push_back({group.settings.name, group.first, group.count});
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
  http.shards = plan_.groups.front().settings.shards;
  http.max_connections = static_cast<std::size_t>(options_.config.max_http_server_connections);
  status = runtime_.run_and_wait(0, [&]() { return http_->start(http); });
  if (!status.is_ok()) return failure(status, kExitPortInUse);

  binary_ = std::make_unique<BinaryServer>(*broker_);
  status = runtime_.run_and_wait(0, [this]() { return listen(); });
  if (!status.is_ok()) return failure(status, kExitPortInUse);
  return std::nullopt;
}

Task<Status> StandaloneNode::listen() {
  std::vector<std::string> urls;
  for (const NodeLogGroup& group : plan_.groups) {
    std::optional<unsigned> port = group.settings.port;
    if (urls.empty()) port = static_cast<unsigned>(options_.config.broker_service_port);
    urls.emplace_back();
    if (!port) continue;
    GM_CO_ASSIGN_OR_RETURN(
        const unsigned bound,
        co_await binary_->listen(options_.config.bind_address, *port, group.settings.shards));
    urls.back() = "pulsar://" + options_.config.advertised_address + ":" + std::to_string(bound);
  }
  service_url_ = urls.front();
  // Before the loop of this shard turns, that is, before anything is accepted.
  broker_->set_addresses({service_url_, web_service_url(), std::move(urls)});
  co_return Status::ok();
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
    note(runtime_.run_and_wait(plan_.logs[i].shard, [&]() { return logs_[i]->close(); }));
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
  volume_locks_.clear();
  lock_.reset();
  return first;
}

std::vector<std::string> StandaloneNode::isolation() const {
  std::vector<std::string> lines;
  for (std::size_t i = 1; i < plan_.groups.size(); ++i) {
    const NodeLogGroup& group = plan_.groups[i];
    const std::vector<std::string>& urls = broker_->addresses().group_urls;
    lines.push_back(fmt::format("{}: shards {}, {} logs in {}{}{}", group.settings.name,
                                fmt::join(group.settings.shards, "+"), group.count, group.folder,
                                urls[i].empty() ? "" : ", ", urls[i]));
  }
  return lines;
}

std::string StandaloneNode::web_service_url() const {
  return "http://" + options_.config.advertised_address + ":" + std::to_string(http_->port());
}

}  // namespace geminga
