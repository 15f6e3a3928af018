#include "broker/transactions.h"

#include <fmt/format.h>

#include "base/config.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/call_on.h"
#include "broker/namespaces.h"
#include "broker/subscription.h"
#include "broker/topic.h"

namespace geminga {

namespace {

// As in Pulsar's standalone; more can be added while it runs.
constexpr std::int32_t kCoordinators = 1;

Status no_coordinator(std::uint64_t id) {
  return Status::TransactionCoordinatorNotFound(
      fmt::format("Transaction coordinator not found! coordinator id : {}", id));
}

}  // namespace

Transactions::Transactions(Broker& broker) : broker_(broker) {
  for (unsigned i = 0; i < broker.runtime().shard_count(); ++i) {
    shards_.push_back(std::make_unique<OnShard>());
  }
}

Transactions::~Transactions() = default;

bool Transactions::enabled() const { return broker_.config().transaction_coordinator_enabled; }

TopicName Transactions::topic_of_clients() {
  return TopicName::parse("persistent://pulsar/system/transaction_coordinator_assign").value();
}

TopicName Transactions::topic_of_log(std::uint64_t coordinator) {
  return TopicName::parse(
             fmt::format("persistent://pulsar/system/__transaction_log_{}", coordinator))
      .value();
}

Shard& Transactions::shard_of(std::uint64_t coordinator) {
  return broker_.shard_of(topic_of_log(coordinator));
}

Task<Result<std::int32_t>> Transactions::coordinator_count() {
  return broker_.namespaces().partition_count(topic_of_clients());
}

Task<Status> Transactions::start() {
  if (!enabled()) co_return Status::ok();
  auto count = co_await coordinator_count();
  if (!count) co_return count.status();
  if (*count == 0) {
    const Status created = co_await broker_.namespaces().create_partitioned(
        topic_of_clients(), kCoordinators, std::map<std::string, std::string>());
    if (!created && !created.is(ErrorCode::AlreadyExists)) co_return created;
    count = kCoordinators;
  }
  for (std::int32_t i = 0; i < *count; ++i) {
    const auto id = static_cast<std::uint64_t>(i);
    const auto exists =
        co_await managed_ledger_exists(broker_.metadata(), TransactionCoordinator::log_name(id));
    if (!exists) co_return exists.status();
    if (!*exists) continue;
    Shard& shard = shard_of(id);
    shard.post([this, id, &shard] {
      spawn(shard, here().gate, [this, id]() -> Task<void> {
        const auto opened = co_await coordinator(id);
        if (!opened) {
          GM_LOG_ERROR("transaction coordinator {} cannot be opened, its transactions wait: {}", id,
                       opened.status().to_string());
        }
      });
    });
  }
  co_return Status::ok();
}

Task<Status> Transactions::close() {
  Status first;
  for (unsigned i = 0; i < broker_.runtime().shard_count(); ++i) {
    auto work = [this]() -> Task<Status> {
      here().closing = true;  // no coordinator is opened any more
      Status failed;
      for (auto& [id, slot] : here().slots) {
        const auto lock = co_await slot->opening.lock();
        if (slot->coordinator == nullptr) continue;
        auto coordinator = std::exchange(slot->coordinator, nullptr);
        const Status closed = co_await coordinator->close();
        if (!closed && !coordinator->failed() && failed) failed = closed;
      }
      co_await here().gate.close();
      co_return failed;
    };
    const Status closed = co_await call_on(broker_.runtime().shard(i), std::move(work));
    if (!closed && first) first = closed;
  }
  co_return first;
}

Task<Result<std::shared_ptr<TransactionCoordinator>>> Transactions::coordinator(std::uint64_t id) {
  if (here().closing) co_return no_coordinator(id);
  auto at = here().slots.find(id);
  if (at == here().slots.end()) {
    const auto count = co_await coordinator_count();
    if (!count) co_return count.status();
    if (id >= static_cast<std::uint64_t>(*count)) co_return no_coordinator(id);
    if (here().closing) co_return no_coordinator(id);
    at = here().slots.try_emplace(id, std::make_shared<Slot>()).first;
  }
  auto slot = at->second;
  const auto lock = co_await slot->opening.lock();
  if (slot->coordinator != nullptr && !slot->coordinator->failed()) co_return slot->coordinator;
  if (here().closing) co_return no_coordinator(id);
  if (auto failed = std::exchange(slot->coordinator, nullptr); failed != nullptr) {
    // Its log has failed: what closing it says is known.
    (void)co_await failed->close();
  }
  const TopicName log = topic_of_log(id);
  Shard& shard = *Shard::current();
  TransactionCoordinatorEnv env{shard,
                                {&shard, &broker_.ledgers(log), &broker_.metadata()},
                                *this,
                                broker_.config().max_active_transactions_per_coordinator};
  auto opened = co_await TransactionCoordinator::open(env, id);
  if (!opened) {
    GM_LOG_WARN("transaction coordinator {}: {}", id, opened.status().to_string());
    co_return Status::TransactionCoordinatorNotFound(fmt::format(
        "Transaction coordinator {} cannot be opened: {}", id, opened.status().message()));
  }
  slot->coordinator = *opened;
  co_return std::move(*opened);
}

template <typename F>
auto Transactions::with(std::uint64_t id, F use) {
  using Answer = std::invoke_result_t<F, std::shared_ptr<TransactionCoordinator>>;
  auto work = [this, id, use = std::move(use)]() mutable -> Answer {
    const auto inside = here().gate.hold();
    if (!inside) co_return no_coordinator(id);
    auto found = co_await coordinator(id);
    if (!found) co_return found.status();
    auto used = std::move(*found);
    co_return co_await use(used);
  };
  return call_on(shard_of(id), std::move(work));
}

Task<Status> Transactions::connect(std::uint64_t coordinator) {
  if (!enabled()) co_return Status::NotAllowed("Transactions are not enabled.");
  auto use = [](std::shared_ptr<TransactionCoordinator>) -> Task<Status> {
    co_return Status::ok();
  };
  co_return co_await with(coordinator, std::move(use));
}

Task<Result<TxnId>> Transactions::begin(std::uint64_t coordinator, Millis timeout,
                                        std::string owner) {
  auto use = [timeout, owner = std::move(owner)](
                 std::shared_ptr<TransactionCoordinator> tc) -> Task<Result<TxnId>> {
    co_return co_await tc->begin(timeout, owner);
  };
  co_return co_await with(coordinator, std::move(use));
}

Task<Status> Transactions::add_topics(TxnId txn, std::vector<std::string> topics) {
  auto use = [txn, topics = std::move(topics)](
                 std::shared_ptr<TransactionCoordinator> tc) mutable -> Task<Status> {
    co_return co_await tc->add_topics(txn.least_bits, std::move(topics));
  };
  co_return co_await with(txn.most_bits, std::move(use));
}

Task<Status> Transactions::add_subscriptions(TxnId txn,
                                             std::vector<TxnSubscription> subscriptions) {
  auto use = [txn, subscriptions = std::move(subscriptions)](
                 std::shared_ptr<TransactionCoordinator> tc) mutable -> Task<Status> {
    co_return co_await tc->add_subscriptions(txn.least_bits, std::move(subscriptions));
  };
  co_return co_await with(txn.most_bits, std::move(use));
}

Task<Status> Transactions::end(TxnId txn, bool commit) {
  auto use = [txn, commit](std::shared_ptr<TransactionCoordinator> tc) -> Task<Status> {
    co_return co_await tc->end(txn.least_bits, commit);
  };
  co_return co_await with(txn.most_bits, std::move(use));
}

Task<Result<bool>> Transactions::is_open(TxnId txn) {
  auto use = [txn](std::shared_ptr<TransactionCoordinator> tc) -> Task<Result<bool>> {
    co_return tc->info(txn.least_bits).has_value();
  };
  co_return co_await with(txn.most_bits, std::move(use));
}

Task<Result<TransactionCoordinator::Info>> Transactions::info(TxnId txn) {
  using Info = Result<TransactionCoordinator::Info>;
  auto use = [txn](std::shared_ptr<TransactionCoordinator> tc) -> Task<Info> {
    auto found = tc->info(txn.least_bits);
    if (!found) {
      co_return Status::TransactionNotFound(
          fmt::format("The transaction with this txdID `{}`not found ", txn.to_string()));
    }
    co_return std::move(*found);
  };
  co_return co_await with(txn.most_bits, std::move(use));
}

Task<Result<TransactionCoordinator::Stats>> Transactions::stats(std::uint64_t coordinator) {
  auto use = [](std::shared_ptr<TransactionCoordinator> tc)
      -> Task<Result<TransactionCoordinator::Stats>> { co_return tc->stats(); };
  co_return co_await with(coordinator, std::move(use));
}

Task<std::vector<std::pair<std::uint64_t, TransactionCoordinator::Stats>>>
Transactions::stats_of_open() {
  using All = std::vector<std::pair<std::uint64_t, TransactionCoordinator::Stats>>;
  All all;
  for (unsigned i = 0; i < broker_.runtime().shard_count(); ++i) {
    auto work = [this]() -> Task<All> {
      All found;
      for (const auto& [id, slot] : here().slots) {
        if (slot->coordinator != nullptr) found.emplace_back(id, slot->coordinator->stats());
      }
      co_return found;
    };
    All found = co_await on_shard(broker_.runtime().shard(i), std::move(work));
    all.insert(all.end(), found.begin(), found.end());
  }
  co_return all;
}

Task<Status> Transactions::look_at_log(std::uint64_t coordinator,
                                       std::function<void(const ManagedLedger&)> look) {
  auto use = [look = std::move(look)](std::shared_ptr<TransactionCoordinator> tc) -> Task<Status> {
    look(tc->ledger());
    co_return Status::ok();
  };
  co_return co_await with(coordinator, std::move(use));
}

Task<Result<std::vector<TransactionCoordinator::Info>>> Transactions::slow(
    std::uint64_t coordinator, std::int64_t open_ms) {
  auto use = [open_ms](std::shared_ptr<TransactionCoordinator> tc)
      -> Task<Result<std::vector<TransactionCoordinator::Info>>> {
    co_return tc->open_longer_than(open_ms);
  };
  co_return co_await with(coordinator, std::move(use));
}

Task<Status> Transactions::scale(std::int32_t coordinators) {
  const auto count = co_await coordinator_count();
  if (!count) co_return count.status();
  if (coordinators <= *count) {
    co_return Status::PreconditionFailed(
        "Number of transaction coordinators should be more than the current number of transaction "
        "coordinator");
  }
  co_return co_await broker_.namespaces().grow_partitioned(topic_of_clients(), coordinators);
}

// --- participants ---

template <typename F>
Task<Status> Transactions::with_topic(std::string topic, F use) {
  const auto name = TopicName::parse(topic);
  if (!name) co_return name.status();
  auto work = [this, name = *name, use = std::move(use)]() mutable -> Task<Status> {
    auto found = co_await broker_.topic(name, Broker::TopicOptions());
    if (found.is(ErrorCode::TopicNotFound)) co_return Status::ok();
    if (!found) co_return found.status();
    auto loaded = std::move(*found);
    co_return co_await use(loaded);
  };
  co_return co_await call_on(broker_.shard_of(*name), std::move(work));
}

Task<Status> Transactions::prepare_topic(std::string topic) {
  auto use = [](std::shared_ptr<Topic> loaded) -> Task<Status> {
    co_return co_await loaded->prepare_transactions();
  };
  co_return co_await with_topic(std::move(topic), std::move(use));
}

Task<Status> Transactions::prepare_subscription(TxnSubscription subscription) {
  auto use = [name = subscription.subscription](std::shared_ptr<Topic> loaded) -> Task<Status> {
    auto found = loaded->subscription(name);
    if (found == nullptr) co_return Status::ok();
    co_return co_await found->prepare_transactions();
  };
  co_return co_await with_topic(subscription.topic, std::move(use));
}

Task<Status> Transactions::end_on_topic(std::string topic, End end) {
  auto use = [end](std::shared_ptr<Topic> loaded) -> Task<Status> {
    co_return co_await loaded->end_transaction(end.txn, end.commit, end.low_watermark);
  };
  co_return co_await with_topic(std::move(topic), std::move(use));
}

Task<Status> Transactions::end_on_subscription(TxnSubscription subscription, End end) {
  auto use = [name = subscription.subscription,
              end](std::shared_ptr<Topic> loaded) -> Task<Status> {
    auto found = loaded->subscription(name);
    if (found == nullptr) co_return Status::ok();
    co_return co_await found->end_transaction(end.txn, end.commit);
  };
  co_return co_await with_topic(subscription.topic, std::move(use));
}

}  // namespace geminga
