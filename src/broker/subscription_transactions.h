// The transactional side of one subscription: what open transactions have acknowledged
// (TransactionAcks), and the log that makes it durable.
//
// The log is `<topic>-<subscription>__transaction_pending_ack`, with Pulsar's records: ACK when a
// transaction acknowledges, COMMIT or ABORT when it ends. It is made when the first transaction
// announces itself (prepare) and replayed when the topic is loaded (recover); a commit that is in
// the log is applied to the cursor again, which changes nothing if it was applied before. Records
// are forgotten once the cursor is on the disk behind them (checkpoint), so that a replay is short.
//
// Belongs to a PersistentSubscription, used on its shard. A failed write leaves the log unknown:
// every call fails from then on, and the topic has to be loaded afresh.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "broker/internal_log.h"
#include "broker/transaction_acks.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"

namespace geminga {

struct SubscriptionTransactionsEnv {
  ManagedLedgerEnv ledger;  // metadata == nullptr: there are no transactions here
  std::string log_name;
  ManagedLedgerConfig config;
  // The log failed: load the topic afresh.
  std::function<void(const Status&)> failed;
  // A transaction has acknowledged something.
  std::function<void()> acknowledged;
};

class SubscriptionTransactions {
 public:
  static constexpr std::string_view kLogSuffix = "__transaction_pending_ack";
  static constexpr std::string_view kCursor = "__pending_ack_state";
  static constexpr int kCheckpointEvery = 100;  // ended transactions

  SubscriptionTransactions(SubscriptionTransactionsEnv env, ManagedCursor& cursor)
      : env_(std::move(env)), cursor_(cursor) {}

  const TransactionAcks& acks() const { return acks_; }
  bool ready() const { return log_ != nullptr && failure_.is_ok(); }
  // The log of pending acknowledgements; nullptr: none was needed.
  const ManagedLedger* ledger() const { return log_ != nullptr ? &log_->ledger() : nullptr; }
  std::int64_t recover_start_ms() const { return recover_start_ms_; }
  std::int64_t recover_end_ms() const { return recover_end_ms_; }

  // Reads the log, if there is one.
  Task<Status> recover();
  // Makes the log, if there is none.
  Task<Status> prepare();
  // TransactionConflict, or NotAllowed if the transaction has not announced itself. Durable.
  Task<Status> acknowledge(TxnId txn, bool cumulative, std::vector<AckedMessage> messages);
  // Durable; the caller applies what it gets to the cursor before it awaits anything else. nullopt:
  // the transaction has nothing here (any more).
  Task<Result<std::optional<TransactionAcks::Ended>>> end(TxnId txn, bool commit);
  // To be called once what end() gave is in the cursor.
  bool checkpoint_due() const { return ended_since_checkpoint_ >= kCheckpointEvery; }
  Task<Status> checkpoint();

  Task<Status> close();
  // The subscription is gone for good.
  Task<Status> remove();

  // Into a cursor, as a committed transaction's.
  static void apply(const AckedMessage& message, bool cumulative, ManagedLedger& ledger,
                    ManagedCursor& cursor);
  // For recover(), which needs it to apply cumulative acknowledgements.
  void set_topic_ledger(ManagedLedger& ledger) { topic_ledger_ = &ledger; }

 private:
  Task<Status> open_log(bool create_if_missing);
  Status replayed(Position position, std::string_view record);
  Task<Result<Position>> append(std::string record);

  const SubscriptionTransactionsEnv env_;
  ManagedCursor& cursor_;
  ManagedLedger* topic_ledger_ = nullptr;
  TransactionAcks acks_;
  AsyncMutex opening_;
  std::unique_ptr<InternalLog> log_;
  Status failure_;
  // Of each open transaction: all its records come after it.
  std::map<TxnId, Position> needed_behind_;
  int ended_since_checkpoint_ = 0;
  bool checkpointing_ = false;
  std::int64_t recover_start_ms_ = 0;
  std::int64_t recover_end_ms_ = 0;
};

}  // namespace geminga
