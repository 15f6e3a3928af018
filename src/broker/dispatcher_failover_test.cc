#include "broker/dispatcher_failover.h"

#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

constexpr auto kFailover = SubscriptionType::Failover;
using Events = std::vector<std::string>;

DispatcherConfig quick() {
  DispatcherConfig config;
  config.failover_delay = Millis{30};
  return config;
}

// What Pulsar 4.0.7 chose.
TEST(DispatcherFailover, ATopicWithoutPartitionsChoosesByHash) {
  const std::vector<std::string_view> names{"one", "three", "two"};
  EXPECT_EQ(names[failover_ring_choice("persistent://public/default/f1", names)], "one");
  EXPECT_EQ(names[failover_ring_choice("persistent://public/default/f2", names)], "three");
  EXPECT_EQ(names[failover_ring_choice("persistent://public/default/f3", names)], "two");
}

TEST(DispatcherFailover, TheFirstConsumerStartsAfterTheDelay) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, quick());
    s.publish_many(5);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kFailover, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    EXPECT_TRUE(a->messages.empty());
    EXPECT_TRUE(a->events.empty());
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::FailoverDelay);
    co_await sleep_for(Millis{60});
    EXPECT_EQ(a->events, Events{"active 1"});
    EXPECT_EQ(a->positions(), s.ledger.positions());
    EXPECT_EQ(s.subscription->stats().active_consumer_name, "c1");
  });
}

TEST(DispatcherFailover, PartitionsChooseByNumberAmongTheBestPriority) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, quick(), 100, "persistent://t/ns/x-partition-4");
    s.publish_many(4);
    std::vector<std::shared_ptr<TestOutbox>> out;
    std::vector<std::shared_ptr<Consumer>> consumers;
    for (std::uint64_t i = 0; i < 4; ++i) {
      out.push_back(std::make_shared<TestOutbox>(i));
      auto request =
          s.request(kFailover, i, out.back(), std::string(1, static_cast<char>('d' - i)));
      request.priority_level = i == 3 ? 1 : 0;  // "a" is the best name and the worst priority
      consumers.push_back(co_await s.join(request));
    }
    co_await sleep_for(Millis{60});
    // Candidates by name: b, c, d. 4 % 3 = 1.
    EXPECT_EQ(out[1]->events, Events{"active 1"});
    EXPECT_EQ(out[0]->events, Events{"inactive 0"});
    EXPECT_EQ(out[2]->events, Events{"inactive 2"});
    EXPECT_EQ(out[3]->events.front(), "inactive 3");
    for (auto& consumer : consumers) s.subscription->flow(*consumer, 100);
    co_await turns();
    EXPECT_EQ(out[1]->messages.size(), 4U);
    EXPECT_EQ(out[1]->messages[0].partition, 4);
    s.ack_cumulative(*consumers[1], out[1]->messages[1].position);
    // The active one goes: b and d are left, 4 % 2 = 0, b goes on from the first unacknowledged.
    s.subscription->remove_consumer(consumers[1]);
    co_await turns();
    EXPECT_TRUE(out[2]->messages.empty());
    co_await sleep_for(Millis{60});
    EXPECT_EQ(out[2]->events.back(), "active 2");
    EXPECT_EQ(out[2]->messages.size(), 2U);
    EXPECT_EQ(out[2]->messages[0].position, s.ledger.positions()[2]);
    EXPECT_EQ(out[2]->messages[0].redelivery_count, 0U);
    EXPECT_TRUE(out[0]->messages.empty());
    EXPECT_TRUE(out[3]->messages.empty());
  });
}

TEST(DispatcherFailover, AWaitingConsumerIsToldAtOnceAndItsRedeliverMovesNothing) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, quick(), 100, "persistent://t/ns/x-partition-0");
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kFailover, 1, a, "a");
    co_await sleep_for(Millis{60});
    auto cb = co_await s.join(kFailover, 2, b, "b");
    co_await turns();
    EXPECT_EQ(b->events, Events{"inactive 2"});
    EXPECT_EQ(a->events, Events{"active 1"});
    s.subscription->flow(*ca, 100);
    s.publish_many(3);
    co_await turns();
    s.subscription->redeliver(*cb, {}, 7);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 3U);
    EXPECT_EQ(cb->epoch(), 7);
    s.subscription->remove_consumer(ca);
    s.subscription->flow(*cb, 100);
    co_await sleep_for(Millis{60});
    EXPECT_EQ(b->messages.size(), 3U);
    EXPECT_EQ(b->messages[0].epoch, 7);
  });
}

TEST(DispatcherFailover, AcksThatArriveDuringTheChangeCount) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, quick(), 100, "persistent://t/ns/x-partition-0");
    auto b = std::make_shared<TestOutbox>();
    auto cb = co_await s.join(kFailover, 2, b, "b");
    co_await sleep_for(Millis{60});
    s.subscription->flow(*cb, 100);
    s.publish_many(6);
    co_await turns();
    EXPECT_EQ(b->messages.size(), 6U);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kFailover, 1, a, "a");  // takes over
    s.subscription->flow(*ca, 100);
    s.ack_cumulative(*cb, s.ledger.positions()[3]);
    co_await sleep_for(Millis{60});
    EXPECT_EQ(a->messages.size(), 2U);
    EXPECT_EQ(b->events, (Events{"active 2", "inactive 2"}));
    EXPECT_EQ(a->events, Events{"active 1"});
    s.subscription->remove_consumer(ca);
    s.subscription->remove_consumer(cb);
    co_await sleep_for(Millis{60});
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::NoConsumer);
  });
}

}  // namespace
}  // namespace geminga
