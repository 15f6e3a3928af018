// Drops what a producer sends a second time (wire-protocol §5.8).
//
// Per producer name the highest sequence id that was taken in (pushed) and that is on the disk
// (persisted). A snapshot of the latter is kept in the cursor `pulsar.dedup`; at load the entries
// behind it are read again. Belongs to a persistent topic, used on its shard. Off unless the topic
// asks for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/buffer.h"
#include "base/status.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/task.h"

namespace geminga {

struct PublishItem;

class Deduplication {
 public:
  static constexpr std::string_view kCursor = "pulsar.dedup";
  static constexpr std::int64_t kSnapshotInterval = 1000;  // brokerDeduplicationEntriesInterval
  static constexpr std::size_t kMaxProducers = 10'000;  // brokerDeduplicationMaxNumberOfProducers

  // Opens the cursor and reads what it does not cover. `ledger` outlives it.
  static Task<Result<std::unique_ptr<Deduplication>>> open(ManagedLedger& ledger);

  enum class Verdict : std::uint8_t {
    New,        // store it; then tell persisted()
    Duplicate,  // stored already: an ordinary receipt, with the message id -1:-1
    Partly,     // a batch that begins with stored ones: drop_stored() leaves what is new
    Unknown     // a copy of it is still under way: the client has to try again
  };
  // `last` = highest sequence id of what is sent, `first` its lowest.
  Verdict check(const std::string& producer, std::int64_t first, std::int64_t last);
  // After Partly: takes those messages out of the batch that are stored. Fails, and leaves it
  // alone, if the batch cannot be read or does not tell the sequence ids of its messages.
  Status drop_stored(const std::string& producer, PublishItem& item) const;
  void persisted(const std::string& producer, std::int64_t last, Position position);
  // What was under way of this producer is not stored: it may come again.
  void failed(const std::string& producer);

  // -1 if nothing is known of the producer.
  std::int64_t last_pushed(const std::string& producer) const;
  // Everything so far is in the cursor (not yet flushed).
  void snapshot();

 private:
  struct Known {
    std::int64_t pushed = -1;
    std::int64_t persisted = -1;
    std::int64_t active_ms = 0;
  };

  Deduplication(ManagedLedger& ledger, std::shared_ptr<ManagedCursor> cursor)
      : ledger_(ledger), cursor_(std::move(cursor)) {}
  Task<Status> replay();
  void forget_inactive();

  ManagedLedger& ledger_;
  const std::shared_ptr<ManagedCursor> cursor_;
  std::unordered_map<std::string, Known> producers_;
  Position last_;
  std::int64_t since_snapshot_ = 0;
};

}  // namespace geminga
