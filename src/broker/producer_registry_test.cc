// Names, access modes and epochs of producers, through sessions.
#include "broker/producer_registry.h"

#include "broker/broker_test_support.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::make_entry;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";

class ProducerRegistryTest : public BrokerWorld {
 protected:
  ProducerRegistryTest() { config.connection_liveness_check_timeout_millis = 100; }

  void answer_ping(TestPeer& peer) {
    Command pong;
    pong.set_type(Command::PONG);
    pong.mutable_pong();
    peer.send(pong);
  }
  void close_producer(TestPeer& peer, std::uint64_t id) {
    Command close;
    close.set_type(Command::CLOSE_PRODUCER);
    close.mutable_close_producer()->set_producer_id(id);
    close.mutable_close_producer()->set_request_id(500);
    peer.send(close);
  }
  void send_producer(TestPeer& peer, std::uint64_t id, const std::string& name,
                     std::uint64_t epoch = 0, proto::ProducerAccessMode mode = proto::Shared,
                     std::optional<std::uint64_t> topic_epoch = {}) {
    Command command;
    command.set_type(Command::PRODUCER);
    auto& producer = *command.mutable_producer();
    producer.set_topic(kTopic);
    producer.set_producer_id(id);
    producer.set_request_id(1000 + id);
    producer.set_producer_name(name);
    producer.set_epoch(epoch);
    producer.set_producer_access_mode(mode);
    if (topic_epoch) producer.set_topic_epoch(*topic_epoch);
    peer.send(command);
  }
};

TEST_F(ProducerRegistryTest, KeepsTheLivingProducerOfAName) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& first = *co_await connected_peer();
    TestPeer& second = *co_await connected_peer();
    EXPECT_EQ((co_await produce(first, kTopic, 1, "p")).type(), Command::PRODUCER_SUCCESS);
    send_producer(second, 1, "p");
    EXPECT_EQ((co_await first.next()).type(), Command::PING);
    answer_ping(first);
    const Command refused = co_await second.next();
    EXPECT_EQ(refused.type(), Command::ERROR);
    EXPECT_EQ(refused.error().error(), proto::ProducerBusy);
    EXPECT_NE(refused.error().message().find("is already connected to topic"), std::string::npos);
    // On the same connection nothing is asked.
    const Command same = co_await produce(first, kTopic, 2, "p");
    EXPECT_EQ(same.error().error(), proto::ProducerBusy);
    // The same id again is answered as the first time.
    const Command again = co_await produce(first, kTopic, 1, "p");
    EXPECT_EQ(again.type(), Command::PRODUCER_SUCCESS);
  });
}

TEST_F(ProducerRegistryTest, GivesTheNameOfADeadProducerAway) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& first = *co_await connected_peer();
    TestPeer& second = *co_await connected_peer();
    (void)co_await produce(first, kTopic, 1, "p");
    EXPECT_EQ((co_await produce(second, kTopic, 1, "p")).type(), Command::PRODUCER_SUCCESS);
    EXPECT_TRUE(first.closed);
  });
}

TEST_F(ProducerRegistryTest, RefusesOthersBesideAnExclusiveProducer) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    const Command exclusive = co_await produce(client, kTopic, 1, "a", proto::Exclusive);
    EXPECT_EQ(exclusive.type(), Command::PRODUCER_SUCCESS);
    EXPECT_TRUE(exclusive.producer_success().has_topic_epoch());
    EXPECT_EQ(exclusive.producer_success().topic_epoch(), 0U);
    EXPECT_EQ((co_await produce(client, kTopic, 2, "b")).error().error(), proto::ProducerBusy);
    EXPECT_EQ((co_await produce(client, kTopic, 3, "c", proto::Exclusive)).error().error(),
              proto::ProducerFenced);
    close_producer(client, 1);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    const Command shared = co_await produce(client, kTopic, 4, "d");
    EXPECT_EQ(shared.type(), Command::PRODUCER_SUCCESS);
    const Command late = co_await produce(client, kTopic, 5, "e", proto::Exclusive);
    EXPECT_EQ(late.error().error(), proto::ProducerFenced);
    EXPECT_EQ(late.error().message(), "Topic has existing shared producers");
  });
}

TEST_F(ProducerRegistryTest, LetsOneWaitForExclusiveAccess) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "a", proto::Exclusive);
    const Command queued = co_await produce(client, kTopic, 2, "b", proto::WaitForExclusive);
    EXPECT_EQ(queued.type(), Command::PRODUCER_SUCCESS);
    EXPECT_FALSE(queued.producer_success().producer_ready());
    EXPECT_FALSE(queued.producer_success().has_topic_epoch());
    // Nobody else gets in between.
    EXPECT_EQ((co_await produce(client, kTopic, 3, "c")).error().error(), proto::ProducerBusy);
    close_producer(client, 1);
    bool closed = false;
    bool granted = false;
    for (int i = 0; i < 2; ++i) {
      const Command answer = co_await client.next();
      if (answer.type() == Command::SUCCESS) closed = true;
      if (answer.type() == Command::PRODUCER_SUCCESS) {
        granted = true;
        EXPECT_EQ(answer.producer_success().request_id(), 1002U);
        EXPECT_TRUE(answer.producer_success().producer_ready());
        EXPECT_EQ(answer.producer_success().topic_epoch(), 1U);
      }
    }
    EXPECT_TRUE(closed && granted);
    client.send_message(2, 0, make_entry("b", 0, "x"));
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
  });
}

TEST_F(ProducerRegistryTest, FencesOutWhoWasThere) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& old = *co_await connected_peer();
    TestPeer& waiting = *co_await connected_peer();
    TestPeer& fencing = *co_await connected_peer();
    (void)co_await produce(old, kTopic, 1, "a", proto::Exclusive);
    (void)co_await produce(waiting, kTopic, 1, "w", proto::WaitForExclusive);
    const Command granted = co_await produce(fencing, kTopic, 1, "f", proto::ExclusiveWithFencing);
    EXPECT_EQ(granted.type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ(granted.producer_success().topic_epoch(), 1U);
    const Command told = co_await waiting.next();
    EXPECT_EQ(told.type(), Command::ERROR);
    EXPECT_EQ(told.error().error(), proto::ProducerFenced);
    EXPECT_EQ(told.error().request_id(), 1001U);
    EXPECT_TRUE(old.silent());
    old.send_message(1, 0, make_entry("a", 0, "x"));
    co_await sleep_for(Millis(10));
    EXPECT_TRUE(old.closed);
    // It comes back with the epoch it had, which is over.
    TestPeer& back = *co_await connected_peer();
    close_producer(fencing, 1);
    (void)co_await fencing.next();
    send_producer(back, 1, "a", 1, proto::Exclusive, 0);
    EXPECT_EQ((co_await back.next()).error().error(), proto::ProducerFenced);
    // With the current one it is taken, and the epoch stays.
    send_producer(back, 2, "f", 1, proto::Exclusive, 1);
    const Command again = co_await back.next();
    EXPECT_EQ(again.type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ(again.producer_success().topic_epoch(), 1U);
  });
}

TEST_F(ProducerRegistryTest, RemembersTheEpochAcrossAnUnload) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "a", proto::Exclusive);
    (void)co_await broker->unload_topic(*TopicName::parse(kTopic));
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    const Command again = co_await produce(client, kTopic, 2, "b", proto::Exclusive);
    EXPECT_EQ(again.producer_success().topic_epoch(), 1U);
  });
}

TEST_F(ProducerRegistryTest, HoldsTheLimitOfProducers) {
  config.max_producers_per_topic = 1;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "a");
    const Command refused = co_await produce(client, kTopic, 2, "b");
    EXPECT_EQ(refused.error().error(), proto::ProducerBusy);
  });
}

}  // namespace
}  // namespace geminga
