// A topic as the rest of the broker sees it. It lives on the shard that its name hashes to
// (Broker::shard_of), with its producers, subscriptions and cursors; every member is used on that
// shard only, by shared_ptr.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/position.h"
#include "base/range_counts.h"
#include "base/status.h"
#include "broker/outbox.h"
#include "broker/subscription.h"
#include "broker/token_bucket.h"
#include "broker/topic_name.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/shard.h"
#include "runtime/task.h"
#include "wire/command.h"

namespace geminga {

class DelayedIndex;     // managed_ledger/delayed_index.h
struct TopicSettings;   // topic_settings.h
class Producer;         // one connected producer, see producer.h
class TopicCompaction;  // topic_compaction.h

enum class ProducerAccessMode : std::uint8_t {
  Shared = 0,
  Exclusive = 1,
  WaitForExclusive = 2,
  ExclusiveWithFencing = 3
};

// CommandProducer, checked and typed.
struct ProducerRequest {
  std::shared_ptr<Outbox> outbox;
  std::uint64_t producer_id = 0;
  std::uint64_t request_id = 0;  // for the second PRODUCER_SUCCESS of WaitForExclusive
  std::string name;              // never empty: the session has asked Broker::next_producer_name()
  bool user_provided_name = true;
  std::uint64_t epoch = 0;
  ProducerAccessMode access_mode = ProducerAccessMode::Shared;
  std::optional<std::uint64_t> topic_epoch;
  bool encrypted = false;
  std::map<std::string, std::string> metadata;
  std::string schema_version;  // as answered to the client
  std::string initial_subscription;
};

struct ProducerGrant {
  std::shared_ptr<Producer> producer;
  std::int64_t last_sequence_id = -1;
  std::optional<std::uint64_t> topic_epoch;
  bool ready =
      true;  // false: queued by WaitForExclusive; PRODUCER_SUCCESS follows through the outbox
};

// One SEND, parsed and its checksum verified by the session. `entry` refers to the read buffer.
class UnackedBudget;

struct PublishItem {
  std::shared_ptr<Producer> producer;
  std::uint64_t sequence_id = 0;
  std::uint64_t highest_sequence_id = 0;
  bool has_highest_sequence_id = false;
  bool is_chunk = false;
  bool is_marker = false;
  std::optional<TxnId> txn;
  std::uint32_t messages = 1;
  Buffer entry;                      // [checksum] metadata payload, as stored
  std::int64_t deliver_at_time = 0;  // 0: at once
  // Not OK: refused by the session already (checksum); answered in its turn.
  Status refused;
};

struct ProducerNumbers {
  std::uint64_t producer_id = 0;
  double msg_rate_in = 0, msg_throughput_in = 0, average_msg_size = 0, chunked_message_rate = 0;
};
struct ProducerStats : ProducerNumbers {
  std::string name, address, connected_since, client_version;
  ProducerAccessMode access_mode = ProducerAccessMode::Shared;
  std::map<std::string, std::string> metadata;
};
struct CompactionStats {
  std::int64_t last_removed_messages = 0;  // of the last run that succeeded
  std::int64_t last_succeeded_ms = 0, last_failed_ms = 0, last_duration_ms = 0;
  std::int64_t succeeded = 0, failed = 0, removed_messages = 0;  // since the topic was loaded
  double bytes_read_rate = 0, bytes_written_rate = 0;            // now
  std::int64_t entries = 0, bytes = 0;                           // of the compacted data
  WriteLatency write_latency;                                    // of entries, since it was loaded
};
struct TopicNumbers {
  double msg_rate_in = 0, msg_throughput_in = 0, average_msg_size = 0;
  std::int64_t msg_in_counter = 0, bytes_in_counter = 0;
  std::int64_t duplicates = 0;  // messages that deduplication has dropped, since it was loaded
  std::int64_t storage_size = 0, backlog_size = 0;
  // The index of delayed messages: memory, runs on disk and their bytes, messages in it that are in
  // memory.
  std::int64_t delayed_index_bytes = 0, delayed_runs = 0, delayed_run_bytes = 0,
               delayed_in_memory = 0;
  // As set; -1: none. And how often messages were evicted because of them since it was loaded.
  std::int64_t backlog_quota_bytes = -1, backlog_quota_seconds = -1;
  std::int64_t evictions_by_size = 0, evictions_by_age = 0;
  std::int64_t oldest_backlog_seconds = -1;  // as of the last check_backlog(); -1: no backlog
  std::int64_t publish_rate_limited = 0;     // times
  std::int64_t ongoing_txns = 0, aborted_txns = 0, committed_txns = 0;
  CompactionStats compaction;
};
struct TopicStats : TopicNumbers {
  std::optional<std::uint64_t> topic_epoch;
  std::string dedup_status = "Disabled";
  std::vector<ProducerStats> publishers;
  std::vector<SubscriptionStats> subscriptions;
};

// What /metrics shows of a topic.
struct SampleDetail {
  bool producers = false;
  bool consumers = false;
};
struct ProducerSample {
  std::string name;
  ProducerNumbers numbers;
};
struct TopicSample {
  std::string name;
  TopicNumbers numbers;
  std::size_t producer_count = 0;
  std::size_t subscription_count = 0;
  std::vector<ProducerSample> producers;  // if asked for
  std::vector<SubscriptionSample> subscriptions;
};

class Topic {
 public:
  virtual ~Topic() = default;

  virtual const TopicName& name() const = 0;
  virtual Shard& shard() const = 0;
  // A policy has changed; acts at once.
  virtual void apply(const TopicSettings& settings) { (void)settings; }
  virtual bool closing() const = 0;
  // Deduplication keeps what it knows, if its policy says that it is time (ms since 1970).
  virtual void snapshot_if_due(std::int64_t /*now*/) {}
  // What all subscriptions of the broker may hold unacknowledged; null: without limit.
  virtual UnackedBudget* unacked_budget() const { return nullptr; }
  // The broker looks at the backlog from time to time: quotas act.
  virtual Task<void> check_backlog() { co_return; }
  // nullptr for non-persistent topics.
  virtual ManagedLedger* managed_ledger() const = 0;
  // nullptr for topics that cannot be compacted.
  virtual TopicCompaction* compaction() const { return nullptr; }
  // What all subscriptions together may deliver; nullptr: as much as they can.
  virtual RateLimiter* dispatch_rate() { return nullptr; }
  // What is published now.
  virtual Rate incoming() const { return {}; }
  // Asked every brokerServiceCompactionMonitorIntervalInSeconds.
  virtual void compact_if_due() {}

  // Errors as wire-protocol.md §5.2: ProducerBusy, ProducerFenced, TopicTerminated, ...
  virtual Task<Result<ProducerGrant>> add_producer(ProducerRequest request) = 0;
  // The client closed it or its connection is gone. Completes when its pending writes are done.
  virtual Task<void> remove_producer(std::shared_ptr<Producer> producer) = 0;
  // What one read of a connection held for this topic, in order. Receipts and errors go out through
  // each producer's outbox, in order. `items` is emptied (its capacity may be reused).
  virtual void publish(std::vector<PublishItem>& items) = 0;

  // What is held back until its time; nullptr: nothing is, or delayed delivery is off.
  virtual DelayedIndex* delayed_index() const { return nullptr; }
  // Is the entry, to be delivered at `deliver_at_time`, early? Then it is held back from now on
  // (NoRoom: it cannot be, for the moment).
  enum class Hold : std::uint8_t { NotEarly, Held, NoRoom };
  virtual Hold hold_if_early(std::int64_t deliver_at_time, Position position) {
    (void)deliver_at_time;
    (void)position;
    return Hold::NotEarly;
  }

  virtual std::shared_ptr<Subscription> subscription(const std::string& name) const = 0;
  virtual std::vector<std::string> subscription_names() const = 0;
  // Finds or creates the subscription and adds the consumer. Checks of the topic's side (§7.2):
  // reserved names are the session's; max consumers, disabled auto-creation, durable versus
  // non-durable are here.
  struct Subscribed {
    std::shared_ptr<Subscription> subscription;
    std::shared_ptr<Consumer> consumer;
  };
  virtual Task<Result<Subscribed>> subscribe(SubscribeRequest request) = 0;
  // For admin and initial_subscription_name. AlreadyExists if it is there.
  virtual Task<Status> create_subscription(std::string name, Position start,
                                           std::map<std::string, std::string> properties) = 0;
  // Deletes it; PreconditionFailed while consumers are connected unless `force`.
  virtual Task<Status> delete_subscription(std::string name, bool force) = 0;
  // A non-durable subscription's last consumer left.
  virtual void drop_non_durable(const std::string& name) = 0;

  // GET_LAST_MESSAGE_ID: batch_index -1 if the last entry is no batch.
  struct LastMessage {
    Position position;
    std::int32_t batch_index = -1;
  };
  virtual Task<Result<LastMessage>> last_message_id() = 0;

  // --- transactions (transactions.h asks) ---
  // Entries beyond it may not be read yet: transactions that sent them are open.
  virtual Position max_read_position() const { return Position::latest(); }
  // What the transaction sent is never to be shown.
  virtual bool is_aborted(const TxnId& txn) const {
    (void)txn;
    return false;
  }
  // A transaction is about to send here. NotAllowed where that is not possible.
  virtual Task<Status> prepare_transactions() {
    co_return Status::NotAllowed("Transactions are not supported by this topic");
  }
  // Shows or drops what the transaction has sent. Durable; may be repeated. All transactions of the
  // coordinator up to `low_watermark` have ended.
  virtual Task<Status> end_transaction(TxnId txn, bool commit, std::int64_t low_watermark) {
    (void)txn, (void)commit, (void)low_watermark;
    co_return Status::ok();
  }

  virtual Task<Result<Position>> terminate() = 0;
  virtual bool terminated() const = 0;
  // Disconnects everybody and closes the log; the topic object is dead afterwards (unload).
  virtual Task<Status> close() = 0;
  // Deletes the topic. PreconditionFailed if producers or consumers are connected (or subscriptions
  // exist, when `only_if_no_subscriptions`) unless `force`.
  virtual Task<Status> remove(bool force) = 0;

  virtual TopicStats stats() const = 0;
  // The same numbers without the rest, which costs more than they do.
  virtual TopicSample sample(SampleDetail detail) const = 0;
  virtual std::size_t producer_count() const = 0;
  virtual std::size_t consumer_count() const = 0;
};

}  // namespace geminga
