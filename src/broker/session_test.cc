// The session's state machine and its answers, over a peer in memory.
#include "broker/session.h"

#include "broker/broker_test_support.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::make_entry;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";

using SessionTest = BrokerWorld;

TEST_F(SessionTest, AnswersConnectWithTheLowerVersionAndItsFlags) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& old = peer();
    old.connect("Pulsar-CPP-v4.2.0", 20);
    Command connected = co_await old.next();
    EXPECT_EQ(connected.type(), Command::CONNECTED);
    EXPECT_EQ(connected.connected().protocol_version(), 20);
    EXPECT_EQ(connected.connected().max_message_size(), 5242880);
    EXPECT_TRUE(connected.connected().server_version().starts_with("Pulsar Server"));
    EXPECT_TRUE(connected.connected().feature_flags().supports_topic_watchers());
    TestPeer& newer = peer();
    newer.connect("Pulsar-Java-v5", 99);
    connected = co_await newer.next();
    EXPECT_EQ(connected.connected().protocol_version(), 21);
  });
}

TEST_F(SessionTest, ClosesOnAnythingButConnectAtTheStart) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& early = peer();
    flow(early, 0, 1);
    EXPECT_TRUE(early.closed);
    TestPeer& twice = peer();
    twice.connect();
    twice.connect();
    EXPECT_TRUE(twice.closed);
    co_return;
  });
}

TEST_F(SessionTest, AnswersPingInEveryState) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = peer();
    Command ping;
    ping.set_type(Command::PING);
    ping.mutable_ping();
    client.send(ping);
    EXPECT_EQ((co_await client.next()).type(), Command::PONG);
    client.connect();
    EXPECT_EQ((co_await client.next()).type(), Command::CONNECTED);
    client.send(ping);
    EXPECT_EQ((co_await client.next()).type(), Command::PONG);
    EXPECT_FALSE(client.closed);
  });
}

TEST_F(SessionTest, RefusesFramesOverTheLimitBeforeTheyArrive) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    std::string head(8, '\0');
    store_be32(head.data(), 5242880 + 10236 + 1);
    client.send_raw(Buffer::copy_of(head));
    EXPECT_TRUE(client.closed);
    TestPeer& largest = *co_await connected_peer();
    store_be32(head.data(), 5242880 + 10236);
    store_be32(head.data() + 4, 20);
    client.session->received(Buffer::copy_of(head));
    const auto consumed = largest.session->received(Buffer::copy_of(head));
    EXPECT_EQ(consumed.bytes, 0U);
    EXPECT_EQ(consumed.needed, 5242880U + 10240U);
    EXPECT_FALSE(largest.closed);
  });
}

TEST_F(SessionTest, TakesFramesCutAnywhere) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = peer();
    Command command;
    command.set_type(Command::CONNECT);
    command.mutable_connect()->set_client_version("x");
    const Buffer frame = encode_command(command);
    for (std::size_t cut = 1; cut < frame.size(); ++cut) {
      EXPECT_EQ(client.session->received(frame.slice(0, cut)).bytes, 0U);
    }
    EXPECT_EQ(client.session->received(frame).bytes, frame.size());
    EXPECT_EQ((co_await client.next()).type(), Command::CONNECTED);
  });
}

TEST_F(SessionTest, LooksUpAndTellsPartitions) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    Command command;
    command.set_type(Command::PARTITIONED_METADATA);
    command.mutable_partitionmetadata()->set_topic("t");
    command.mutable_partitionmetadata()->set_request_id(7);
    client.send(command);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::PARTITIONED_METADATA_RESPONSE);
    EXPECT_EQ(answer.partitionmetadataresponse().request_id(), 7U);
    EXPECT_EQ(answer.partitionmetadataresponse().response(),
              proto::CommandPartitionedTopicMetadataResponse::Success);
    EXPECT_TRUE(answer.partitionmetadataresponse().has_partitions());
    EXPECT_EQ(answer.partitionmetadataresponse().partitions(), 0U);

    command.mutable_partitionmetadata()->set_topic("nowhere/ns/t");
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.partitionmetadataresponse().error(), proto::TopicNotFound);
    EXPECT_EQ(answer.partitionmetadataresponse().message(), "Namespace not found");

    command.mutable_partitionmetadata()->set_topic("t2");
    command.mutable_partitionmetadata()->set_metadata_auto_creation_enabled(false);
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.partitionmetadataresponse().error(), proto::TopicNotFound);

    command.mutable_partitionmetadata()->set_topic("foo://a/b/c");
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.partitionmetadataresponse().error(), proto::InvalidTopicName);

    const Status made = co_await broker->create_partitioned_topic(
        *TopicName::parse("persistent://public/default/p"), 3, {});
    EXPECT_TRUE(made.is_ok()) << made.to_string();
    command.mutable_partitionmetadata()->set_topic("p");
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.partitionmetadataresponse().partitions(), 3U);
    command.mutable_partitionmetadata()->set_topic("p-partition-9");
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.partitionmetadataresponse().error(), proto::TopicNotFound);

    Command lookup;
    lookup.set_type(Command::LOOKUP);
    lookup.mutable_lookuptopic()->set_topic("t");
    lookup.mutable_lookuptopic()->set_request_id(8);
    lookup.mutable_lookuptopic()->set_advertised_listener_name("");
    client.send(lookup);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::LOOKUP_RESPONSE);
    EXPECT_EQ(answer.lookuptopicresponse().response(), proto::CommandLookupTopicResponse::Connect);
    EXPECT_EQ(answer.lookuptopicresponse().brokerserviceurl(), "pulsar://localhost:6650");
    EXPECT_TRUE(answer.lookuptopicresponse().authoritative());
  });
}

// The Go client sends a schema of type NONE for bytes and asks for its version when it reads.
TEST_F(SessionTest, KeepsAProducersSchemaOfTypeNone) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    Command ask;
    ask.set_type(Command::GET_SCHEMA);
    ask.mutable_getschema()->set_request_id(1);
    ask.mutable_getschema()->set_topic(kTopic);
    client.send(ask);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.getschemaresponse().error_code(), proto::TopicNotFound);

    Command command;
    command.set_type(Command::PRODUCER);
    auto& producer = *command.mutable_producer();
    producer.set_topic(kTopic);
    producer.set_producer_id(1);
    producer.set_request_id(2);
    producer.mutable_schema()->set_name("");
    producer.mutable_schema()->set_schema_data("");
    producer.mutable_schema()->set_type(proto::Schema::None);
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::PRODUCER_SUCCESS);
    const std::string version = answer.producer_success().schema_version();
    EXPECT_EQ(version, std::string(8, '\0'));

    ask.mutable_getschema()->set_schema_version(version);
    client.send(ask);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::GET_SCHEMA_RESPONSE);
    EXPECT_FALSE(answer.getschemaresponse().has_error_code());
    EXPECT_EQ(answer.getschemaresponse().schema().type(), proto::Schema::None);
    EXPECT_EQ(answer.getschemaresponse().schema_version(), version);

    // As in Pulsar, GET_OR_CREATE_SCHEMA gives no version for it.
    Command make;
    make.set_type(Command::GET_OR_CREATE_SCHEMA);
    make.mutable_getorcreateschema()->set_request_id(3);
    make.mutable_getorcreateschema()->set_topic(kTopic);
    *make.mutable_getorcreateschema()->mutable_schema() = producer.schema();
    client.send(make);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::GET_OR_CREATE_SCHEMA_RESPONSE);
    EXPECT_FALSE(answer.getorcreateschemaresponse().has_error_code());
    EXPECT_EQ(answer.getorcreateschemaresponse().schema_version(), "");
  });
}

// The Go client does so when a reader is made at the latest message and then seeks.
TEST_F(SessionTest, SeeksAgainBeforeTheConsumerIsBack) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 5);
    for (std::uint64_t i = 0; i < 3; ++i) {
      client.send_message(1, i, make_entry("p", static_cast<std::int64_t>(i), "m"));
      EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
    }
    Command seek;
    seek.set_type(Command::SEEK);
    seek.mutable_seek()->set_consumer_id(5);
    seek.mutable_seek()->set_request_id(10);
    seek.mutable_seek()->mutable_message_id()->set_ledgerid(0);
    seek.mutable_seek()->mutable_message_id()->set_entryid(0);
    client.send(seek);
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_CONSUMER);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    seek.mutable_seek()->mutable_message_id()->set_entryid(2);
    client.send(seek);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    Command ask;
    ask.set_type(Command::GET_LAST_MESSAGE_ID);
    ask.mutable_getlastmessageid()->set_consumer_id(5);
    ask.mutable_getlastmessageid()->set_request_id(11);
    client.send(ask);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::GET_LAST_MESSAGE_ID_RESPONSE);
    EXPECT_EQ(answer.getlastmessageidresponse().last_message_id().entryid(), 2U);

    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 5)).type(), Command::SUCCESS);
    flow(client, 5, 10);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::MESSAGE);
    EXPECT_EQ(answer.message().message_id().entryid(), 2U);
    // One that has closed is not found.
    Command close;
    close.set_type(Command::CLOSE_CONSUMER);
    close.mutable_close_consumer()->set_consumer_id(5);
    close.mutable_close_consumer()->set_request_id(12);
    client.send(close);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    client.send(seek);
    EXPECT_EQ((co_await client.next()).error().error(), proto::MetadataError);
  });
}

TEST_F(SessionTest, PublishesAndConsumes) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    Command answer = co_await produce(client, kTopic, 1);
    EXPECT_EQ(answer.type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ(answer.producer_success().producer_name(), "standalone-0-0");
    EXPECT_TRUE(answer.producer_success().has_schema_version());
    EXPECT_EQ(answer.producer_success().last_sequence_id(), -1);
    EXPECT_FALSE(answer.producer_success().has_topic_epoch());
    answer = co_await subscribe(client, kTopic, "s", 5);
    EXPECT_EQ(answer.type(), Command::SUCCESS);
    flow(client, 5, 10);
    const Buffer entry = make_entry("standalone-0-0", 0, "hello");
    client.send_message(1, 0, entry);
    bool receipt = false;
    bool message = false;
    for (int i = 0; i < 2; ++i) {
      answer = co_await client.next();
      if (answer.type() == Command::SEND_RECEIPT) {
        receipt = true;
        EXPECT_EQ(answer.send_receipt().producer_id(), 1U);
        EXPECT_EQ(answer.send_receipt().sequence_id(), 0U);
        EXPECT_EQ(answer.send_receipt().message_id().entryid(), 0U);
      } else {
        message = answer.type() == Command::MESSAGE;
        EXPECT_EQ(answer.message().consumer_id(), 5U);
        EXPECT_EQ(client.rest(), entry.view());
      }
    }
    EXPECT_TRUE(receipt && message);

    Command ack;
    ack.set_type(Command::ACK);
    ack.mutable_ack()->set_consumer_id(5);
    ack.mutable_ack()->set_ack_type(proto::CommandAck::Individual);
    ack.mutable_ack()->set_request_id(77);
    *ack.mutable_ack()->add_message_id() = answer.type() == Command::MESSAGE
                                               ? answer.message().message_id()
                                               : answer.send_receipt().message_id();
    client.send(ack);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::ACK_RESPONSE);
    EXPECT_EQ(answer.ackresponse().request_id(), 77U);
    EXPECT_FALSE(answer.ackresponse().has_message());

    Command close;
    close.set_type(Command::CLOSE_PRODUCER);
    close.mutable_close_producer()->set_producer_id(1);
    close.mutable_close_producer()->set_request_id(9);
    client.send(close);
    EXPECT_EQ((co_await client.next()).success().request_id(), 9U);
    client.send(close);  // one that is not there closes as well
    EXPECT_EQ((co_await client.next()).success().request_id(), 9U);
    close.Clear();
    close.set_type(Command::CLOSE_CONSUMER);
    close.mutable_close_consumer()->set_consumer_id(5);
    close.mutable_close_consumer()->set_request_id(10);
    client.send(close);
    EXPECT_EQ((co_await client.next()).success().request_id(), 10U);
  });
}

TEST_F(SessionTest, PermitsCountForWhatIsSentRightAfterThem) {
  run_with_broker([this]() -> Task<void> {
    const std::string topic = "non-persistent://public/default/t";
    TestPeer& client = *co_await connected_peer();
    Command answer = co_await produce(client, topic, 1);
    EXPECT_EQ(answer.type(), Command::PRODUCER_SUCCESS);
    answer = co_await subscribe(client, topic, "s", 5);
    EXPECT_EQ(answer.type(), Command::SUCCESS);
    client.begin_chunk();
    flow(client, 5, 10);
    client.send_message(1, 0, make_entry("standalone-0-0", 0, "hello"));
    client.end_chunk();
    bool message = false;
    for (int i = 0; i < 2; ++i) {
      answer = co_await client.next();
      message = message || answer.type() == Command::MESSAGE;
    }
    EXPECT_TRUE(message);
  });
}

TEST_F(SessionTest, KeepsReceiptsInTheOrderOfSends) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    std::string broken(make_entry("p", 3, "payload").view());
    broken.back() = '!';
    client.begin_chunk();
    for (std::uint64_t i = 0; i < 6; ++i) {
      if (i == 3) {
        client.send_message(1, i, Buffer::copy_of(broken));
      } else {
        client.send_message(1, i, make_entry("p", static_cast<std::int64_t>(i), "payload"));
      }
    }
    client.end_chunk();
    for (std::uint64_t i = 0; i < 6; ++i) {
      const Command answer = co_await client.next();
      if (i == 3) {
        EXPECT_EQ(answer.type(), Command::SEND_ERROR);
        EXPECT_EQ(answer.send_error().error(), proto::ChecksumError);
        EXPECT_EQ(answer.send_error().sequence_id(), 3U);
      } else {
        EXPECT_EQ(answer.type(), Command::SEND_RECEIPT);
        EXPECT_EQ(answer.send_receipt().sequence_id(), i);
      }
    }
  });
}

TEST_F(SessionTest, EndsAConnectionThatSendsForAnUnknownProducer) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    client.send_message(44, 0, make_entry("p", 0, "x"));
    EXPECT_TRUE(client.closed);
  });
}

TEST_F(SessionTest, IgnoresWhatWasSentBeforeAProducerWasClosedByTheBroker) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    const Status unloaded = co_await broker->unload_topic(*TopicName::parse(kTopic));
    EXPECT_TRUE(unloaded.is_ok()) << unloaded.to_string();
    const Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::CLOSE_PRODUCER);
    EXPECT_EQ(answer.close_producer().request_id(), ~std::uint64_t{0});
    client.send_message(1, 0, make_entry("p", 0, "x"));
    co_await sleep_for(Millis(20));
    EXPECT_FALSE(client.closed);
    EXPECT_TRUE(client.silent());
    // It comes back under the same id, and goes on.
    EXPECT_EQ((co_await produce(client, kTopic, 1, "p")).type(), Command::PRODUCER_SUCCESS);
    client.send_message(1, 0, make_entry("p", 0, "x"));
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
  });
}

TEST_F(SessionTest, StopsReadingAtTheWindowOfPublishes) {
  run_with_broker([this]() -> Task<void> {
    SessionSettings settings;
    settings.max_pending_publishes = 10;
    TestPeer& client = *co_await connected_peer(settings);
    (void)co_await produce(client, kTopic, 1, "p");
    ledgers->hold_appends(true);
    for (std::uint64_t i = 0; i < 9; ++i) {
      client.send_message(1, i, make_entry("p", static_cast<std::int64_t>(i), "x"));
    }
    EXPECT_TRUE(client.session->may_read());
    client.send_message(1, 9, make_entry("p", 9, "x"));
    EXPECT_FALSE(client.session->may_read());
    ledgers->hold_appends(false);
    for (int i = 0; i < 10; ++i) EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
    EXPECT_TRUE(client.session->may_read());
    EXPECT_EQ(client.resumed, 1);
  });
}

TEST_F(SessionTest, HoldsPublishersBackWhileMemoryIsShort) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    const std::size_t much = runtime.memory().limit() / 10 * 9;
    runtime.memory().take(MemoryUse::Cache, much);
    client.send_message(1, 0, make_entry("p", 0, "x"));
    EXPECT_FALSE(client.session->may_read());
    EXPECT_EQ(client.memory_waits, 1);
    runtime.memory().give_back(MemoryUse::Cache, much);
    client.session->memory_relieved();
    EXPECT_TRUE(client.session->may_read());
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
    co_await sleep_for(Millis(5));
    // What was sent is neither lost nor counted twice.
    EXPECT_EQ(runtime.memory().used(MemoryUse::Delivery), 0U);
  });
}

TEST_F(SessionTest, PingsASilentClientAndThenEndsIt) {
  run_with_broker([this]() -> Task<void> {
    SessionSettings settings;
    settings.keep_alive = Millis(50);
    TestPeer& client = *co_await connected_peer(settings);
    client.session->tick(monotonic_ns() + 60'000'000);
    EXPECT_EQ((co_await client.next()).type(), Command::PING);
    Command pong;
    pong.set_type(Command::PONG);
    pong.mutable_pong();
    client.send(pong);
    client.session->tick(monotonic_ns() + 200'000'000);
    EXPECT_EQ((co_await client.next()).type(), Command::PING);
    client.session->tick(monotonic_ns() + 400'000'000);
    EXPECT_TRUE(client.closed);
    TestPeer& mute = peer(settings);
    mute.session->tick(monotonic_ns() + 60'000'000);
    EXPECT_TRUE(mute.closed);
  });
}

TEST_F(SessionTest, SaysThatTransactionsAreSwitchedOff) {
  config.transaction_coordinator_enabled = false;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    Command command;
    command.set_type(Command::TC_CLIENT_CONNECT_REQUEST);
    command.mutable_tcclientconnectrequest()->set_request_id(3);
    command.mutable_tcclientconnectrequest()->set_tc_id(0);
    client.send(command);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::ERROR);
    EXPECT_EQ(answer.error().error(), proto::NotAllowedError);
    EXPECT_EQ(answer.error().message(), "Transactions are not enabled.");
    command.Clear();
    command.set_type(Command::NEW_TXN);
    command.mutable_newtxn()->set_request_id(4);
    command.mutable_newtxn()->set_tc_id(2);
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::NEW_TXN_RESPONSE);
    EXPECT_EQ(answer.newtxnresponse().txnid_most_bits(), 2U);
    EXPECT_EQ(answer.newtxnresponse().error(), proto::NotAllowedError);
    EXPECT_FALSE(client.closed);
  });
}

TEST_F(SessionTest, RemovesEverythingOfAConnectionThatEnds) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 1);
    const auto topic = broker->loaded_topic(*TopicName::parse(kTopic));
    EXPECT_EQ(topic->producer_count(), 1U);
    EXPECT_EQ(topic->consumer_count(), 1U);
    client.session->disconnected();
    co_await client.session->ended();
    EXPECT_EQ(topic->producer_count(), 0U);
    EXPECT_EQ(topic->consumer_count(), 0U);
  });
}

}  // namespace
}  // namespace geminga
