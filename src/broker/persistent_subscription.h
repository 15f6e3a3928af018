// The subscription of a persistent topic: a ManagedCursor, the consumers that share it and the
// dispatcher that hands entries out. The dispatcher is made for the type of the first consumer and
// made anew when there are no more consumers, so the type may change then; the counters live here
// and outlast it, redelivery counts are part of the cursor's durable state.
//
// Owned by the topic, used on its shard. The topic must await close() before it lets go of it
// (reads may be in flight). While a seek runs (fenced by resetting_) consumers are let in only
// after it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "broker/compacted_reads.h"
#include "broker/dispatcher.h"
#include "broker/dispatcher_config.h"
#include "broker/subscription.h"
#include "broker/subscription_transactions.h"
#include "runtime/async.h"
#include "runtime/gate.h"

namespace geminga {

struct BrokerConfig;
class Topic;

struct PersistentSubscriptionEnv {
  Topic& topic;
  ManagedLedger& ledger;
  std::shared_ptr<ManagedCursor> cursor;  // stands at the start position
  std::string name;
  bool durable = true;
  const BrokerConfig& config;
  SubscriptionTransactionsEnv transactions;
};
std::shared_ptr<Subscription> make_persistent_subscription(PersistentSubscriptionEnv env);

class PersistentSubscription final : public Subscription,
                                     public std::enable_shared_from_this<PersistentSubscription> {
 public:
  PersistentSubscription(Topic& topic, ManagedLedger& ledger, std::shared_ptr<ManagedCursor> cursor,
                         std::string name, bool durable, const DispatcherConfig& config,
                         SubscriptionTransactionsEnv transactions = {});
  ~PersistentSubscription() override;

  const std::string& name() const override { return name_; }
  std::optional<SubscriptionType> type() const override { return type_; }
  std::size_t consumer_count() const override;
  ManagedCursor* cursor() const override { return cursor_.get(); }
  CompactedReads* compacted_reads() override {
    return read_compacted_ ? compacted_.get() : nullptr;
  }
  void read_compacted_from(Position next) override;

  Task<Result<std::shared_ptr<Consumer>>> add_consumer(SubscribeRequest request) override;
  void remove_consumer(const std::shared_ptr<Consumer>& consumer) override;
  void flow(Consumer& consumer, std::uint32_t permits) override;
  Status ack(Consumer& consumer, const AckRequest& request) override;
  void redeliver(Consumer& consumer, std::span<const Position> positions,
                 std::int64_t epoch) override;

  // Before consumers come: what open transactions have acknowledged, and what those that a crash
  // interrupted have committed.
  Task<Status> recover_transactions() override { return transactions_.recover(); }
  void ack_in_transaction(const std::shared_ptr<Consumer>& consumer, TransactionAckRequest request,
                          UniqueFunction<void(const Status&)> done) override;
  Task<Status> prepare_transactions() override;
  Task<Status> end_transaction(TxnId txn, bool commit) override;
  std::vector<TxnId> open_transactions() const override { return transactions_.acks().open(); }
  Task<Status> remove_transactions() override { return transactions_.remove(); }
  const SubscriptionTransactions& transactions() const { return transactions_; }

  Task<Status> seek(Position position, AckSet remaining) override;
  Task<Status> seek_to_time(std::int64_t time_ms) override;
  Task<Status> prepare_unsubscribe(const std::shared_ptr<Consumer>& consumer, bool force) override;
  Task<void> close(bool deleting) override;
  Task<Status> skip_all() override;
  Task<Status> skip(std::int64_t messages) override;
  Task<Status> expire(std::int64_t older_than_seconds) override;
  void limit_unacked(std::int64_t per_consumer, std::int64_t per_subscription) override;
  void limit_dispatch(const Rate& rate) override;
  void set_replicated(bool on) override;
  void entries_available() override;

  SubscriptionStats stats() const override;
  SubscriptionSample sample(bool with_consumers) const override;
  ConsumerStats stats_of(const Consumer& consumer) const override;
  std::optional<Explanation> explain() const override;

  // Why nothing is delivered at this moment; None if nothing speaks against it.
  WaitReason why_waiting() const;
  const SubscriptionCounters& counters() const { return counters_; }
  const RedeliveryCounts& redeliveries() const { return cursor_->redeliveries(); }

 private:
  std::shared_ptr<Dispatcher> make_dispatcher(const SubscribeRequest& request);
  // Waits for a seek, asks an Exclusive consumer that is in the way whether it still lives.
  Task<Status> make_way(const SubscribeRequest& request);
  void ack_cumulatively(const AckedMessage& message);
  void apply_ended(const TransactionAcks::Ended& ended, bool commit);
  Task<Status> reset_to(Position position, AckSet remaining);
  // CLOSE_CONSUMER to all but `except`; nobody is left.
  void disconnect(const Consumer* except);
  Task<Result<Position>> first_at_or_after(std::int64_t time_ms);
  void mark_delete(Position to);
  Task<Status> move_mark_delete(Position to);  // and durable
  SubscriptionNumbers numbers() const;
  bool blocked_on_unacked(std::int64_t unacked) const;  // a consumer with so many
  void watch_later();
  void watch();

  Topic& topic_;
  ManagedLedger& ledger_;
  const std::shared_ptr<ManagedCursor> cursor_;
  const std::string name_;
  const bool durable_;
  DispatcherConfig config_;                    // dispatchers refer to it
  std::unique_ptr<CompactedReads> compacted_;  // nullptr: the topic cannot be compacted
  bool read_compacted_ = false;                // the last consumer asked for it
  std::optional<SubscriptionType> type_;

  bool closed_ = false;
  std::shared_ptr<Event> resetting_;  // set when the seek that runs is over
  AsyncMutex reset_mutex_;
  Gate gate_;
  SubscriptionCounters counters_;
  RateLimiter rate_;
  SubscriptionTransactions transactions_;
  std::optional<asio::steady_timer> watch_timer_;
  bool watching_ = false;
  std::int64_t left_ms_ = 0;  // since when nobody is connected
  std::shared_ptr<Dispatcher> dispatcher_;
};

}  // namespace geminga
