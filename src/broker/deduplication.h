// Drops what a producer sends a second time (wire-protocol §5.8).
//
// Per producer name the highest sequence id that was taken in (pushed) and that is on the disk
// (persisted). A snapshot of the latter is kept in the cursor `pulsar.dedup`; at load the entries
// behind it are read again. Belongs to a persistent topic, used on its shard. Off unless the topic
// asks for it.
#pragma once

#include <cstdint>
#include <functional>
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
  // Pulsar's settings, by their names there.
  struct Options {
    std::int64_t entries_interval = 1000;  // brokerDeduplicationEntriesInterval
    std::size_t max_producers = 10'000;    // brokerDeduplicationMaxNumberOfProducers
    std::int64_t inactive_ms =
        360LL * 60'000;  // brokerDeduplicationProducerInactivityTimeoutMinutes
    // Is a producer of this name connected? It is not forgotten, however long it is silent.
    std::function<bool(const std::string& producer)> connected = {};
  };

  // Opens the cursor and reads what it does not cover. `ledger` outlives it.
  static Task<Result<std::unique_ptr<Deduplication>>> open(ManagedLedger& ledger, Options options);

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
  // A snapshot, if something was stored since the last one and that is so long ago (policy
  // deduplicationSnapshotInterval; 0: never by time).
  void snapshot_if_due(std::int64_t interval_ms, std::int64_t now);

 private:
  struct Known {
    std::int64_t pushed = -1;
    std::int64_t persisted = -1;
    std::int64_t active_ms = 0;
  };

  Deduplication(ManagedLedger& ledger, std::shared_ptr<ManagedCursor> cursor, Options options)
      : ledger_(ledger), cursor_(std::move(cursor)), options_(std::move(options)) {}
  Task<Status> replay();
  void forget_inactive();

  ManagedLedger& ledger_;
  const std::shared_ptr<ManagedCursor> cursor_;
  const Options options_;
  std::unordered_map<std::string, Known> producers_;
  Position last_;
  std::int64_t since_snapshot_ = 0;  // entries
  std::int64_t snapshot_ms_ = 0;
};

}  // namespace geminga
