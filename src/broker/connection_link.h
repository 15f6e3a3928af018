// What a connection's session shares with its outboxes, which live on other shards: where to send a
// batch, and how much waits for the client to read. Made by the session; outlives it as long as an
// outbox does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "broker/outbox.h"
#include "runtime/memory_budget.h"
#include "runtime/shard.h"

namespace geminga {

struct BrokerMetrics;
class Session;

// Deliveries to a connection stop when more than `high` bytes wait to be written, and go on below
// `low`.
struct Watermarks {
  std::int64_t high = 4 << 20;
  std::int64_t low = 1 << 20;
};

struct ConnectionLink {
  ConnectionLink(Shard& home, MemoryBudget& budget, BrokerMetrics& counters, Watermarks marks,
                 Session* owner)
      : shard(home), memory(budget), metrics(counters), watermarks(marks), session(owner) {}

  Shard& shard;  // the connection's
  MemoryBudget& memory;
  BrokerMetrics& metrics;
  const Watermarks watermarks;
  PeerInfo peer;     // fixed before the first outbox is made
  Session* session;  // the connection's shard only; null once the connection is gone
  std::atomic<bool> connected{true};
  std::atomic<std::int64_t> unwritten{
      0};  // bytes handed to the connection and not yet to the kernel
};

// What an outbox gathered in one turn.
struct OutBatch {
  struct Forgotten {
    enum class Kind : std::uint8_t { Producer, Consumer } kind;
    std::uint64_t id;
    bool told;  // the client gets a CLOSE_* and may have sent more before it reads it
  };
  std::vector<Buffer> pieces;
  std::int64_t bytes = 0;
  std::int32_t publishes_done =
      0;  // receipts, errors, dropped ones: they leave the connection's window
  std::vector<Forgotten> forgotten;
  std::string close_reason;  // not empty: close the connection after the pieces
};

}  // namespace geminga
