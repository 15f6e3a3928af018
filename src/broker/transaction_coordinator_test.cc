#include "broker/transaction_coordinator.h"

#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::LedgerWorld;

// Topics and subscriptions that remember what they were told.
class Participants final : public TransactionParticipants {
 public:
  Task<Status> prepare_topic(std::string topic) override {
    co_await sleep_for(Millis{0});
    prepared.insert(topic);
    co_return prepare_outcome;
  }
  Task<Status> prepare_subscription(TxnSubscription subscription) override {
    prepared.insert(subscription.topic + "/" + subscription.subscription);
    co_return prepare_outcome;
  }
  Task<Status> end_on_topic(std::string topic, End end) override {
    return told(std::move(topic), end);
  }
  Task<Status> end_on_subscription(TxnSubscription subscription, End end) override {
    return told(subscription.topic + "/" + subscription.subscription, end);
  }

  std::set<std::string> prepared;
  Status prepare_outcome;
  std::map<std::string, int> failures;  // so many times "not now"
  // How each transaction ended at each; a second time in another way would be a fault.
  std::map<std::pair<std::string, std::uint64_t>, bool> outcomes;
  std::int64_t low_watermark = -2;
  int calls = 0;

 private:
  Task<Status> told(std::string who, End end) {
    co_await sleep_for(Millis{0});
    ++calls;
    low_watermark = end.low_watermark;
    if (failures[who]-- > 0) co_return Status::ServiceNotReady("not now");
    const auto [at, first] = outcomes.try_emplace({who, end.txn.least_bits}, end.commit);
    EXPECT_EQ(at->second, end.commit) << who << " " << end.txn.to_string();
    co_return Status::ok();
  }
};

class TransactionCoordinatorTest : public LedgerWorld {
 protected:
  Task<Status> start() {
    TransactionCoordinatorEnv env{shard(),    this->env(), participants,
                                  max_active, Millis{1},   Millis{5}};
    auto opened = co_await TransactionCoordinator::open(env, 4);
    if (!opened) co_return opened.status();
    tc = std::move(*opened);
    co_return Status::ok();
  }
  Task<void> stop() {
    if (tc != nullptr) (void)co_await tc->close();
    tc.reset();
  }
  // A killed process; what it had not written is gone.
  Task<Status> restart() {
    faults->crash_at(0, false);
    co_await stop();
    faults->heal();
    start_stores();
    co_return co_await start();
  }
  Task<std::uint64_t> begin(Millis timeout = Millis{60'000}) {
    auto begun = co_await tc->begin(timeout, "");
    EXPECT_OK(begun);
    co_return begun ? begun->least_bits : ~std::uint64_t{0};
  }
  Task<Status> join_all(std::uint64_t txn) {
    std::vector<std::string> topics{"a", "b"};
    GM_CO_RETURN_IF_ERROR(co_await tc->add_topics(txn, std::move(topics)));
    std::vector<TxnSubscription> subscriptions{{"a", "s"}};
    co_return co_await tc->add_subscriptions(txn, std::move(subscriptions));
  }
  // -1: nobody has heard of it; 0, 1: all were told so; 2: they disagree, or not all know.
  int outcome(std::uint64_t txn) const {
    std::set<int> seen;
    for (const char* who : {"a", "b", "a/s"}) {
      const auto at = participants.outcomes.find({who, txn});
      seen.insert(at == participants.outcomes.end() ? -1 : at->second ? 1 : 0);
    }
    return seen.size() == 1 ? *seen.begin() : 2;
  }

  // Whoever was told of a commit was told with all others.
  bool wholly(std::uint64_t txn) const {
    int commits = 0;
    int aborts = 0;
    for (const char* who : {"a", "b", "a/s"}) {
      const auto at = participants.outcomes.find({who, txn});
      if (at != participants.outcomes.end()) ++(at->second ? commits : aborts);
    }
    return commits == 3 || commits == 0;
  }

  Participants participants;
  std::int64_t max_active = 0;
  std::shared_ptr<TransactionCoordinator> tc;
};

TEST_F(TransactionCoordinatorTest, TellsAllParticipantsHowItEnds) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    const auto one = co_await begin();
    const auto two = co_await begin();
    EXPECT_EQ(one, 0U);
    EXPECT_EQ(two, 1U);
    CO_ASSERT_OK(co_await join_all(one));
    CO_ASSERT_OK(co_await join_all(two));
    EXPECT_EQ(participants.prepared, (std::set<std::string>{"a", "b", "a/s"}));
    EXPECT_EQ(tc->info(one)->status, TxnStatus::Open);
    EXPECT_EQ(tc->info(one)->topics.size(), 2U);
    CO_ASSERT_OK(co_await tc->end(one, true));
    EXPECT_EQ(outcome(one), 1);
    EXPECT_EQ(participants.low_watermark, -1);
    CO_ASSERT_OK(co_await tc->end(two, false));
    EXPECT_EQ(outcome(two), 0);
    EXPECT_EQ(participants.low_watermark, 0);
    EXPECT_EQ((co_await tc->end(two, false)).code(), ErrorCode::TransactionNotFound);
    EXPECT_EQ((co_await tc->end(99, true)).code(), ErrorCode::TransactionNotFound);
    EXPECT_EQ((co_await join_all(one)).code(), ErrorCode::TransactionNotFound);
    EXPECT_EQ(tc->stats().ongoing, 0U);
    EXPECT_EQ(tc->stats().low_watermark, 1);
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, TriesUntilEveryParticipantHasConfirmed) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    const auto txn = co_await begin();
    CO_ASSERT_OK(co_await join_all(txn));
    participants.failures = {{"b", 3}, {"a/s", 1}};
    CO_ASSERT_OK(co_await tc->end(txn, true));
    EXPECT_EQ(outcome(txn), 1);
    EXPECT_EQ(participants.calls, 3 + 3 + 1);  // who has confirmed is not asked again
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, WhileItEndsItCannotBeChanged) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    const auto txn = co_await begin();
    CO_ASSERT_OK(co_await join_all(txn));
    participants.failures = {{"a", 20}};
    Gate gate;
    bool done = false;
    spawn(shard(), gate, [&]() -> Task<void> {
      EXPECT_OK(co_await tc->end(txn, true));
      done = true;
    });
    EXPECT_EQ(tc->info(txn)->status, TxnStatus::Committing);
    EXPECT_EQ((co_await tc->end(txn, false)).code(), ErrorCode::InvalidTxnStatus);
    EXPECT_EQ((co_await join_all(txn)).code(), ErrorCode::InvalidTxnStatus);
    EXPECT_OK(co_await tc->end(txn, true));  // the same again waits for the end
    co_await gate.close();
    EXPECT_TRUE(done);
    EXPECT_EQ(outcome(txn), 1);
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, WhatCannotBePreparedIsNotAdded) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    const auto txn = co_await begin();
    participants.prepare_outcome = Status::NotAllowed("no transactions here");
    EXPECT_EQ((co_await join_all(txn)).code(), ErrorCode::NotAllowed);
    EXPECT_TRUE(tc->info(txn)->topics.empty());
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, AbortsWhatTakesTooLong) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    const auto lasting = co_await begin();
    const auto brief = co_await begin(Millis{30});
    CO_ASSERT_OK(co_await join_all(brief));
    EXPECT_TRUE(co_await eventually([&] { return !tc->info(brief).has_value(); }));
    EXPECT_EQ(outcome(brief), 0);
    EXPECT_TRUE(tc->info(lasting).has_value());
    EXPECT_EQ(tc->stats().timed_out, 1);
    // The deadline counts from the beginning of the transaction, whoever keeps the time.
    const auto restarted = co_await begin(Millis{100});
    CO_ASSERT_OK(co_await restart());
    EXPECT_TRUE(co_await eventually([&] { return !tc->info(restarted).has_value(); }));
    EXPECT_TRUE(tc->info(lasting).has_value());
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, HasALimitOfOpenTransactions) {
  run([this]() -> Task<void> {
    max_active = 2;
    CO_ASSERT_OK(co_await start());
    const auto one = co_await begin();
    co_await begin();
    EXPECT_EQ((co_await tc->begin(Millis{1000}, "")).code(), ErrorCode::TooManyRequests);
    CO_ASSERT_OK(co_await tc->end(one, false));
    co_await begin();
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, NeverGivesAnIdTwice) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    std::uint64_t last = 0;
    for (int i = 0; i < 3; ++i) {
      last = co_await begin();
      CO_ASSERT_OK(co_await tc->end(last, true));
    }
    co_await stop();  // in order: no gap
    CO_ASSERT_OK(co_await start());
    EXPECT_EQ(co_await begin(), last + 1);
    // Its records are forgotten and trimmed; a crash then.
    CO_ASSERT_OK(co_await tc->end(last + 1, true));
    CO_ASSERT_OK(co_await restart());
    EXPECT_GT(co_await begin(), last + 1);
    co_await stop();
  });
}

TEST_F(TransactionCoordinatorTest, GoesOnAfterACrash) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    const auto open = co_await begin();
    CO_ASSERT_OK(co_await join_all(open));
    const auto committing = co_await begin();
    CO_ASSERT_OK(co_await join_all(committing));
    participants.failures = {{"a", 1'000'000}};
    Gate gate;
    spawn(shard(), gate,
          [&]() -> Task<void> { EXPECT_FALSE((co_await tc->end(committing, true)).is_ok()); });
    EXPECT_TRUE(co_await eventually([&] { return participants.calls > 5; }));
    EXPECT_EQ(outcome(committing), 2);
    CO_ASSERT_OK(co_await restart());
    co_await gate.close();
    participants.failures.clear();
    EXPECT_TRUE(co_await eventually([&] { return !tc->info(committing).has_value(); }));
    EXPECT_EQ(outcome(committing), 1);
    EXPECT_EQ(tc->info(open)->topics, (std::set<std::string>{"a", "b"}));
    EXPECT_EQ(tc->info(open)->subscriptions, (std::set<TxnSubscription>{{"a", "s"}}));
    CO_ASSERT_OK(co_await tc->end(open, false));
    EXPECT_EQ(outcome(open), 0);
    co_await stop();
  });
}

// A crash at every step of anything it does: afterwards each transaction has ended in one way
// everywhere, and the way that its client was told.
TEST_F(TransactionCoordinatorTest, EndsEverywhereOrNowhereWhereverItIsCut) {
  run([this]() -> Task<void> {
    bool reached_the_end = false;
    for (int step = 0; step < 400 && !reached_the_end; ++step) {
      for (const bool applied : {false, true}) {
        tree = std::make_shared<testing::MemoryTree>();
        ledgers = std::make_shared<testing::MemoryLedgers>();
        participants.outcomes.clear();
        faults->heal();
        start_stores();
        CO_ASSERT_OK(co_await start());
        std::map<std::uint64_t, bool> confirmed;
        std::set<std::uint64_t> begun;
        faults->crash_at(step, applied);
        for (int i = 0; i < 4; ++i) {
          const auto txn = co_await tc->begin(Millis{60'000}, "");
          if (!txn) break;
          begun.insert(txn->least_bits);
          if (!co_await join_all(txn->least_bits)) break;
          const bool commit = i % 2 == 0;
          if (!co_await tc->end(txn->least_bits, commit)) break;
          confirmed[txn->least_bits] = commit;
        }
        reached_the_end = !faults->crashed();
        co_await stop();
        faults->heal();
        start_stores();
        CO_ASSERT_OK(co_await start());
        for (const std::uint64_t txn : begun) {
          const auto info = tc->info(txn);
          if (info && info->status == TxnStatus::Open) EXPECT_OK(co_await tc->end(txn, false));
          EXPECT_TRUE(co_await eventually([&] { return !tc->info(txn).has_value(); }));
          if (const auto told = confirmed.find(txn); told != confirmed.end()) {
            EXPECT_EQ(outcome(txn), told->second ? 1 : 0) << "step " << step << " txn " << txn;
          } else {
            EXPECT_TRUE(wholly(txn)) << "step " << step << " txn " << txn;
          }
        }
        co_await stop();
        if (HasFailure()) co_return;
      }
    }
    EXPECT_TRUE(reached_the_end);
  });
}

}  // namespace
}  // namespace geminga
