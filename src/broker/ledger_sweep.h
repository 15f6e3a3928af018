// Removes the ledgers that a crash left without a name: made, and not yet written into the metadata
// of their topic, cursor or schema; or written out of it, and not yet removed.
//
// Which ledgers there were is asked before the first topic is opened; which of them have names, in
// the background while clients are served, since that reads the metadata of every topic. Only after
// a crash. Nothing is removed unless all of the metadata could be read. Owned by the Broker;
// start() and close() on shard 0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "broker/broker.h"
#include "ledger/ledger_store.h"
#include "metadata/metadata_store.h"
#include "runtime/gate.h"
#include "runtime/runtime.h"

namespace geminga {

class LedgerSweep {
 public:
  // All outlive the sweep.
  LedgerSweep(Runtime& runtime, MetadataStore& metadata, std::vector<BrokerLogs::Log> logs)
      : runtime_(runtime), metadata_(metadata), logs_(std::move(logs)) {}

  // Comes back when it is known which ledgers there are.
  Task<void> start();
  // Ends the sweep where it stands; what is left is swept after the next crash.
  Task<void> close();
  // Waits for the end of the sweep; for tests. How many were removed.
  Task<std::int64_t> finished();

 private:
  Task<void> sweep();
  Task<Status> remove(std::size_t log, std::vector<LedgerId> ids);

  Runtime& runtime_;
  MetadataStore& metadata_;
  const std::vector<BrokerLogs::Log> logs_;
  std::vector<std::vector<LedgerId>> there_;  // by log; empty after a clean shutdown
  std::int64_t removed_ = 0;
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
  Gate gate_;
};

}  // namespace geminga
