// A subscription: a named position in a topic, and the consumers that share it.
//
// Topics own their subscriptions; everything here runs on the topic's shard. Persistent
// subscriptions stand on a ManagedCursor; those of non-persistent topics keep nothing. How entries
// are shared out among consumers is the dispatcher's business (dispatcher.h), chosen by the type of
// the first consumer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "base/unique_function.h"
#include "broker/explanation.h"
#include "broker/outbox.h"
#include "broker/token_bucket.h"
#include "managed_ledger/managed_cursor.h"
#include "runtime/task.h"
#include "wire/command.h"

namespace geminga {

enum class SubscriptionType : std::uint8_t {
  Exclusive = 0,
  Shared = 1,
  Failover = 2,
  KeyShared = 3
};
std::string_view to_string(SubscriptionType type);  // "Key_Shared" as Pulsar prints it

struct HashRange {  // both inclusive, within 0..65535
  std::int32_t start = 0;
  std::int32_t end = 0;
};
enum class KeySharedMode : std::uint8_t { AutoSplit = 0, Sticky = 1 };
struct KeySharedOptions {
  KeySharedMode mode = KeySharedMode::AutoSplit;
  std::vector<HashRange> ranges;
  bool allow_out_of_order = false;
};

// CommandSubscribe, checked and typed.
struct SubscribeRequest {
  std::shared_ptr<Outbox> outbox;
  std::uint64_t consumer_id = 0;
  std::string subscription;
  SubscriptionType type = SubscriptionType::Exclusive;
  std::string consumer_name;
  std::int32_t priority_level = 0;
  bool durable = true;
  std::optional<Position> start_message_id;  // non-durable only
  std::int64_t start_message_rollback_seconds = 0;
  bool initial_earliest = false;
  bool read_compacted = false;
  bool replicate_state = false;
  std::optional<KeySharedOptions> key_shared;
  std::map<std::string, std::string> metadata;  // the consumer's own, for stats
  std::map<std::string, std::string> subscription_properties;
  std::int64_t consumer_epoch = -1;  // -1: none
};

struct AckedMessage {
  Position position;
  AckSet remaining;              // empty: the whole entry
  std::uint32_t batch_size = 0;  // 0: not told by the client
};
struct AckRequest {
  bool cumulative = false;
  std::span<const AckedMessage> messages;
};
struct TransactionAckRequest {
  TxnId txn;
  bool cumulative = false;
  std::vector<AckedMessage> messages;
};

// A key slot that its consumer must finish with before the slot's new owner gets anything.
struct DrainingHash {
  std::int32_t hash = 0;
  std::int64_t unacked = 0;  // entries
  std::int64_t blocked = 0;  // entries that wait for it
};

// What metrics show of a consumer, and stats with more beside it (names as in Pulsar's
// ConsumerStats).
struct ConsumerNumbers {
  std::uint64_t consumer_id = 0;
  double msg_rate_out = 0, msg_throughput_out = 0, msg_rate_redeliver = 0, message_ack_rate = 0;
  std::int64_t bytes_out = 0, msg_out = 0, available_permits = 0, unacked_messages = 0;
  std::int64_t last_acked_ms = 0, last_consumed_ms = 0, last_consumed_flow_ms = 0;
  double avg_messages_per_entry = 0;
  bool blocked_on_unacked = false;
};
struct ConsumerStats : ConsumerNumbers {
  std::string consumer_name, address, connected_since, client_version;
  std::vector<std::string> key_hash_ranges;
  std::vector<DrainingHash> draining_hashes;
  std::map<std::string, std::string> metadata;
};
struct SubscriptionNumbers {
  std::size_t consumer_count = 0;
  bool blocked_on_unacked = false;
  double msg_rate_out = 0, msg_throughput_out = 0, msg_rate_redeliver = 0, message_ack_rate = 0;
  double msg_rate_expired = 0, msg_drop_rate = 0;
  std::int64_t bytes_out = 0, msg_out = 0;
  std::int64_t msg_backlog = 0;       // entries, as Pulsar counts
  std::int64_t messages_backlog = 0;  // messages, exact
  std::int64_t backlog_size = 0, unacked_messages = 0, msg_delayed = 0, non_contiguous_ranges = 0;
  std::int64_t msg_drop = 0;     // non-persistent
  std::int64_t msg_expired = 0;  // since the topic was loaded
  // Memory of the index of delayed messages, which all subscriptions of the topic share; 0 if it
  // holds nothing back here.
  std::int64_t delayed_index_bytes = 0;
  std::int64_t msg_in_replay = 0;  // entries read that wait to be sent (again)
  // Key_Shared: slots that drain, since when it was loaded, entries unacknowledged in them.
  std::int64_t draining_hashes = 0, draining_hashes_cleared = 0, draining_hashes_unacked = 0;
  std::int64_t last_acked_ms = 0, last_consumed_ms = 0, last_consumed_flow_ms = 0,
               last_mark_delete_ms = 0, last_expire_ms = 0;
  // Of transactions that have ended here since the topic was loaded.
  std::int64_t committed_txns = 0, aborted_txns = 0;
};
struct SubscriptionStats : SubscriptionNumbers {
  std::string name;
  std::optional<SubscriptionType> type;  // none before the first consumer
  bool durable = true, replicated = false, allow_out_of_order = false;
  std::string key_shared_mode, active_consumer_name;
  std::map<std::string, std::string> properties;
  std::vector<ConsumerStats> consumers;
};

// What /metrics shows of a subscription.
struct ConsumerSample {
  std::string name;
  ConsumerNumbers numbers;
};
struct SubscriptionSample {
  std::string name;
  SubscriptionNumbers numbers;
  std::vector<ConsumerSample> consumers;  // if asked for
};

class CompactedReads;  // broker/compacted_reads.h

// One connected consumer. Made by Subscription::add_consumer(); the session holds it and gives it
// back to the calls below. Opaque outside the dispatchers.
class Consumer;

class Subscription {
 public:
  virtual ~Subscription() = default;

  virtual const std::string& name() const = 0;
  virtual std::optional<SubscriptionType> type() const = 0;
  virtual std::size_t consumer_count() const = 0;
  // The cursor, nullptr for non-persistent topics.
  virtual ManagedCursor* cursor() const = 0;
  // How it reads the compacted topic; nullptr if its consumer did not ask for that.
  virtual CompactedReads* compacted_reads() { return nullptr; }
  // Just made, for a consumer that reads the compacted topic: deliver `next` and what follows, also
  // where the log begins later. On disk with the cursor's next flush.
  virtual void read_compacted_from(Position next) { (void)next; }

  // Waits for a seek in progress. Errors as wire-protocol.md §7.2: ConsumerBusy, NotAllowed,
  // ConsumerAssign, ServiceNotReady (being deleted).
  virtual Task<Result<std::shared_ptr<Consumer>>> add_consumer(SubscribeRequest request) = 0;
  // The consumer closed or its connection is gone: its unacknowledged messages go to the others.
  virtual void remove_consumer(const std::shared_ptr<Consumer>& consumer) = 0;

  virtual void flow(Consumer& consumer, std::uint32_t permits) = 0;
  virtual Status ack(Consumer& consumer, const AckRequest& request) = 0;
  // When the topic is loaded, before consumers come.
  virtual Task<Status> recover_transactions() { co_return Status::ok(); }
  // The subscription is gone for good, after close(): so is what transactions kept for it.
  virtual Task<Status> remove_transactions() { co_return Status::ok(); }
  // Acknowledges as part of a transaction; `done` hears when that is durable, or why not
  // (TransactionConflict, NotAllowed).
  virtual void ack_in_transaction(const std::shared_ptr<Consumer>& consumer,
                                  TransactionAckRequest request,
                                  UniqueFunction<void(const Status&)> done) {
    (void)consumer, (void)request;
    done(Status::NotAllowed("Transactions are not supported by this subscription"));
  }
  // A transaction is about to acknowledge here. NotAllowed where that is not possible.
  virtual Task<Status> prepare_transactions() {
    co_return Status::NotAllowed("Transactions are not supported by this subscription");
  }
  // Makes what the transaction acknowledged count, or takes it back. Durable; may be repeated.
  virtual Task<Status> end_transaction(TxnId txn, bool commit) {
    (void)txn, (void)commit;
    co_return Status::ok();
  }
  virtual std::vector<TxnId> open_transactions() const { return {}; }
  // Empty `positions`: all of this consumer's. `epoch` -1: none given.
  virtual void redeliver(Consumer& consumer, std::span<const Position> positions,
                         std::int64_t epoch) = 0;

  // Disconnects the consumers (CLOSE_CONSUMER), then resets the cursor. To a position, or to the
  // first entry whose timestamp is >= `time_ms`.
  virtual Task<Status> seek(Position position, AckSet remaining) = 0;
  virtual Task<Status> seek_to_time(std::int64_t time_ms) = 0;
  // For UNSUBSCRIBE: may this consumer delete the subscription? Metadata error if others are
  // connected and not `force`; with `force` they are disconnected. The topic then deletes it.
  virtual Task<Status> prepare_unsubscribe(const std::shared_ptr<Consumer>& consumer,
                                           bool force) = 0;
  // CLOSE_CONSUMER to all, no new ones are let in; used on unload, delete. Awaits reads in flight.
  virtual Task<void> close(bool deleting) = 0;
  // Moves everything to the end / by n messages / expires older ones (admin).
  virtual Task<Status> skip_all() = 0;
  virtual Task<Status> skip(std::int64_t messages) = 0;
  virtual Task<Status> expire(std::int64_t older_than_seconds) = 0;

  // A changed limit of what it may deliver, and of what its topic may; acts at once.
  virtual void limit_dispatch(const Rate& rate) { (void)rate; }
  // How many unacknowledged messages a consumer, and all consumers together, may hold (0: no
  // limit). Acts at once; where nothing is acknowledged it changes nothing.
  virtual void limit_unacked(std::int64_t per_consumer, std::int64_t per_subscription) {
    (void)per_consumer;
    (void)per_subscription;
  }

  // Whether its state is to be copied to other clusters; kept with the cursor.
  virtual void set_replicated(bool) {}

  // New entries are durable (called once a turn, not per entry), or the topic was terminated.
  virtual void entries_available() = 0;

  virtual SubscriptionStats stats() const = 0;
  // The same numbers without the rest, which costs more than they do.
  virtual SubscriptionSample sample(bool with_consumers) const = 0;
  virtual ConsumerStats stats_of(const Consumer& consumer) const = 0;
  // Why it delivers nothing now; nullopt where nothing is kept (non-persistent topics).
  virtual std::optional<Explanation> explain() const { return std::nullopt; }
};

}  // namespace geminga
