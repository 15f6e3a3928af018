// What a topic does for transactions: their messages on the way into the log, the markers that end
// them, and the watch over those whose coordinator will never come back to them.
#include <fmt/format.h>

#include "PulsarMarkers.pb.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/url_encoding.h"
#include "broker/persistent_topic.h"
#include "wire/message_encoding.h"

namespace geminga {

namespace {

// A snapshot is made at the latest so long after something changed (Pulsar's
// transactionBufferSnapshotMinTimeInMillis); every sixth time coordinators are asked about what is
// open here.
constexpr Millis kLookEvery{5000};
constexpr int kLooksPerQuestion = 6;

Buffer marker_entry(const TxnId& txn, bool commit) {
  OutgoingMetadata metadata;
  metadata.producer_name = "pulsar.txn.marker";
  metadata.sequence_id = -1;
  metadata.publish_time = now_ms();
  metadata.marker_type = commit ? pulsar::markers::TXN_COMMIT : pulsar::markers::TXN_ABORT;
  metadata.txn = txn;
  const std::size_t size = encoded_size(metadata);
  Block* block = Block::allocate(kEntryHeadSize + size);
  encode(metadata, block->data() + kEntryHeadSize);
  seal_entry({block->data(), kEntryHeadSize + size}, size);
  return Buffer::adopt(block, 0, kEntryHeadSize + size);
}

}  // namespace

SubscriptionTransactionsEnv PersistentTopic::subscription_transactions(const std::string& name,
                                                                       bool durable) {
  SubscriptionTransactionsEnv env;
  if (!durable || !env_.transaction_is_open) return env;
  env.ledger = {&env_.shard, &env_.ledgers, &env_.metadata};
  env.log_name =
      fmt::format("{}{}", name_.managed_ledger_name(),
                  url_encode(fmt::format("-{}{}", name, SubscriptionTransactions::kLogSuffix)));
  env.failed = [this](const Status& why) { write_failed(why); };
  env.acknowledged = [this] {
    if (!watching_transactions_) watch_transactions();
  };
  return env;
}

// --- publishing ---

Status PersistentTopic::check_transaction(const PublishItem& item) const {
  if (transactions_ == nullptr) {
    return Status::NotAllowed(fmt::format(
        "Transaction {} has not added this topic (ADD_PARTITION_TO_TXN)", item.txn->to_string()));
  }
  return transactions_->check_open(*item.txn);
}

void PersistentTopic::tell_transactions(const Pending& pending, Position position,
                                        const Status& status) {
  TransactionBuffer& transactions = *transactions_;
  switch (pending.part) {
    case TxnPart::None:
      if (status) transactions.entry_persisted(position);
      break;
    case TxnPart::Message:
      if (status) {
        transactions.message_persisted(pending.txn, position);
      } else {
        transactions.message_failed(pending.txn);
      }
      break;
    case TxnPart::CommitMarker:
    case TxnPart::AbortMarker:
      if (status) {
        transactions.end_persisted(pending.txn, pending.part == TxnPart::CommitMarker, position);
      } else {
        transactions.end_failed(pending.txn, status);
      }
      break;
  }
  if (!watching_transactions_) watch_transactions();
}

// --- beginning and ending ---

Task<Status> PersistentTopic::prepare_transactions() {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  if (transactions_ != nullptr) co_return Status::ok();
  const auto lock = co_await creating_.lock();
  if (transactions_ != nullptr) co_return Status::ok();
  auto opened = co_await TransactionBuffer::open(*ledger_);
  if (!opened) co_return opened.status();
  transactions_ = std::move(*opened);
  co_return Status::ok();
}

void PersistentTopic::append_marker(const TxnId& txn, bool commit) {
  Pending pending;
  pending.part = commit ? TxnPart::CommitMarker : TxnPart::AbortMarker;
  pending.txn = txn;
  pending_.push_back(std::move(pending));
  ledger_->append(marker_entry(txn, commit), 1);
}

Task<Status> PersistentTopic::end_transaction(TxnId txn, bool commit, std::int64_t low_watermark) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  if (transactions_ == nullptr) co_return Status::ok();
  TransactionBuffer& transactions = *transactions_;
  transactions.set_low_watermark(txn.most_bits, low_watermark);
  if (!transactions.is_open(txn)) {
    transactions.remember_ended(txn);
  } else if (terminated()) {
    co_return co_await end_in_terminated(txn, commit);
  }
  std::shared_ptr<TransactionBuffer::Ending> ending;
  if (transactions.is_open(txn)) {
    bool first = false;
    ending = transactions.start_end(txn, first);
    if (first) append_marker(txn, commit);
  }
  for (const TxnId& orphan : transactions.orphans()) {
    if (orphan == txn || terminated()) continue;
    bool first = false;
    (void)transactions.start_end(orphan, first);  // nobody waits for it
    GM_LOG_WARN("{}: transaction {} has ended without this topic, what it sent here is dropped",
                name_.full(), orphan.to_string());
    append_marker(orphan, false);
  }
  if (ending == nullptr) co_return Status::ok();
  co_await ending->done.wait();
  co_return ending->status;
}

// No marker can be written: the snapshot keeps what became of it.
Task<Status> PersistentTopic::end_in_terminated(TxnId txn, bool commit) {
  transactions_->end_persisted(txn, commit, ledger_->last_confirmed());
  transactions_->snapshot();
  env_.shard.defer(*this);
  co_return co_await transactions_->flush();
}

// --- the watch ---

void PersistentTopic::watch_transactions() {
  bool open = transactions_ != nullptr &&
              (transactions_->open_count() > 0 || transactions_->snapshot_due());
  for (const auto& [name, subscription] : subscriptions_) {
    open = open || !subscription->open_transactions().empty();
  }
  if (!open || watching_transactions_ || closing()) return;
  watching_transactions_ = true;
  if (!transaction_timer_) transaction_timer_.emplace(env_.shard.executor());
  transaction_timer_->expires_after(kLookEvery);
  transaction_timer_->async_wait(
      [weak = weak_from_this()](const boost::system::error_code& cancelled) {
        auto self = weak.lock();
        if (!self) return;
        self->watching_transactions_ = false;
        if (cancelled || self->closing()) return;
        spawn(self->env_.shard, self->gate_,
              [self]() -> Task<void> { co_await self->look_after_transactions(); });
      });
}

Task<void> PersistentTopic::look_after_transactions() {
  if (transactions_ != nullptr && transactions_->snapshot_due()) transactions_->snapshot();
  if (env_.transaction_is_open && ++looks_since_asked_ >= kLooksPerQuestion) {
    looks_since_asked_ = 0;
    co_await abort_orphans();
  }
  watch_transactions();
}

// What is open here and unknown to its coordinator came too late, or was never announced: it would
// hold back the topic, or its messages, for ever.
Task<void> PersistentTopic::abort_orphans() {
  struct Open {
    TxnId txn;
    std::string subscription;  // empty: it has sent
  };
  std::vector<Open> all;
  if (transactions_ != nullptr) {
    for (const TxnId& txn : transactions_->open_transactions()) all.push_back({txn, ""});
  }
  for (const auto& [name, subscription] : subscriptions_) {
    for (const TxnId& txn : subscription->open_transactions()) all.push_back({txn, name});
  }
  for (const Open& open : all) {
    const auto known = co_await env_.transaction_is_open(open.txn);
    if (closing()) co_return;
    if (!known || *known) continue;
    GM_LOG_WARN("{}{}{}: transaction {} has ended without it, what it did here is taken back",
                name_.full(), open.subscription.empty() ? "" : " / ", open.subscription,
                open.txn.to_string());
    Status ended;
    if (open.subscription.empty()) {
      ended = co_await end_transaction(open.txn, false, -1);
    } else if (const auto found = subscription(open.subscription); found != nullptr) {
      ended = co_await found->end_transaction(open.txn, false);
    }
    if (!ended) {
      GM_LOG_WARN("{}: taking back transaction {}: {}", name_.full(), open.txn.to_string(),
                  ended.to_string());
    }
  }
}

}  // namespace geminga
