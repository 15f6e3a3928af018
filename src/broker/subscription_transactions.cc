#include "broker/subscription_transactions.h"

#include <fmt/format.h>

#include <algorithm>

#include "TransactionPendingAck.pb.h"
#include "base/clock.h"
#include "base/log.h"

namespace geminga {

namespace {

namespace proto = pulsar::pendingack;

proto::PendingAckMetadataEntry record_of(const TxnId& txn, proto::PendingAckOp op) {
  proto::PendingAckMetadataEntry record;
  record.set_pending_ack_op(op);
  record.set_txnid_least_bits(txn.least_bits);
  record.set_txnid_most_bits(txn.most_bits);
  return record;
}

std::vector<AckedMessage> messages_of(const proto::PendingAckMetadataEntry& record) {
  std::vector<AckedMessage> messages;
  for (const auto& metadata : record.pending_ack_metadata()) {
    AckedMessage& message = messages.emplace_back();
    message.position = {static_cast<LedgerId>(metadata.ledgerid()),
                        static_cast<EntryId>(metadata.entryid())};
    for (const std::int64_t word : metadata.ack_set()) {
      message.remaining.push_back(static_cast<std::uint64_t>(word));
    }
    message.batch_size = static_cast<std::uint32_t>(std::max(metadata.batch_size(), 0));
  }
  return messages;
}

}  // namespace

void SubscriptionTransactions::apply(const AckedMessage& message, bool cumulative,
                                     ManagedLedger& ledger, ManagedCursor& cursor) {
  if (cumulative) {
    cursor.ack_cumulative(message.remaining.empty() ? message.position
                                                    : ledger.previous(message.position));
    if (message.remaining.empty()) return;
  } else if (message.remaining.empty()) {
    cursor.ack(message.position, message.batch_size);
    return;
  }
  cursor.ack_partly(message.position, message.remaining, message.batch_size);
}

Task<Status> SubscriptionTransactions::open_log(bool create_if_missing) {
  recover_start_ms_ = now_ms();
  auto opened = co_await InternalLog::open(env_.ledger, env_.log_name, std::string(kCursor),
                                           env_.config, create_if_missing);
  if (!opened) co_return opened.status();
  auto log = std::move(*opened);
  UniqueFunction<Status(Position, std::string_view)> each =
      [this](Position position, std::string_view record) { return replayed(position, record); };
  const Status replayed = co_await log->replay(std::move(each));
  if (!replayed) {
    (void)co_await log->close();  // what failed before is told
    co_return replayed.with_context(env_.log_name);
  }
  log_ = std::move(log);
  recover_end_ms_ = now_ms();
  co_return Status::ok();
}

Task<Status> SubscriptionTransactions::recover() {
  if (env_.ledger.metadata == nullptr) co_return Status::ok();
  const auto exists = co_await managed_ledger_exists(*env_.ledger.metadata, env_.log_name);
  if (!exists) co_return exists.status();
  if (!*exists) co_return Status::ok();
  const auto lock = co_await opening_.lock();
  if (log_ != nullptr) co_return Status::ok();
  co_return co_await open_log(false);
}

Task<Status> SubscriptionTransactions::prepare() {
  if (env_.ledger.metadata == nullptr) {
    co_return Status::NotAllowed("Transactions are not possible in this subscription");
  }
  const auto lock = co_await opening_.lock();
  if (!failure_) co_return failure_;
  if (log_ != nullptr) co_return Status::ok();
  co_return co_await open_log(true);
}

Status SubscriptionTransactions::replayed(Position position, std::string_view bytes) {
  proto::PendingAckMetadataEntry record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status::Corruption(
        fmt::format("record {} is no PendingAckMetadataEntry", position.to_string()));
  }
  const TxnId txn{record.txnid_most_bits(), record.txnid_least_bits()};
  if (record.pending_ack_op() == proto::ACK) {
    const std::vector<AckedMessage> messages = messages_of(record);
    if (messages.empty()) return Status::ok();
    acks_.replay(txn, {record.ack_type() == proto::Cumulative, messages});
    needed_behind_.try_emplace(txn, Position{position.ledger, position.entry - 1});
    return Status::ok();
  }
  const auto taken = acks_.take(txn);
  needed_behind_.erase(txn);
  ++ended_since_checkpoint_;
  if (!taken || record.pending_ack_op() != proto::COMMIT) return Status::ok();
  for (const AckedMessage& message : taken->individual) {
    apply(message, false, *topic_ledger_, cursor_);
  }
  if (taken->cumulative) apply(*taken->cumulative, true, *topic_ledger_, cursor_);
  return Status::ok();
}

Task<Result<Position>> SubscriptionTransactions::append(std::string record) {
  if (!failure_) co_return failure_;
  auto appended = co_await log_->append(std::move(record));
  if (!appended && failure_ && !InternalLog::is_refusal(appended.status())) {
    failure_ = Status::ServiceNotReady(
        fmt::format("the log of pending acknowledgements failed: {}", appended.status().message()));
    GM_LOG_ERROR("{}: {}", env_.log_name, failure_.message());
    if (env_.failed) env_.failed(failure_);
  }
  co_return appended;
}

Task<Status> SubscriptionTransactions::acknowledge(TxnId txn, bool cumulative,
                                                   std::vector<AckedMessage> messages) {
  if (log_ == nullptr) {
    co_return Status::NotAllowed(
        fmt::format("Transaction {} has not added this subscription", txn.to_string()));
  }
  if (messages.empty()) co_return Status::ok();
  const AckRequest request{cumulative, messages};
  // In memory first: whoever comes while this is being written must see it.
  GM_CO_RETURN_IF_ERROR(acks_.acknowledge(txn, request, cursor_));
  needed_behind_.try_emplace(txn, log_->last());
  auto record = record_of(txn, proto::ACK);
  record.set_ack_type(cumulative ? proto::Cumulative : proto::Individual);
  for (const AckedMessage& message : messages) {
    auto* metadata = record.add_pending_ack_metadata();
    metadata->set_ledgerid(static_cast<std::uint64_t>(message.position.ledger));
    metadata->set_entryid(static_cast<std::uint64_t>(message.position.entry));
    for (const std::uint64_t word : message.remaining) {
      metadata->add_ack_set(static_cast<std::int64_t>(word));
    }
    if (message.batch_size > 0) {
      metadata->set_batch_size(static_cast<std::int32_t>(message.batch_size));
    }
  }
  const auto appended = co_await append(record.SerializeAsString());
  if (!appended) {
    acks_.take_back(txn, request);
    if (!acks_.contains(txn)) needed_behind_.erase(txn);
  } else if (env_.acknowledged) {
    env_.acknowledged();
  }
  co_return appended.status();
}

Task<Result<std::optional<TransactionAcks::Ended>>> SubscriptionTransactions::end(TxnId txn,
                                                                                  bool commit) {
  using Ended = std::optional<TransactionAcks::Ended>;
  if (!failure_) co_return failure_;
  if (!acks_.contains(txn)) co_return Ended();
  auto record = record_of(txn, commit ? proto::COMMIT : proto::ABORT);
  const auto appended = co_await append(record.SerializeAsString());
  if (!appended) co_return appended.status();
  needed_behind_.erase(txn);
  ++ended_since_checkpoint_;
  co_return acks_.take(txn);
}

Task<Status> SubscriptionTransactions::checkpoint() {
  if (log_ == nullptr || checkpointing_ || !failure_) co_return failure_;
  checkpointing_ = true;
  ended_since_checkpoint_ = 0;
  // Nothing of a transaction that has not been taken out of the memory is before its position.
  Position until = log_->last();
  for (const auto& [txn, behind] : needed_behind_) until = std::min(until, behind);
  const Status flushed = co_await cursor_.flush();
  if (flushed && log_ != nullptr) log_->forget_until(until);
  checkpointing_ = false;
  co_return flushed;
}

Task<Status> SubscriptionTransactions::close() {
  if (log_ == nullptr) co_return Status::ok();
  const Status checkpointed = co_await checkpoint();
  auto log = std::move(log_);
  const Status closed = co_await log->close();
  co_return checkpointed ? closed : checkpointed;
}

Task<Status> SubscriptionTransactions::remove() {
  if (env_.ledger.metadata == nullptr) co_return Status::ok();
  const auto lock = co_await opening_.lock();
  if (log_ == nullptr) {
    const auto exists = co_await managed_ledger_exists(*env_.ledger.metadata, env_.log_name);
    if (!exists) co_return exists.status();
    if (!*exists) co_return Status::ok();
    auto opened = co_await InternalLog::open(env_.ledger, env_.log_name, std::string(kCursor),
                                             env_.config, false);
    if (!opened) co_return opened.status();
    log_ = std::move(*opened);
  }
  auto log = std::move(log_);
  co_return co_await log->remove();
}

}  // namespace geminga
