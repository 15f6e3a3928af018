#include "broker/dispatcher_exclusive.h"

#include "broker/key_shared_selector.h"
#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

constexpr auto kExclusive = SubscriptionType::Exclusive;

TEST(DispatcherExclusive, DeliversWhatThereArePermitsForInOrder) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 4);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.publish_many(10);
    co_await turns();
    EXPECT_TRUE(outbox->messages.empty());
    s.subscription->flow(*consumer, 6);
    co_await turns();
    EXPECT_EQ(outbox->messages.size(), 6U);
    EXPECT_EQ(consumer->permits(), 0);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::NoPermits);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    EXPECT_EQ(outbox->positions(), s.ledger.positions());
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::NothingToRead);
    s.publish_many(3);
    co_await turns();
    EXPECT_EQ(outbox->positions(), s.ledger.positions());
    EXPECT_EQ(outbox->messages[0].epoch, -1);
    EXPECT_EQ(outbox->messages[0].partition, -1);
  });
}

TEST(DispatcherExclusive, ReadsFromDiskWhatIsNotInMemory) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 30);
    s.ledger.cold_percent = 100;
    s.publish_many(500);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 1000);
    for (int i = 0; i < 100 && outbox->messages.size() < 500; ++i) co_await turns();
    EXPECT_EQ(outbox->positions(), s.ledger.positions());
    EXPECT_EQ(s.ledger.reads_done, 5);
  });
}

TEST(DispatcherExclusive, ABatchCostsItsMessagesAndIsSentWhole) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(3, {.batch = 10});
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 1);
    co_await turns();
    EXPECT_EQ(outbox->messages.size(), 1U);
    EXPECT_EQ(consumer->permits(), -9);
    s.subscription->flow(*consumer, 10);
    co_await turns();
    EXPECT_EQ(outbox->messages.size(), 2U);
    EXPECT_EQ(consumer->permits(), -9);
    EXPECT_EQ(s.subscription->stats().msg_out, 20);
  });
}

TEST(DispatcherExclusive, TellsWhatIsLeftOfABatchAndChargesOnlyThat) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(1, {.batch = 10});
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    const Position p = s.ledger.positions()[0];
    s.ack(*consumer, p, {0b1111110110}, 10);  // 0 and 3 are done
    s.subscription->redeliver(*consumer, {}, -1);
    co_await turns();
    EXPECT_EQ(outbox->messages.size(), 2U);
    EXPECT_EQ(outbox->messages[1].ack_set, AckSet{1014});
    EXPECT_EQ(outbox->messages[1].redelivery_count, 0U);
    EXPECT_EQ(consumer->permits(), 100 - 10 - 8);
    EXPECT_EQ(s.subscription->stats().messages_backlog, 8);
    s.ack(*consumer, p, {0b0000000110}, 10);
    EXPECT_EQ(s.subscription->stats().messages_backlog, 2);
    s.ack(*consumer, p, {0b1111111001}, 10);
    EXPECT_EQ(s.subscription->stats().msg_backlog, 0);
  });
}

TEST(DispatcherExclusive, CumulativeAckInTheMiddleOfABatchKeepsTheRest) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(3, {.batch = 10});
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    const auto positions = s.ledger.positions();
    s.ack_cumulative(*consumer, positions[1], {0b1111100000}, 10);
    EXPECT_EQ(s.subscription->stats().messages_backlog, 15);
    s.subscription->remove_consumer(consumer);
    auto again = std::make_shared<TestOutbox>();
    auto next = co_await s.join(kExclusive, 2, again);
    s.subscription->flow(*next, 100);
    co_await turns();
    EXPECT_EQ(again->positions(), (std::vector{positions[1], positions[2]}));
    EXPECT_EQ(again->messages[0].ack_set, AckSet{0b1111100000});
    EXPECT_EQ(next->permits(), 85);
  });
}

TEST(DispatcherExclusive, StopsWhileTheClientDoesNotRead) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(20);
    auto outbox = std::make_shared<TestOutbox>();
    outbox->window = 5;
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    EXPECT_EQ(outbox->messages.size(), 5U);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::ClientNotReading);
    outbox->drain();
    co_await turns();
    EXPECT_EQ(outbox->messages.front().position, s.ledger.positions()[5]);
    EXPECT_EQ(outbox->messages.size(), 5U);
  });
}

TEST(DispatcherExclusive, RefusesASecondLiveConsumerAndReplacesADeadOne) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    auto first = std::make_shared<TestOutbox>(1);
    auto consumer = co_await s.join(kExclusive, 1, first);
    auto same_connection = co_await s.subscription->add_consumer(s.request(kExclusive, 2, first));
    EXPECT_EQ(same_connection.code(), ErrorCode::ConsumerBusy);
    auto second = std::make_shared<TestOutbox>(2);
    auto busy = co_await s.subscription->add_consumer(s.request(kExclusive, 1, second));
    EXPECT_EQ(busy.code(), ErrorCode::ConsumerBusy);
    auto other_type =
        co_await s.subscription->add_consumer(s.request(SubscriptionType::Shared, 1, second));
    EXPECT_EQ(other_type.code(), ErrorCode::ConsumerBusy);
    first->alive = false;
    auto replaced = co_await s.join(kExclusive, 1, second);
    EXPECT_FALSE(consumer->attached());
    EXPECT_TRUE(first->listeners.empty());
    s.subscription->remove_consumer(consumer);  // the session notices later
    EXPECT_EQ(s.subscription->consumer_count(), 1U);
    s.publish_many(1);
    s.subscription->flow(*consumer, 10);
    s.subscription->flow(*replaced, 10);
    co_await turns();
    EXPECT_TRUE(first->messages.empty());
    EXPECT_EQ(second->messages.size(), 1U);
  });
}

TEST(DispatcherExclusive, SkipsAcknowledgedEntriesAndAcksMarkers) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard, {}, 3);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.publish_many(4);
    s.publish({.extra = varint_field(20, 10)});
    s.ledger.add(Buffer::copy_of("\x01garbage"), 1);
    s.publish_many(2);
    const auto p = s.ledger.positions();
    s.ack(*consumer, p[1]);
    s.ack(*consumer, p[2]);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    EXPECT_EQ(outbox->positions(), (std::vector{p[0], p[3], p[6], p[7]}));
    EXPECT_EQ(consumer->permits(), 96);
    EXPECT_EQ(s.subscription->counters().corrupt_entries, 1);
    s.ack_cumulative(*consumer, p[3]);
    EXPECT_EQ(s.subscription->stats().msg_backlog, 2);
  });
}

TEST(DispatcherExclusive, RedeliverRewindsAndStampsTheNewEpoch) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(5);
    auto outbox = std::make_shared<TestOutbox>();
    auto request = s.request(kExclusive, 1, outbox);
    request.consumer_epoch = 0;
    auto consumer = co_await s.join(request);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    const auto p = s.ledger.positions();
    s.ack_cumulative(*consumer, p[1]);
    const std::vector ignored{p[4]};
    s.subscription->redeliver(*consumer, ignored, 3);
    co_await turns();
    EXPECT_EQ(outbox->messages.size(), 8U);
    EXPECT_EQ(outbox->messages[4].epoch, 0);
    EXPECT_EQ(outbox->messages[5].position, p[2]);
    EXPECT_EQ(outbox->messages[5].epoch, 3);
    EXPECT_EQ(consumer->permits(), 92);
  });
}

TEST(DispatcherExclusive, DropsAReadThatIsOlderThanTheRewind) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.ledger.cold_percent = 100;
    s.publish_many(20);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 5);
    for (int i = 0; i < 20 && outbox->messages.size() < 5; ++i) co_await turns();
    s.subscription->flow(*consumer, 100);
    co_await turns(1);
    EXPECT_EQ(s.ledger.reads_in_flight, 1);
    s.subscription->redeliver(*consumer, {}, -1);
    for (int i = 0; i < 50 && outbox->messages.size() < 25; ++i) co_await turns();
    const auto p = s.ledger.positions();
    const auto seen = outbox->positions();
    EXPECT_EQ(std::vector(seen.begin() + 5, seen.end()), p);
  });
}

TEST(DispatcherExclusive, TriesAgainAfterAReadError) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.read_retry_min = Millis{5};
    TestSubscription s(shard, config);
    s.ledger.cold_percent = 100;
    s.ledger.read_error = Status::Io("disk gone");
    s.publish_many(3);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 5);
    co_await turns(5);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::ReadRetry);
    EXPECT_EQ(s.subscription->counters().read_errors, 1);
    s.ledger.read_error.reset();
    co_await sleep_for(Millis{20});
    co_await turns(8);
    EXPECT_EQ(outbox->messages.size(), 3U);
  });
}

TEST(DispatcherExclusive, GivesTheShardBackBetweenTurns) {
  run_on_shard([](Shard& shard) -> Task<void> {
    DispatcherConfig config;
    config.turn_entries = 10;
    TestSubscription s(shard, config);
    s.publish_many(35);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 100);
    co_await turns(1);
    EXPECT_GE(outbox->messages.size(), 10U);
    EXPECT_LT(outbox->messages.size(), 35U);
    EXPECT_EQ(s.subscription->why_waiting(), WaitReason::TurnScheduled);
    co_await turns(10);
    EXPECT_EQ(outbox->positions(), s.ledger.positions());
  });
}

TEST(DispatcherExclusive, ShowsAReaderOnlyTheKeysItAskedFor) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    for (int i = 0; i < 20; ++i) s.publish({.key = "key-" + std::to_string(i)});
    auto request = s.request(kExclusive, 1, std::make_shared<TestOutbox>());
    auto outbox = std::make_shared<TestOutbox>();
    request.outbox = outbox;
    const auto slot = static_cast<std::int32_t>(range_slot(sticky_key_hash("key-7")));
    request.key_shared = KeySharedOptions{KeySharedMode::Sticky, {{slot, slot}}, false};
    auto consumer = co_await s.join(request);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    EXPECT_EQ(outbox->positions(), std::vector{s.ledger.positions()[7]});
  });
}

TEST(DispatcherExclusive, TellsJavaClientsTheEndOfATerminatedTopic) {
  run_on_shard([](Shard& shard) -> Task<void> {
    TestSubscription s(shard);
    s.publish_many(2);
    auto outbox = std::make_shared<TestOutbox>();
    auto consumer = co_await s.join(kExclusive, 1, outbox);
    s.subscription->flow(*consumer, 100);
    co_await turns();
    s.ledger.ended = true;
    s.subscription->entries_available();
    co_await turns();
    EXPECT_TRUE(outbox->events.empty());
    s.ack_cumulative(*consumer, s.ledger.positions()[1]);
    co_await turns();
    EXPECT_EQ(outbox->events, std::vector<std::string>{"end 1"});
    s.subscription->remove_consumer(consumer);
    auto go = std::make_shared<TestOutbox>(2, "Pulsar-Go-0.19");
    auto other = co_await s.join(kExclusive, 1, go);
    s.subscription->flow(*other, 1);
    co_await turns();
    EXPECT_TRUE(go->events.empty());
  });
}

}  // namespace
}  // namespace geminga
