// Delayed messages through a whole broker: indexed when published, delivered on time, kept over an
// unload, gone with the topic.
#include <algorithm>

#include "base/clock.h"
#include "broker/broker_test_support.h"
#include "broker/topic.h"
#include "broker/topic_settings.h"
#include "managed_ledger/delayed_index.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";
constexpr auto kShared = proto::CommandSubscribe::Shared;

Buffer delayed_entry(std::int64_t sequence_id, std::int64_t deliver_at) {
  OutgoingMetadata metadata;
  metadata.producer_name = "p";
  metadata.sequence_id = sequence_id;
  metadata.publish_time = now_ms();
  metadata.deliver_at_time = deliver_at;
  return testing::make_entry(metadata, "x");
}

class DelayedDeliveryTest : public BrokerWorld {
 protected:
  static TopicName name() { return *TopicName::parse(kTopic); }
  std::shared_ptr<Topic> topic() { return broker->loaded_topic(name()); }
  SubscriptionStats stats() { return topic()->subscription("s")->stats(); }
  Task<void> publish(TestPeer& peer, int count, std::int64_t deliver_at) {
    for (int i = 0; i < count; ++i) {
      peer.send_message(1, static_cast<std::uint64_t>(next_), delayed_entry(next_, deliver_at));
      ++next_;
      EXPECT_EQ((co_await peer.next()).type(), Command::SEND_RECEIPT);
    }
  }
  Task<void> expect_messages(TestPeer& peer, int count, std::int64_t not_before) {
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ((co_await peer.next()).type(), Command::MESSAGE);
      EXPECT_GE(now_ms(), not_before);
    }
    co_await sleep_for(Millis(10));
    EXPECT_TRUE(peer.silent());
  }

  std::int64_t next_ = 0;
};

TEST_F(DelayedDeliveryTest, AreHeldFromTheirPublishingAndOverAnUnload) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& producer = *co_await connected_peer();
    (void)co_await produce(producer, kTopic, 1, "p");
    const std::int64_t due = now_ms() + 400;
    co_await publish(producer, 3, due);
    EXPECT_EQ(topic()->delayed_index(), nullptr);  // nobody could get them
    EXPECT_TRUE((co_await topic()->create_subscription("s", Position::earliest(), {})).is_ok());
    co_await publish(producer, 100, due);
    co_await publish(producer, 1, now_ms() - 5);
    EXPECT_EQ(topic()->delayed_index()->size(), 100);
    EXPECT_GT(topic()->stats().delayed_index_bytes, 0);

    TestPeer& consumer = *co_await connected_peer();
    EXPECT_EQ((co_await subscribe(consumer, kTopic, "s", 9, kShared)).type(), Command::SUCCESS);
    flow(consumer, 9, 1000);
    co_await expect_messages(consumer, 1, 0);
    EXPECT_EQ(topic()->delayed_index()->size(), 103);  // the first three were found in the log
    EXPECT_EQ(stats().msg_delayed, 103);

    const Status unloaded = co_await broker->unload_topic(name());
    EXPECT_TRUE(unloaded.is_ok()) << unloaded.to_string();
    EXPECT_EQ((co_await consumer.next()).type(), Command::CLOSE_CONSUMER);
    EXPECT_EQ((co_await producer.next()).type(), Command::CLOSE_PRODUCER);
    EXPECT_EQ((co_await subscribe(consumer, kTopic, "s", 10, kShared)).type(), Command::SUCCESS);
    EXPECT_EQ(topic()->delayed_index()->size(), 103);
    EXPECT_EQ(topic()->delayed_index()->runs(), 1U);
    flow(consumer, 10, 1000);
    co_await expect_messages(consumer, 1, 0);  // it was not acknowledged
    EXPECT_LT(now_ms(), due);
    co_await expect_messages(consumer, 103, due);
    EXPECT_EQ(stats().msg_delayed, 0);
    EXPECT_EQ(stats().unacked_messages, 104);
  });
}

TEST_F(DelayedDeliveryTest, ExclusiveSubscriptionsGetThemAtOnceAndNothingIsIndexed) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 9)).type(), Command::SUCCESS);
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 5, now_ms() + 60'000);
    EXPECT_EQ(topic()->delayed_index(), nullptr);
    flow(client, 9, 10);
    co_await expect_messages(client, 5, 0);
  });
}

TEST_F(DelayedDeliveryTest, APolicyBoundsTheDelayOrSwitchesItOff) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    EXPECT_TRUE((co_await topic()->create_subscription("s", Position::earliest(), {})).is_ok());
    auto settings = co_await broker->topic_settings(name());
    EXPECT_TRUE(settings->delayed_delivery);
    settings->max_delivery_delay_ms = 60'000;
    topic()->apply(*settings);
    client.send_message(1, 0, delayed_entry(0, now_ms() + 70'000));
    const Command refused = co_await client.next();
    EXPECT_EQ(refused.type(), Command::SEND_ERROR);
    EXPECT_EQ(refused.send_error().error(), proto::NotAllowedError);
    EXPECT_EQ(refused.send_error().message(),
              "Exceeds max allowed delivery delay of 60000 milliseconds");
    next_ = 1;
    co_await publish(client, 4, now_ms() + 50'000);

    TestPeer& consumer = *co_await connected_peer();
    EXPECT_EQ((co_await subscribe(consumer, kTopic, "s", 9, kShared)).type(), Command::SUCCESS);
    flow(consumer, 9, 1000);
    co_await sleep_for(Millis(20));
    EXPECT_TRUE(consumer.silent());
    settings->delayed_delivery = false;
    topic()->apply(*settings);
    co_await expect_messages(consumer, 4, 0);
    EXPECT_EQ(stats().msg_delayed, 0);
    co_await publish(client, 1, now_ms() + 50'000);
    co_await expect_messages(consumer, 1, 0);
  });
}

TEST_F(DelayedDeliveryTest, TheIndexGoesWithTheTopic) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    EXPECT_TRUE((co_await topic()->create_subscription("s", Position::earliest(), {})).is_ok());
    co_await publish(client, 100, now_ms() + 60'000);
    EXPECT_TRUE((co_await broker->unload_topic(name())).is_ok());
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    (void)co_await produce(client, kTopic, 1, "p");
    EXPECT_EQ(topic()->delayed_index()->runs(), 1U);
    const auto named = co_await referenced_ledgers(*metadata);
    EXPECT_TRUE(named.is_ok());
    EXPECT_EQ(*named, ledgers->list());
    EXPECT_TRUE((co_await broker->delete_topic(name(), true)).is_ok());
    const auto stored = co_await DelayedIndex::stored(*metadata, name().managed_ledger_name());
    EXPECT_FALSE(stored.value());
    EXPECT_TRUE(ledgers->list().empty());
  });
}

}  // namespace
}  // namespace geminga
