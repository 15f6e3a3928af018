// A publish rate holds back its topic alone: the connection is read on, and what was held comes in
// order when the rate allows or the limit goes.
#include <gtest/gtest.h>

#include "broker/broker_test_support.h"
#include "broker/topic_policies.h"

namespace geminga {
namespace {

using testing::make_entry;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;

class PublishRate : public testing::BrokerWorld {
 protected:
  Task<void> limit(std::string topic, int messages) {
    const std::string path = topic_policies_key(*TopicName::parse(topic));
    std::string value = R"({"local":{"publishRate":{"publishThrottlingRateInMsg":)" +
                        std::to_string(messages) + "}}}";
    EXPECT_TRUE(co_await metadata->put(path, std::move(value), MetadataPut()));
    co_await broker->refresh_topics();
    co_await sleep_for(Millis(20));
  }
  void send(TestPeer& client, std::uint64_t producer, std::uint64_t sequence) {
    const std::string name = "p" + std::to_string(producer);
    client.send_message(producer, sequence,
                        make_entry(name, static_cast<std::int64_t>(sequence), "x"));
  }
};

TEST_F(PublishRate, HoldsBackItsTopicAndNotItsConnection) {
  run_with_broker([this]() -> Task<void> {
    const std::string slow = "persistent://public/default/slow";
    SessionSettings settings;
    settings.max_pending_publishes = 10;
    TestPeer& client = *co_await connected_peer(settings);
    EXPECT_EQ((co_await produce(client, slow, 1, "p1")).type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ((co_await produce(client, "persistent://public/default/free", 2, "p2")).type(),
              Command::PRODUCER_SUCCESS);
    co_await limit(slow, 5);
    for (std::uint64_t i = 0; i < 100; ++i) send(client, 1, i);
    std::uint64_t received = 0;
    for (; received < 5; ++received) {  // what may pass in the first second
      const Command receipt = co_await client.next();
      EXPECT_EQ(receipt.send_receipt().sequence_id(), received);
    }
    co_await sleep_for(Millis(5));
    EXPECT_TRUE(client.session->may_read());
    send(client, 2, 0);
    const Command other = co_await client.next();
    EXPECT_EQ(other.send_receipt().producer_id(), 2u);
    EXPECT_LT(received, 10u);

    co_await limit(slow, 0);
    for (; received < 100; ++received) {
      const Command receipt = co_await client.next();
      EXPECT_EQ(receipt.send_receipt().producer_id(), 1u);
      EXPECT_EQ(receipt.send_receipt().sequence_id(), received);
    }
    // The window counts right again: ten in flight, not more and not fewer, fill it.
    EXPECT_TRUE(client.session->may_read());
  });
}

TEST_F(PublishRate, WhatIsHeldIsForgottenWhenTheTopicCloses) {
  run_with_broker([this]() -> Task<void> {
    const std::string slow = "persistent://public/default/slow";
    TestPeer& client = *co_await connected_peer();
    EXPECT_EQ((co_await produce(client, slow, 1, "p1")).type(), Command::PRODUCER_SUCCESS);
    co_await limit(slow, 1);
    for (std::uint64_t i = 0; i < 50; ++i) send(client, 1, i);
    EXPECT_EQ((co_await client.next()).send_receipt().sequence_id(), 0u);
    const Status unloaded = co_await broker->unload_topic(*TopicName::parse(slow));
    EXPECT_TRUE(unloaded.is_ok());
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    EXPECT_TRUE(client.silent());
  });
}

}  // namespace
}  // namespace geminga
