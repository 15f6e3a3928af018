#include "broker/persistent_subscription.h"

#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

using Events = std::vector<std::string>;
constexpr auto kExclusive = SubscriptionType::Exclusive;
constexpr auto kShared = SubscriptionType::Shared;

TEST(PersistentSubscription, SeekClosesTheConsumersThenResets) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 3);
    s.publish_many(10);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kExclusive, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    const auto p = s.ledger.positions();
    s.ack_cumulative(*ca, p[8]);
    EXPECT_TRUE((co_await s.subscription->seek(p[4], {})).is_ok());
    EXPECT_EQ(a->events, Events{"close 1"});
    EXPECT_FALSE(ca->attached());
    EXPECT_TRUE(a->listeners.empty());
    s.subscription->flow(*ca, 100);  // the session may still have it
    s.ack(*ca, p[4]);
    s.subscription->remove_consumer(ca);
    EXPECT_EQ(s.subscription->stats().msg_backlog, 6);
    auto b = std::make_shared<TestOutbox>();
    auto cb = co_await s.join(kExclusive, 1, b);
    EXPECT_EQ(cb->permits(), 0);
    s.subscription->flow(*cb, 100);
    co_await turns();
    EXPECT_EQ(b->positions(), std::vector(p.begin() + 4, p.end()));
    EXPECT_TRUE((co_await s.subscription->seek(Position::latest(), {})).is_ok());
    EXPECT_EQ(s.subscription->stats().msg_backlog, 0);
    EXPECT_TRUE((co_await s.subscription->seek(Position::earliest(), {})).is_ok());
    EXPECT_EQ(s.subscription->stats().msg_backlog, 10);
  });
}

TEST(PersistentSubscription, SeekIntoABatchTakesTheClearedBitsAsAcknowledged) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(2, {.batch = 4});
    const auto p = s.ledger.positions();
    AckSet left(1, 0b1100);
    EXPECT_TRUE((co_await s.subscription->seek(p[0], std::move(left))).is_ok());
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kExclusive, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    EXPECT_EQ(a->positions(), p);
    EXPECT_EQ(a->messages[0].ack_set, AckSet{0b1100});
    EXPECT_EQ(ca->permits(), 94);
  });
}

TEST(PersistentSubscription, SeekByTimeFindsTheFirstSoLate) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 3);
    for (int i = 0; i < 10; ++i) s.publish({.publish_time = 1000 + i * 10});
    const auto p = s.ledger.positions();
    EXPECT_TRUE((co_await s.subscription->seek_to_time(1045)).is_ok());
    EXPECT_EQ(s.cursor->first_unacked(), p[5]);
    EXPECT_TRUE((co_await s.subscription->seek_to_time(0)).is_ok());
    EXPECT_EQ(s.cursor->first_unacked(), p[0]);
    EXPECT_TRUE((co_await s.subscription->seek_to_time(1'000'000)).is_ok());
    EXPECT_EQ(s.subscription->stats().msg_backlog, 0);
  });
}

TEST(PersistentSubscription, ASubscribeDuringASeekWaitsForIt) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(5);
    Gate gate;
    bool over = false;
    spawn(shard, gate, [&]() -> Task<void> {
      EXPECT_TRUE((co_await s.subscription->seek(s.ledger.positions()[3], {})).is_ok());
      over = true;
    });
    co_await sleep_for(Millis{0});
    EXPECT_FALSE(over);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::Stopped);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kExclusive, 1, a);
    s.subscription->flow(*ca, 10);
    co_await turns();
    EXPECT_TRUE(over);
    EXPECT_EQ(a->messages.size(), 2U);
    co_await gate.close();
  });
}

TEST(PersistentSubscription, AFailedSeekSaysSoAndLetsConsumersIn) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(5);
    s.cursor->reset_error = Status::Io("no disk");
    EXPECT_EQ((co_await s.subscription->seek(Position::earliest(), {})).code(), ErrorCode::Io);
    auto a = std::make_shared<TestOutbox>();
    co_await s.join(kExclusive, 1, a);
    EXPECT_EQ(s.subscription->consumer_count(), 1U);
  });
}

TEST(PersistentSubscription, ANonDurableOneGoesWithItsLastConsumer) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.durable = false;
    s.open();
    s.publish_many(3);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kExclusive, 1, a);
    EXPECT_TRUE((co_await s.subscription->seek(Position::earliest(), {})).is_ok());
    EXPECT_TRUE(s.topic.dropped.empty());  // the reader comes back
    auto again = co_await s.join(kExclusive, 1, a);
    s.subscription->remove_consumer(again);
    EXPECT_EQ(s.topic.dropped, Events{"s"});
  });
}

TEST(PersistentSubscription, UnsubscribeNeedsToBeAloneOrForced) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    auto cb = co_await s.join(kShared, 2, b);
    const Status refused = co_await s.subscription->prepare_unsubscribe(ca, false);
    EXPECT_EQ(refused.code(), ErrorCode::Metadata);
    EXPECT_EQ(refused.message(), "Unconnected or shared consumer attempting to unsubscribe");
    EXPECT_EQ(s.subscription->consumer_count(), 2U);
    EXPECT_TRUE((co_await s.subscription->prepare_unsubscribe(ca, true)).is_ok());
    EXPECT_TRUE(a->events.empty());
    EXPECT_EQ(b->events, Events{"close 2"});
    auto late = co_await s.subscription->add_consumer(s.request(kShared, 3, a));
    EXPECT_EQ(late.code(), ErrorCode::ServiceNotReady);
    co_await s.subscription->close(true);
  });
}

TEST(PersistentSubscription, CloseWaitsForReadsAndClosesConsumers) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.ledger.cold_percent = 100;
    s.publish_many(10);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 10);
    co_await turns(1);
    EXPECT_EQ(s.ledger.reads_in_flight, 1);
    co_await s.subscription->close(false);
    EXPECT_EQ(s.ledger.reads_in_flight, 0);
    EXPECT_EQ(a->events, Events{"close 1"});
    EXPECT_TRUE(a->messages.empty());
    EXPECT_EQ((co_await s.subscription->seek(Position::earliest(), {})).code(),
              ErrorCode::ServiceNotReady);
  });
}

TEST(PersistentSubscription, SkipAndExpireMoveTheMarkDelete) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 4);
    for (int i = 0; i < 10; ++i) s.publish({.publish_time = i < 6 ? now_ms() - 60'000 : now_ms()});
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 4);
    co_await turns();
    const auto p = s.ledger.positions();
    s.ack(*ca, p[1]);
    EXPECT_EQ(ca->pending.messages(), 3);
    EXPECT_TRUE((co_await s.subscription->skip(2)).is_ok());  // 0 and 2; 1 is done
    EXPECT_EQ(s.cursor->first_unacked(), p[3]);
    EXPECT_EQ(ca->pending.messages(), 1);
    EXPECT_TRUE((co_await s.subscription->expire(30)).is_ok());
    EXPECT_EQ(s.cursor->first_unacked(), p[6]);
    EXPECT_EQ(ca->pending.messages(), 0);
    s.subscription->flow(*ca, 1);
    co_await turns();
    EXPECT_EQ(a->messages.back().position, p[6]);
    EXPECT_TRUE((co_await s.subscription->skip_all()).is_ok());
    EXPECT_EQ(s.subscription->stats().msg_backlog, 0);
    EXPECT_EQ(s.subscription->stats().unacked_messages, 0);
  });
}

TEST(PersistentSubscription, RefusesMoreConsumersThanAllowed) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.max_consumers_per_subscription = 1;
    TestSubscription s(shard, config);
    auto a = std::make_shared<TestOutbox>();
    co_await s.join(kShared, 1, a);
    auto refused = co_await s.subscription->add_consumer(s.request(kShared, 2, a));
    EXPECT_EQ(refused.code(), ErrorCode::ConsumerBusy);
    EXPECT_EQ(refused.status().message(), "Subscription reached max consumers limit");
  });
}

TEST(PersistentSubscription, WithoutBatchIndexAcksAnEntryIsWholeOrNot) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.batch_index_ack = false;
    TestSubscription s(shard, config);
    s.publish_many(1, {.batch = 4});
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    const Position p = s.ledger.positions()[0];
    s.ack(*ca, p, {0b0001}, 4);
    EXPECT_EQ(s.subscription->stats().messages_backlog, 4);
    s.subscription->redeliver(*ca, {}, -1);
    co_await turns();
    EXPECT_TRUE(a->messages.at(1).ack_set.empty());
    s.ack(*ca, p);
    EXPECT_EQ(s.subscription->stats().messages_backlog, 0);
  });
}

TEST(PersistentSubscription, ShowsWhatHappened) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.watch_interval = Millis{20};
    TestSubscription s(shard, config);
    s.publish_many(10, {.batch = 3});
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await s.join(kShared, 1, a);
    s.subscription->flow(*ca, 100);
    co_await turns();
    s.ack(*ca, s.ledger.positions()[0]);
    co_await sleep_for(Millis{30});
    const auto stats = s.subscription->stats();
    EXPECT_EQ(stats.msg_out, 30);
    EXPECT_GT(stats.msg_rate_out, 0);
    EXPECT_GT(stats.message_ack_rate, 0);
    EXPECT_EQ(stats.messages_backlog, 27);
    EXPECT_EQ(stats.unacked_messages, 27);
    EXPECT_EQ(stats.consumers.at(0).avg_messages_per_entry, 3);
    EXPECT_EQ(stats.consumers[0].available_permits, 70);
    EXPECT_GT(stats.last_acked_ms, 0);
    EXPECT_EQ(stats.consumers[0].connected_since.back(), 'Z');
    s.subscription->remove_consumer(ca);
    co_await sleep_for(Millis{60});
    EXPECT_EQ(s.subscription->stats().msg_rate_out, 0);
    EXPECT_EQ(s.subscription->stats().msg_out, 30);
  });
}

// Nobody told the subscription of new entries: the watchdog finds that it could go on, counts it
// and goes on.
TEST(PersistentSubscription, TheWatchdogFindsAndRepairsAStall) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.watch_interval = Millis{20};
    for (const auto type : {kExclusive, kShared, SubscriptionType::KeyShared}) {
      TestSubscription s(shard, config);
      auto a = std::make_shared<TestOutbox>();
      auto ca = co_await s.join(type, 1, a);
      s.subscription->flow(*ca, 10);
      co_await turns();
      s.ledger.add(EntrySpec{});
      EXPECT_EQ(s.subscription->why_waiting(), WaitReason::None);
      co_await sleep_for(Millis{40});
      EXPECT_EQ(a->messages.size(), 1U);
      EXPECT_EQ(s.subscription->counters().stalls, 1);
      co_await s.subscription->close(false);
    }
  });
}

}  // namespace
}  // namespace geminga
