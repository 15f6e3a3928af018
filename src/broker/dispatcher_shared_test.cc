#include "broker/dispatcher_shared.h"

#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

constexpr auto kShared = SubscriptionType::Shared;

TEST(DispatcherShared, SharesOutByTurnsOfAFewMessages) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    auto cb = co_await s.join(kShared, 2, b);
    s.subscription->flow(*ca, 1000);
    s.subscription->flow(*cb, 1000);
    co_await turns();
    s.publish_many(100);
    co_await turns();
    EXPECT_EQ(a->messages.size() + b->messages.size(), 100U);
    EXPECT_EQ(std::min(a->messages.size(), b->messages.size()), 40U);
    for (int i = 0; i < 10; ++i) {  // one by one: one after the other
      s.publish_many(1);
      co_await turns(1);
    }
    EXPECT_EQ(a->messages.size() + b->messages.size(), 110U);
    EXPECT_EQ(std::min(a->messages.size(), b->messages.size()), 45U);
    EXPECT_EQ(s.subscription->stats().unacked_messages, 110);
  });
}

TEST(DispatcherShared, ServesABetterPriorityFirst) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto low = s.request(kShared, 1, a);
    low.priority_level = 1;
    auto ca = co_await s.join(low);
    auto cb = co_await s.join(kShared, 2, b);
    s.subscription->flow(*ca, 30);
    s.subscription->flow(*cb, 30);
    co_await turns();
    s.publish_many(40);
    co_await turns();
    EXPECT_EQ(b->messages.size(), 30U);
    EXPECT_EQ(a->messages.size(), 10U);
  });
}

TEST(DispatcherShared, SendsAgainWhatWasAskedForAndCountsIt) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 4);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    s.publish_many(10);
    co_await turns();
    const auto p = s.ledger.positions();
    const std::vector nacked{p[3], p[7]};
    s.subscription->redeliver(*ca, nacked, -1);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 12U);
    EXPECT_EQ(a->messages[10].position, p[3]);
    EXPECT_EQ(a->messages[10].redelivery_count, 1U);
    EXPECT_EQ(a->messages[11].position, p[7]);
    EXPECT_EQ(ca->pending.messages(), 10);
    EXPECT_EQ(ca->permits(), 88);
    s.ack(*ca, p[3]);
    s.subscription->redeliver(*ca, {}, -1);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 21U);
    for (const auto& message : a->messages) {
      if (message.position == p[7]) {
        EXPECT_LE(message.redelivery_count, 2U);
      }
    }
    EXPECT_EQ(*s.subscription->redeliveries().find(p[7]), 2U);
    EXPECT_EQ(s.subscription->redeliveries().find(p[3]), nullptr);
  });
}

TEST(DispatcherShared, ADisconnectGivesToTheOthersWithoutCounting) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    s.publish_many(10);
    co_await turns();
    auto cb = co_await s.join(kShared, 2, b);
    s.ack(*ca, s.ledger.positions()[4]);
    s.subscription->remove_consumer(ca);
    co_await turns();
    EXPECT_TRUE(b->messages.empty());
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::NoPermits);
    s.subscription->flow(*cb, 100);
    co_await turns();
    EXPECT_EQ(b->messages.size(), 9U);
    for (const auto& message : b->messages) EXPECT_EQ(message.redelivery_count, 0U);
    EXPECT_EQ(s.subscription->stats().unacked_messages, 9);
  });
}

TEST(DispatcherShared, AnAckOfAnotherConsumerCountsForTheHolder) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    s.publish_many(2, {.batch = 5});
    co_await turns();
    auto cb = co_await s.join(kShared, 2, b);
    const auto p = s.ledger.positions();
    s.ack(*cb, p[0]);
    EXPECT_EQ(ca->pending.messages(), 5);
    s.ack(*cb, p[1], {0b00111}, 5);
    EXPECT_EQ(ca->pending.messages(), 3);
    EXPECT_EQ(s.subscription->stats().unacked_messages, 3);
    s.ack_cumulative(*cb, p[1]);  // means nothing here
    EXPECT_EQ(ca->pending.messages(), 3);
    s.ack(*ca, p[1], {0b11000}, 5);
    EXPECT_EQ(s.subscription->stats().unacked_messages, 0);
    EXPECT_EQ(s.subscription->stats().msg_backlog, 0);
  });
}

TEST(DispatcherShared, AnAckTakesAnEntryOutOfTheReplayQueue) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 3);
    s.publish_many(3);
    co_await turns();
    s.subscription->redeliver(*ca, {}, -1);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 3U);  // no permits
    s.ack(*ca, s.ledger.positions()[0]);
    s.subscription->flow(*ca, 10);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 5U);
  });
}

TEST(DispatcherShared, StopsAtTheLimitsOfUnacknowledgedMessages) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.max_unacked_per_consumer = 10;
    config.max_unacked_per_subscription = 15;
    TestSubscription s(shard, config);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.publish_many(100);
    s.subscription->flow(*ca, 1000);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 10U);
    EXPECT_TRUE(s.subscription->stats().consumers[0].blocked_on_unacked);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::UnackedLimit);
    auto cb = co_await s.join(kShared, 2, b);
    s.subscription->flow(*cb, 1000);
    co_await turns();
    EXPECT_EQ(b->messages.size(), 5U);
    EXPECT_TRUE(s.subscription->stats().blocked_on_unacked);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::SubscriptionUnackedLimit);
    s.ack(*ca, a->messages[0].position);
    EXPECT_FALSE(s.subscription->stats().consumers[0].blocked_on_unacked);
    co_await turns();
    EXPECT_EQ(a->messages.size() + b->messages.size(), 16U);
  });
}

TEST(DispatcherShared, FollowsAChangeOfTheLimitsOfUnacknowledgedMessages) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    TestSubscription s(shard, config);
    s.subscription->limit_unacked(10, 0);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.publish_many(100);
    s.subscription->flow(*ca, 1000);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 10U);
    s.subscription->limit_unacked(0, 30);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 30U);
    s.subscription->limit_unacked(0, 0);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 100U);
  });
}

TEST(DispatcherShared, ChunksOfAMessageGoToOneConsumer) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.max_round_robin_batch_size = 1;
    TestSubscription s(shard, config);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    auto cb = co_await s.join(kShared, 2, b);
    s.subscription->flow(*ca, 2);
    s.subscription->flow(*cb, 100);
    co_await turns();
    for (int i = 0; i < 4; ++i) s.ledger.add({.extra = chunk_fields("u1", i, 4)});
    s.publish_many(6);
    co_await turns();
    const auto p = s.ledger.positions();
    auto& holder = a->positions().at(0) == p[0] ? a : b;
    EXPECT_EQ(holder, a);
    EXPECT_EQ(a->positions(), (std::vector{p[0], p[1]}));
    EXPECT_EQ(b->messages.size(), 6U);  // not held up
    s.subscription->flow(*ca, 10);
    co_await turns();
    EXPECT_EQ(a->positions(), (std::vector{p[0], p[1], p[2], p[3]}));
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::NothingToRead);
    // Its holder goes: the whole message goes to the other.
    b->messages.clear();
    s.subscription->remove_consumer(ca);
    co_await turns();
    EXPECT_EQ(b->positions(), (std::vector{p[0], p[1], p[2], p[3]}));
  });
}

TEST(DispatcherShared, HoldsDelayedMessagesUntilTheirTime) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    const std::int64_t due = now_ms() + 60;
    s.publish({.deliver_at = due});
    s.publish({.deliver_at = now_ms() - 1000});
    s.publish_many(2);
    co_await turns();
    const auto p = s.ledger.positions();
    EXPECT_EQ(a->positions(), (std::vector{p[1], p[2], p[3]}));
    EXPECT_EQ(s.subscription->stats().msg_delayed, 1);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::Delayed);
    co_await sleep_for(Millis{90});
    EXPECT_GE(now_ms(), due);
    EXPECT_EQ(a->messages.size(), 4U);
    EXPECT_EQ(a->messages.back().position, p[0]);
    EXPECT_EQ(a->messages.back().redelivery_count, 0U);
  });
}

TEST(DispatcherShared, StopsReadingWhileTheFullIndexCannotBeWritten) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.use_index({.max_buffered = 2, .retry_ms = 20});
    s.topic.stores.set_writable(false);
    const std::int64_t due = now_ms() + 150;
    for (int i = 0; i < 6; ++i) s.ledger.add({.deliver_at = due});
    s.ledger.add({});
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::DelayedIndexFull);
    EXPECT_EQ(s.topic.delayed_index()->size(), 4);
    s.topic.stores.set_writable(true);
    co_await sleep_for(Millis{80});
    EXPECT_EQ(a->messages.size(), 1U);
    EXPECT_EQ(s.topic.delayed_index()->size(), 6);
    EXPECT_GE(s.topic.delayed_index()->runs(), 1U);
    EXPECT_EQ(s.subscription->stats().msg_delayed, 6);
    co_await sleep_for(Millis{130});
    EXPECT_EQ(a->messages.size(), 7U);
    s.subscription->remove_consumer(ca);
    co_await s.topic.delayed_index()->close();
  });
}

TEST(DispatcherShared, DelayedMessagesComeInOrderOfDueTimeAndOnceOnly) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 50);
    s.use_index({.max_buffered = 30});
    std::mt19937_64 random(5);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100'000);
    std::map<Position, std::int64_t> due;
    const std::int64_t begin = now_ms();
    for (int i = 0; i < 400; ++i) {
      const std::int64_t at = begin + 50 + static_cast<std::int64_t>(random() % 200);
      const Position p = s.ledger.add({.deliver_at = at});
      due[p] = at;
      if (i % 3 == 0) s.ledger.add({});
      s.subscription->entries_available();
      if (i % 40 == 0) co_await turns();
    }
    const std::size_t all = s.ledger.positions().size();
    std::map<Position, int> seen;
    std::size_t looked_at = 0;
    while (now_ms() < begin + 3000 && s.cursor->backlog_entries() > 0) {
      co_await sleep_for(Millis{1});
      const std::int64_t now = now_ms();
      for (; looked_at < a->messages.size(); ++looked_at) {
        const Position p = a->messages[looked_at].position;
        ++seen[p];
        EXPECT_GE(now, due.contains(p) ? due[p] : 0);
        // Some are acknowledged, some rejected once.
        if (looked_at % 7 == 0 && a->messages[looked_at].redelivery_count == 0) {
          const std::vector<Position> rejected(1, p);
          s.subscription->redeliver(*ca, rejected, -1);
          --seen[p];
        } else {
          s.ack(*ca, p);
        }
      }
    }
    EXPECT_EQ(seen.size(), all);
    for (const auto& [p, times] : seen) EXPECT_EQ(times, 1) << p.to_string();
    EXPECT_EQ(s.cursor->backlog_entries(), 0);
    EXPECT_EQ(s.subscription->stats().unacked_messages, 0);
    // Nobody is connected for a while: what is overdue comes at once, the earliest first.
    s.subscription->remove_consumer(ca);
    a->messages.clear();
    const std::int64_t later = now_ms();
    for (int i = 0; i < 10; ++i) {
      const Position p = s.ledger.add({.deliver_at = later + 40 - i});
      EXPECT_EQ(s.topic.hold_if_early(later + 40 - i, p), Topic::Hold::Held);
    }
    co_await sleep_for(Millis{80});
    ca = co_await s.join(kShared, 2, a);
    s.subscription->flow(*ca, 100);
    co_await turns(6);
    EXPECT_EQ(a->messages.size(), 10U);
    for (std::size_t i = 1; i < a->messages.size(); ++i)
      EXPECT_GT(a->messages[i - 1].position, a->messages[i].position);
    s.subscription->remove_consumer(ca);
    co_await s.topic.delayed_index()->close();
  });
}

TEST(DispatcherShared, WhatALostIndexHeldIsReadFromTheLogAgain) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    for (int i = 0; i < 10; ++i) {
      s.ledger.add({.deliver_at = i % 2 == 0 ? now_ms() + 60'000 : 0});
    }
    s.subscription->entries_available();
    co_await turns();
    EXPECT_EQ(a->messages.size(), 5U);
    const std::vector<Position> rejected(1, a->messages[1].position);
    s.subscription->redeliver(*ca, rejected, -1);
    s.ack(*ca, a->messages[0].position);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 6U);
    // Lost: held again, and nothing that is out comes twice.
    s.topic.delayed_index()->clear();
    EXPECT_TRUE(s.topic.delayed_index()->empty());
    co_await turns(6);
    EXPECT_EQ(a->messages.size(), 6U);
    EXPECT_EQ(s.topic.delayed_index()->size(), 5);
    s.subscription->remove_consumer(ca);
    co_await s.topic.delayed_index()->close();
  });
}

TEST(DispatcherShared, TheTypeMayChangeWhenNobodyIsConnected) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(5);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    s.ack(*ca, s.ledger.positions()[2]);
    s.subscription->remove_consumer(ca);
    auto b = std::make_shared<TestOutbox>();
    auto cb = co_await s.join(SubscriptionType::Exclusive, 1, b);
    s.subscription->flow(*cb, 100);
    co_await turns();
    const auto p = s.ledger.positions();
    EXPECT_EQ(b->positions(), (std::vector{p[0], p[1], p[3], p[4]}));
    EXPECT_EQ(s.subscription->type(), SubscriptionType::Exclusive);
  });
}

TEST(DispatcherShared, AChunkWithoutItsHeadIsPassedOver) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    for (int i = 0; i < 3; ++i) s.ledger.add({.extra = chunk_fields("u", i, 3)});
    s.ledger.add({});
    const auto p = s.ledger.positions();
    s.cursor->ack_cumulative(p[0]);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(SubscriptionType::Shared, 1, a);
    s.subscription->flow(*ca, 10);
    co_await turns();
    EXPECT_EQ(a->positions(), std::vector{p[3]});
    EXPECT_EQ(s.cursor->backlog_entries(), 1);
    EXPECT_EQ(s.subscription->counters().headless_chunks, 2);
  });
}

TEST(DispatcherShared, AChunkWhoseHeadWaitsToBeSentAgainIsKept) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    for (int i = 0; i < 2; ++i) s.ledger.add({.extra = chunk_fields("u", i, 3)});
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(SubscriptionType::Shared, 1, a);
    auto cb = co_await s.join(SubscriptionType::Shared, 2, b);
    s.subscription->flow(*ca, 10);
    co_await turns();
    EXPECT_EQ(a->messages.size(), 2U);
    // The heads are read again from disk, the last chunk is in memory.
    s.ledger.cold_percent = 100;
    s.subscription->remove_consumer(ca);
    s.subscription->flow(*cb, 10);
    s.publish({.extra = chunk_fields("u", 2, 3)});
    s.ledger.cold_percent = 0;
    co_await turns(20);
    EXPECT_EQ(b->messages.size(), 3U);
    EXPECT_EQ(s.cursor->backlog_entries(), 3);
    EXPECT_EQ(s.subscription->counters().headless_chunks, 0);
    // The client gives only the last one back: it comes again.
    s.subscription->redeliver(*cb, std::vector{s.ledger.positions()[2]}, -1);
    co_await turns();
    EXPECT_EQ(b->messages.size(), 4U);
    EXPECT_EQ(s.cursor->backlog_entries(), 3);
  });
}

}  // namespace
}  // namespace geminga
