// `geminga standalone`, assembled: the data folder's lock, the metadata store, the logs, the
// broker, and what listens. open() brings them up in this order and close() takes them down in the
// opposite one, so that nothing is used after what it stands on is gone. Used by the main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "base/status.h"
#include "cli/standalone_logs.h"
#include "cli/standalone_options.h"
#include "runtime/runtime.h"

namespace geminga {

class BinaryServer;
class Broker;
class HttpServer;
class LogStore;
class MetadataStore;
class HttpRouter;
struct Admin;

// A failed start: what to say and the exit code that says what kind it is.
struct StartFailure {
  int exit_code = 1;
  Status status;
};

class StandaloneNode {
 public:
  explicit StandaloneNode(const StandaloneOptions& options);
  ~StandaloneNode();

  // Empty: serving. Otherwise everything that was opened is closed again.
  std::optional<StartFailure> open();
  // Stops listening, drains, flushes, closes. Returns the first error of it.
  Status close();

  const std::string& service_url() const { return service_url_; }
  std::string web_service_url() const;
  unsigned shard_count() const { return runtime_.shard_count(); }
  unsigned log_count() const { return plan_.groups.empty() ? 0 : plan_.groups.front().count; }
  // A line each about the isolation groups.
  std::vector<std::string> isolation() const;

 private:
  std::optional<StartFailure> open_metadata();
  std::optional<StartFailure> open_logs();
  std::optional<StartFailure> open_servers();
  Task<Status> listen();

  const StandaloneOptions options_;
  Runtime runtime_;
  std::optional<FolderLock> lock_;
  std::unique_ptr<MetadataStore> metadata_;
  NodeLogs plan_;
  std::vector<FolderLock> volume_locks_;
  std::vector<std::unique_ptr<LogStore>> logs_;  // as planned
  std::string service_url_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BinaryServer> binary_;
  std::unique_ptr<Admin> admin_;
  std::unique_ptr<HttpRouter> router_;
  std::unique_ptr<HttpServer> http_;
  bool running_ = false;
};

}  // namespace geminga
