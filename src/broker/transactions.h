// Transactions of this broker: its coordinators, and how they reach the topics that take part.
//
// Coordinator i stands for partition i of
// `persistent://pulsar/system/transaction_coordinator_assign`, by which clients find it. It lives
// on the shard of its log's name, is opened when it is first needed (or at start, if it has a log,
// so that transactions a crash has interrupted are ended without anybody asking) and opened again
// after a failure. Owned by the Broker; members may be called on any shard unless they say
// otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "broker/topic_name.h"
#include "broker/transaction_coordinator.h"
#include "runtime/async.h"
#include "runtime/gate.h"

namespace geminga {

class Broker;
class Topic;

class Transactions final : private TransactionParticipants {
 public:
  explicit Transactions(Broker& broker);
  ~Transactions();

  bool enabled() const;
  // Makes the coordinators' topic if it is missing, and goes on with what was interrupted. On
  // shard 0.
  Task<Status> start();
  Task<Status> close();  // on shard 0; before the topics are closed

  Task<Result<std::int32_t>> coordinator_count();
  // TransactionCoordinatorNotFound if there is no such coordinator, or it cannot be opened now.
  Task<Status> connect(std::uint64_t coordinator);
  Task<Result<TxnId>> begin(std::uint64_t coordinator, Millis timeout, std::string owner);
  Task<Status> add_topics(TxnId txn, std::vector<std::string> topics);
  Task<Status> add_subscriptions(TxnId txn, std::vector<TxnSubscription> subscriptions);
  Task<Status> end(TxnId txn, bool commit);
  // Has it begun and not ended?
  Task<Result<bool>> is_open(TxnId txn);

  Task<Result<TransactionCoordinator::Info>> info(TxnId txn);
  Task<Result<TransactionCoordinator::Stats>> stats(std::uint64_t coordinator);
  // Of those that are open now; opens none.
  Task<std::vector<std::pair<std::uint64_t, TransactionCoordinator::Stats>>> stats_of_open();
  // Shows the coordinator's log to `look`, on its shard.
  Task<Status> look_at_log(std::uint64_t coordinator,
                           std::function<void(const ManagedLedger&)> look);
  Task<Result<std::vector<TransactionCoordinator::Info>>> slow(std::uint64_t coordinator,
                                                               std::int64_t open_ms);

  // More coordinators. PreconditionFailed unless there are more than now.
  Task<Status> scale(std::int32_t coordinators);

  // What END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION ask for.
  using End = TransactionParticipants::End;
  Task<Status> end_on_topic(std::string topic, End end) override;
  Task<Status> end_on_subscription(TxnSubscription subscription, End end) override;

 private:
  struct Slot {
    AsyncMutex opening;
    std::shared_ptr<TransactionCoordinator> coordinator;
  };
  struct OnShard {
    std::map<std::uint64_t, std::shared_ptr<Slot>> slots;
    Gate gate;
    bool closing = false;
  };

  Task<Status> prepare_topic(std::string topic) override;
  Task<Status> prepare_subscription(TxnSubscription subscription) override;

  static TopicName topic_of_clients();
  static TopicName topic_of_log(std::uint64_t coordinator);
  Shard& shard_of(std::uint64_t coordinator);
  OnShard& here() { return *shards_[Shard::current()->id()]; }
  // On its shard.
  Task<Result<std::shared_ptr<TransactionCoordinator>>> coordinator(std::uint64_t id);
  // Runs `use(coordinator)`, which returns Task<R> (R made from a Status), on its shard.
  template <typename F>
  auto with(std::uint64_t id, F use);
  // Runs `use(topic)` on the topic's shard; OK if there is no such topic.
  template <typename F>
  Task<Status> with_topic(std::string topic, F use);

  Broker& broker_;
  std::vector<std::unique_ptr<OnShard>> shards_;  // each used on its shard only
};

}  // namespace geminga
