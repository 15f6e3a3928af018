// The configuration as it is now: what the broker was started with, and over it what operators have
// changed since. Changes are kept in one document of the metadata store (/admin/configuration, as
// Pulsar keeps them) and hold after a restart.
//
// Readers take a snapshot, which never changes, and let go of it when they are done. Owned by the
// Broker; any shard.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "metadata/metadata_store.h"
#include "runtime/task.h"

namespace geminga {

class LiveConfig {
 public:
  // Both outlive it.
  LiveConfig(MetadataStore& metadata, const BrokerConfig& started_with);

  // What was changed before. Values that are not possible (any more) are logged and passed over.
  Task<Status> open();
  std::shared_ptr<const BrokerConfig> now() const { return now_.load(); }

  // Settings that may be changed while the broker runs, sorted.
  static std::vector<std::string> names();
  // What was changed, by name.
  Task<Result<std::map<std::string, std::string>>> changed();
  // PreconditionFailed: it may not be changed, or not to this value (and which are possible).
  Task<Status> set(std::string name, std::string value);
  // As it was when the broker was started. PreconditionFailed: it may not be changed.
  Task<Status> reset(std::string name);

 private:
  using Values = std::map<std::string, std::string>;
  // Applies `change` to the stored values and makes a new snapshot.
  Task<Status> store(std::string name, std::string value, bool remove);
  void take(const Values& values);

  MetadataStore& metadata_;
  const BrokerConfig& started_with_;
  std::atomic<std::shared_ptr<const BrokerConfig>> now_;
};

}  // namespace geminga
