// Acknowledgements in transactions: how they reach the cursor and the consumers.
#include "base/clock.h"
#include "base/log.h"
#include "broker/persistent_subscription.h"
#include "broker/topic.h"

namespace geminga {

void PersistentSubscription::ack_in_transaction(const std::shared_ptr<Consumer>& consumer,
                                                TransactionAckRequest request,
                                                UniqueFunction<void(const Status&)> done) {
  if (!durable_) {
    return done(Status::NotAllowed("Transactions need a durable subscription"));
  }
  if (!consumer->attached() || !dispatcher_ || gate_.closed()) {
    return done(Status::ServiceNotReady("The consumer is being closed"));
  }
  if (request.cumulative &&
      (dispatcher_->type() == SubscriptionType::Shared ||
       dispatcher_->type() == SubscriptionType::KeyShared || request.messages.size() != 1)) {
    return done(Status::ok());  // Pulsar answers so, too
  }
  std::erase_if(request.messages,
                [&](AckedMessage& message) { return !dispatcher_->as_stored(*consumer, message); });
  struct Call {
    TransactionAckRequest request;
    UniqueFunction<void(const Status&)> done;
  };
  auto call = std::make_shared<Call>(Call{std::move(request), std::move(done)});
  spawn(topic_.shard(), gate_, [self = shared_from_this(), call]() -> Task<void> {
    std::vector<Position> positions;
    if (!call->request.cumulative) {
      for (const AckedMessage& message : call->request.messages)
        positions.push_back(message.position);
    }
    const Status acknowledged = co_await self->transactions_.acknowledge(
        call->request.txn, call->request.cumulative, std::move(call->request.messages));
    if (acknowledged && self->dispatcher_) self->dispatcher_->acked_in_transaction(positions);
    call->done(acknowledged);
  });
}

Task<Status> PersistentSubscription::prepare_transactions() {
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  if (!durable_) co_return Status::NotAllowed("Transactions need a durable subscription");
  co_return co_await transactions_.prepare();
}

Task<Status> PersistentSubscription::end_transaction(TxnId txn, bool commit) {
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  const auto ended = co_await transactions_.end(txn, commit);
  if (!ended) co_return ended.status();
  if (ended->has_value()) {
    ++(commit ? counters_.committed_txns : counters_.aborted_txns);
    apply_ended(**ended, commit);
  }
  if (transactions_.checkpoint_due()) {
    spawn(topic_.shard(), gate_, [self]() -> Task<void> {
      const Status kept = co_await self->transactions_.checkpoint();
      if (!kept) {
        GM_LOG_WARN("{}: subscription {}: pending acknowledgements: {}", self->topic_.name().full(),
                    self->name_, kept.to_string());
      }
    });
  }
  co_return Status::ok();
}

void PersistentSubscription::apply_ended(const TransactionAcks::Ended& ended, bool commit) {
  if (commit) {
    const std::int64_t now = now_ms();
    const Position before = cursor_->mark_delete();
    const std::int64_t backlog = cursor_->backlog_messages();
    for (const AckedMessage& message : ended.individual) {
      // A part is kept in the cursor even where batch index acknowledgements are switched off:
      // the transaction was told that it counts.
      if (dispatcher_ && consumer_count() > 0 &&
          (message.remaining.empty() || config_.batch_index_ack)) {
        dispatcher_->ack_committed(message);
      } else {
        SubscriptionTransactions::apply(message, false, ledger_, *cursor_);
      }
    }
    if (ended.cumulative) {
      SubscriptionTransactions::apply(*ended.cumulative, true, ledger_, *cursor_);
      if (dispatcher_) dispatcher_->mark_delete_moved();
    }
    counters_.acked.add(backlog - cursor_->backlog_messages());
    counters_.last_acked_ms = now;
    if (cursor_->mark_delete() != before) counters_.last_mark_delete_ms = now;
  }
  if (!dispatcher_) return;
  // Who acknowledged cumulatively has all of it and goes on where it is, as in Pulsar: what it
  // wants again it asks for.
  if (!ended.individual.empty()) dispatcher_->transaction_ended(ended.individual, commit);
  dispatcher_->announce_end_of_topic();
}

}  // namespace geminga
