#include "broker/dispatcher_key_shared.h"

#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

constexpr auto kKeyShared = SubscriptionType::KeyShared;

// Some keys of each consumer, and the positions of each in the log.
struct Keys {
  // Publishes `rounds` messages of each of `n` keys.
  Keys(TestSubscription& s, int n, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < n; ++i) {
        const std::string key = "key-" + std::to_string(i);
        by_key[key].push_back(s.ledger.add({.key = key}));
        key_of[by_key[key].back()] = key;
      }
    }
    s.subscription->entries_available();
  }
  std::map<std::string, std::vector<Position>> by_key;
  std::map<Position, std::string> key_of;
};

TEST(DispatcherKeyShared, AKeyGoesToOneConsumerInOrder) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    auto cb = co_await s.join(kKeyShared, 2, b);
    s.subscription->flow(*ca, 1000);
    s.subscription->flow(*cb, 1000);
    Keys keys(s, 20, 5);
    co_await turns();
    EXPECT_EQ(a->messages.size() + b->messages.size(), 100U);
    EXPECT_GT(std::min(a->messages.size(), b->messages.size()), 10U);
    std::map<std::string, std::vector<Position>> got;
    for (auto& outbox : {a, b}) {
      std::set<std::string> mine;
      for (const Position p : outbox->positions()) {
        got[keys.key_of[p]].push_back(p);
        mine.insert(keys.key_of[p]);
      }
      EXPECT_EQ(outbox->messages.size(), mine.size() * 5);
    }
    EXPECT_EQ(got, keys.by_key);
    const auto stats = s.subscription->stats();
    EXPECT_EQ(stats.key_shared_mode, "AUTO_SPLIT");
    EXPECT_FALSE(stats.consumers[0].key_hash_ranges.empty());
  });
}

TEST(DispatcherKeyShared, ASlowConsumerHoldsUpOnlyItsOwnKeys) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    auto cb = co_await s.join(kKeyShared, 2, b);
    s.subscription->flow(*ca, 1);
    s.subscription->flow(*cb, 1000);
    Keys keys(s, 20, 5);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 1U);
    const std::size_t of_b = b->messages.size();
    EXPECT_GT(of_b, 10U);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::KeysInUse);
    s.subscription->flow(*ca, 3);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 4U);
    s.subscription->flow(*ca, 1000);
    co_await turns();
    EXPECT_EQ(a->messages.size() + b->messages.size(), 100U);
    EXPECT_EQ(b->messages.size(), of_b);
    const auto seen = a->positions();
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::NothingToRead);
  });
}

TEST(DispatcherKeyShared, LookAheadIsBounded) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.look_ahead_per_consumer = 5;
    TestSubscription s(shard, config);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    auto cb = co_await s.join(kKeyShared, 2, b);
    s.subscription->flow(*cb, 10'000);
    Keys keys(s, 20, 50);
    co_await turns();
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::LookAheadFull);
    EXPECT_EQ(ca->parked.size(), 10U);
    s.subscription->flow(*ca, 10'000);
    co_await turns(20);
    EXPECT_EQ(a->messages.size() + b->messages.size(), 1000U);
  });
}

TEST(DispatcherKeyShared, AMovedKeyWaitsUntilItsLastHolderIsDone) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    s.subscription->flow(*ca, 1000);
    Keys first(s, 20, 1);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 20U);
    auto b = std::make_shared<TestOutbox>();
    auto cb = co_await s.join(kKeyShared, 2, b);
    s.subscription->flow(*cb, 1000);
    Keys second(s, 20, 1);
    co_await turns();
    // Those that are a's still; of the moved ones nothing.
    EXPECT_TRUE(b->messages.empty());
    EXPECT_EQ(a->messages.size() + cb->parked.size(), 40U);
    EXPECT_GT(cb->parked.size(), 3U);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::KeysInUse);
    EXPECT_EQ(s.subscription->stats().draining_hashes,
              static_cast<std::int64_t>(cb->parked.size()));
    EXPECT_EQ(s.subscription->stats().msg_in_replay, static_cast<std::int64_t>(cb->parked.size()));
    // One moved key is acknowledged: it, and only it, flows.
    const Position waiting = cb->parked.first()->position;
    const std::string key = second.key_of[waiting];
    s.ack(*ca, first.by_key[key][0]);
    co_await turns();
    EXPECT_EQ(b->positions(), std::vector{waiting});
    // a leaves: everything it held goes to b, in order a key.
    s.subscription->remove_consumer(ca);
    co_await turns();
    std::map<std::string, std::vector<Position>> got;
    for (const Position p : b->positions()) {
      got[first.key_of.contains(p) ? first.key_of[p] : second.key_of[p]].push_back(p);
    }
    for (auto& [k, positions] : got) {
      EXPECT_EQ(positions.size(), k == key ? 1U : 2U);
      EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    }
    EXPECT_EQ(got.size(), 20U);
  });
}

TEST(DispatcherKeyShared, AKeyThatMovesBackIsNotBlocked) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    s.subscription->flow(*ca, 1000);
    Keys first(s, 20, 1);
    co_await turns();
    auto b = std::make_shared<TestOutbox>();
    auto cb = co_await s.join(kKeyShared, 2, b);
    Keys second(s, 20, 1);
    co_await turns();
    EXPECT_LT(a->messages.size(), 40U);
    s.subscription->remove_consumer(cb);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 40U);
  });
}

TEST(DispatcherKeyShared, ANackedMessageIsSentAgainToTheOwner) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    auto cb = co_await s.join(kKeyShared, 2, b);
    s.subscription->flow(*ca, 1000);
    s.subscription->flow(*cb, 1000);
    Keys keys(s, 10, 2);
    co_await turns();
    const Position nacked = a->messages[0].position;
    s.subscription->redeliver(*ca, std::vector{nacked}, -1);
    co_await turns();
    EXPECT_EQ(a->messages.back().position, nacked);
    EXPECT_EQ(a->messages.back().redelivery_count, 1U);
    EXPECT_EQ(a->messages.size() + b->messages.size(), 21U);
  });
}

TEST(DispatcherKeyShared, StickyRangesWaitForAnOwner) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    const auto sticky = [&](std::uint64_t id, std::shared_ptr<TestOutbox> outbox, HashRange range) {
      auto request = s.request(kKeyShared, id, std::move(outbox));
      KeySharedOptions options;
      options.mode = KeySharedMode::Sticky;
      options.ranges.push_back(range);
      request.key_shared = options;
      return request;
    };
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(sticky(1, a, {0, 32767}));
    s.subscription->flow(*ca, 1000);
    Keys keys(s, 20, 2);
    co_await turns();
    const std::size_t of_a = a->messages.size();
    EXPECT_GT(of_a, 0U);
    EXPECT_LT(of_a, 40U);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::KeysInUse);
    auto conflict = co_await s.subscription->add_consumer(sticky(2, b, {32767, 40000}));
    EXPECT_EQ(conflict.code(), ErrorCode::ConsumerAssign);
    EXPECT_EQ(s.subscription->consumer_count(), 1U);
    EXPECT_TRUE(b->listeners.empty());
    auto other_mode = co_await s.subscription->add_consumer(s.request(kKeyShared, 2, b));
    EXPECT_EQ(other_mode.code(), ErrorCode::ConsumerBusy);
    auto cb = co_await s.join(sticky(2, b, {32768, 65535}));
    s.subscription->flow(*cb, 1000);
    co_await turns();
    EXPECT_EQ(a->messages.size(), of_a);
    EXPECT_EQ(b->messages.size(), 40 - of_a);
    EXPECT_EQ(s.subscription->stats().key_shared_mode, "STICKY");
    // One leaves: its entries wait for the next owner.
    s.subscription->remove_consumer(ca);
    co_await turns();
    auto c = std::make_shared<TestOutbox>();
    auto cc = co_await s.join(sticky(3, c, {0, 32767}));
    s.subscription->flow(*cc, 1000);
    co_await turns();
    EXPECT_EQ(c->messages.size(), of_a);
  });
}

TEST(DispatcherKeyShared, OutOfOrderDeliveryDoesNotWait) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    const auto loose = [&](std::uint64_t id, std::shared_ptr<TestOutbox> outbox) {
      auto request = s.request(kKeyShared, id, std::move(outbox));
      KeySharedOptions options;
      options.allow_out_of_order = true;
      request.key_shared = options;
      return request;
    };
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(loose(1, a));
    s.subscription->flow(*ca, 1000);
    Keys first(s, 20, 1);
    co_await turns();
    auto cb = co_await s.join(loose(2, b));
    s.subscription->flow(*cb, 1000);
    Keys second(s, 20, 1);
    co_await turns();
    EXPECT_GT(b->messages.size(), 3U);
    EXPECT_EQ(a->messages.size() + b->messages.size(), 40U);
    EXPECT_TRUE(s.subscription->stats().allow_out_of_order);
  });
}

TEST(DispatcherKeyShared, ChunksStayTogetherWhenTheirKeyMoves) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    s.subscription->flow(*ca, 1000);
    std::map<std::string, std::size_t> sent;
    for (int k = 0; k < 10; ++k) {
      const std::string key = "key-" + std::to_string(k);
      s.ledger.add({.key = key, .extra = chunk_fields("u" + key, 0, 2)});
    }
    s.subscription->entries_available();
    co_await turns();
    auto b = std::make_shared<TestOutbox>();
    auto cb = co_await s.join(kKeyShared, 2, b);
    s.subscription->flow(*cb, 1000);
    for (int k = 0; k < 10; ++k) {
      const std::string key = "key-" + std::to_string(k);
      s.ledger.add({.key = key, .extra = chunk_fields("u" + key, 1, 2)});
    }
    s.subscription->entries_available();
    co_await turns();
    EXPECT_EQ(a->messages.size(), 20U);
    EXPECT_TRUE(b->messages.empty());
  });
}

TEST(DispatcherKeyShared, DelayedMessagesBlockNoKey) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kKeyShared, 1, a);
    s.subscription->flow(*ca, 1000);
    s.publish({.key = "k", .deliver_at = now_ms() + 40});
    s.publish({.key = "k"});
    co_await turns();
    const auto p = s.ledger.positions();
    EXPECT_EQ(a->positions(), std::vector{p[1]});
    co_await sleep_for(Millis{80});
    EXPECT_EQ(a->positions(), (std::vector{p[1], p[0]}));
  });
}

}  // namespace
}  // namespace geminga
