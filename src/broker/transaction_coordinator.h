// One transaction coordinator: hands out transaction ids, knows who takes part in each open
// transaction, and brings every transaction to its end.
//
// States: Open -> Committing -> Committed, or Open -> Aborting -> Aborted. Each step is a record in
// the log `pulsar/system/persistent/__transaction_log_<id>` (Pulsar's records) before it counts.
// The record Committing is the commit: from then on the participants (topics, subscriptions) are
// told until all have confirmed, across crashes, and only then Committed is written and the
// transaction forgotten. So it ends everywhere or nowhere. A transaction whose time is up is
// aborted.
//
// After a failed write the coordinator serves no more (failed()): its owner (Transactions) opens it
// afresh, and the log says what is true. Lives on one shard; close() is awaited before it is let
// go.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/range_counts.h"
#include "base/status.h"
#include "broker/internal_log.h"
#include "runtime/async.h"
#include "runtime/gate.h"
#include "wire/command.h"

namespace geminga {

enum class TxnStatus : std::uint8_t {
  Open = 0,
  Committing = 1,
  Committed = 2,
  Aborting = 3,
  Aborted = 4
};
std::string_view to_string(TxnStatus status);  // "OPEN", as Pulsar prints it

struct TxnSubscription {
  std::string topic;
  std::string subscription;
  friend auto operator<=>(const TxnSubscription&, const TxnSubscription&) = default;
};

// What a coordinator asks of topics and subscriptions. All calls may be repeated and then change
// nothing; what is gone (topic, subscription) counts as done.
class TransactionParticipants {
 public:
  struct End {
    TxnId txn;
    bool commit = false;
    std::int64_t low_watermark = -1;  // all ids up to it have ended
  };

  // Before a transaction may write there: whatever makes its traces survive a crash.
  virtual Task<Status> prepare_topic(std::string topic) = 0;
  virtual Task<Status> prepare_subscription(TxnSubscription subscription) = 0;
  virtual Task<Status> end_on_topic(std::string topic, End end) = 0;
  virtual Task<Status> end_on_subscription(TxnSubscription subscription, End end) = 0;

 protected:
  ~TransactionParticipants() = default;
};

struct TransactionCoordinatorEnv {  // all outlive it
  Shard& shard;
  ManagedLedgerEnv ledger;
  TransactionParticipants& participants;
  std::int64_t max_active = 0;  // maxActiveTransactionsPerCoordinator; 0: kMostActive
  Millis retry_min{100};        // between two attempts to end a transaction
  Millis retry_max{10'000};
};

class TransactionCoordinator final : public std::enable_shared_from_this<TransactionCoordinator> {
 public:
  static constexpr std::string_view kCursor = "transaction.subscription";
  static constexpr std::string_view kIdProperty = "max_local_txn_id";
  static constexpr std::uint64_t kIdsAtOnce = 10'000;  // reserved by one write
  static constexpr std::int64_t kMostActive = 1'000'000;
  static constexpr std::size_t kMostParticipants = 100'000;  // of one transaction

  static std::string log_name(std::uint64_t id);
  const ManagedLedger& ledger() const { return log_->ledger(); }

  // Replays the log; transactions that were ending go on doing so.
  static Task<Result<std::shared_ptr<TransactionCoordinator>>> open(TransactionCoordinatorEnv env,
                                                                    std::uint64_t id);
  TransactionCoordinator(TransactionCoordinatorEnv env, std::uint64_t id);  // use open()

  std::uint64_t id() const { return id_; }
  bool failed() const { return failed_; }

  // TooManyRequests at the limit of active ones.
  Task<Result<TxnId>> begin(Millis timeout, std::string owner);
  // TransactionNotFound; InvalidTxnStatus unless it is open.
  Task<Status> add_topics(std::uint64_t txn, std::vector<std::string> topics);
  Task<Status> add_subscriptions(std::uint64_t txn, std::vector<TxnSubscription> subscriptions);
  // Done when every participant has confirmed and that is durable. Asking for the same end again
  // waits for it; for the other one is InvalidTxnStatus.
  Task<Status> end(std::uint64_t txn, bool commit);

  struct Info {
    TxnId txn;
    TxnStatus status = TxnStatus::Open;
    std::int64_t opened_ms = 0;
    std::int64_t timeout_ms = 0;
    std::set<std::string> topics;
    std::set<TxnSubscription> subscriptions;
  };
  // nullopt: it has ended, or never was.
  std::optional<Info> info(std::uint64_t txn) const;
  std::vector<Info> open_longer_than(std::int64_t ms) const;
  // Milliseconds from begin to the last participant's confirmation, in Pulsar's ranges.
  using ExecutionTime = RangeCounts<10, 20, 50, 100, 500, 1'000, 5'000, 15'000, 30'000, 60'000,
                                    300'000, 1'500'000, 3'000'000>;
  struct Stats {
    std::uint64_t least_bits = 0;  // the last id given
    std::int64_t low_watermark = -1;
    std::size_t ongoing = 0;
    std::int64_t recover_start_ms = 0;
    std::int64_t recover_end_ms = 0;
    std::int64_t committed = 0;
    std::int64_t aborted = 0;
    std::int64_t timed_out = 0;
    // Since it was opened, as the three above.
    std::int64_t created = 0;
    std::int64_t records_written = 0;
    ExecutionTime execution_time;
    std::int64_t participants_asked = 0;  // to end a transaction, and have not answered
  };
  Stats stats() const;

  Task<Status> close();

 private:
  struct Txn {
    TxnStatus status = TxnStatus::Open;
    std::int64_t opened_ms = 0;
    std::int64_t timeout_ms = 0;
    std::set<std::string> topics;
    std::set<TxnSubscription> subscriptions;
    std::vector<Position> records;
    std::shared_ptr<Event> over;  // set when it has ended, or the coordinator gives up
  };
  using Iterator = std::map<std::uint64_t, Txn>::iterator;

  Status replayed(Position position, std::string_view record);
  Task<Status> reserve_ids();
  // Of an open transaction, and what is wrong otherwise.
  Result<Iterator> find_open(std::uint64_t txn);
  // Writes a record about a transaction that is known.
  Task<Status> write(std::uint64_t txn, std::string record);
  Task<Status> write_status(std::uint64_t txn, TxnStatus from, TxnStatus to);
  Status unavailable() const;
  void fail(const Status& why);
  Task<Status> start_end(std::uint64_t txn, bool commit);
  void spawn_finish(std::uint64_t txn);
  Task<void> finish(std::uint64_t txn);
  Task<bool> tell_participants(std::uint64_t txn, bool commit, std::set<std::string>& topics,
                               std::set<TxnSubscription>& subscriptions);
  void forget(std::uint64_t txn);
  std::int64_t low_watermark() const;
  Info info_of(std::uint64_t txn, const Txn& state) const;
  void watch_deadline(std::uint64_t txn, const Txn& state);
  void arm_timer();
  void timer_fired();

  const TransactionCoordinatorEnv env_;
  const std::uint64_t id_;
  Gate gate_;
  std::unique_ptr<InternalLog> log_;
  AsyncMutex reserving_;
  std::uint64_t next_ = 0;
  std::uint64_t reserved_ = 0;  // ids below it may be given
  std::map<std::uint64_t, Txn> txns_;
  std::set<std::pair<std::int64_t, std::uint64_t>> deadlines_;
  asio::steady_timer timer_;
  std::int64_t timer_due_ms_ = 0;         // 0: not running
  std::set<asio::steady_timer*> pauses_;  // before another attempt to end a transaction
  bool failed_ = false;
  bool closing_ = false;
  Stats stats_;
};

}  // namespace geminga
