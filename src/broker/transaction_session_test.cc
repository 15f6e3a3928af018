// Transactions as a client sees them: every command, over a peer in memory, and what a restart of
// the broker in the middle leaves.
#include <fmt/ranges.h>

#include "broker/broker_test_support.h"
#include "broker/persistent_topic.h"
#include "broker/transactions.h"
#include "wire/message_metadata.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";
constexpr char kOther[] = "persistent://public/default/u";

class TransactionSessionTest : public BrokerWorld {
 protected:
  static Buffer entry_of(const std::string& payload, std::int64_t sequence_id,
                         std::optional<TxnId> txn) {
    OutgoingMetadata metadata;
    metadata.producer_name = "p";
    metadata.sequence_id = sequence_id;
    metadata.publish_time = 1;
    metadata.txn = txn;
    const std::size_t size = encoded_size(metadata);
    std::string entry(kEntryHeadSize + size, '\0');
    encode(metadata, reinterpret_cast<std::byte*>(entry.data()) + kEntryHeadSize);
    entry += payload;
    seal_entry(std::as_writable_bytes(std::span(entry)), size);
    return Buffer::copy_of(entry);
  }
  // SEND; gives the broker's answer.
  Task<Command> send(TestPeer& peer, std::uint64_t producer_id, std::string payload,
                     std::optional<TxnId> txn, std::optional<TxnId> in_metadata) {
    Command command;
    command.set_type(Command::SEND);
    auto& send = *command.mutable_send();
    send.set_producer_id(producer_id);
    send.set_sequence_id(sequence_);
    if (txn) {
      send.set_txnid_least_bits(txn->least_bits);
      send.set_txnid_most_bits(txn->most_bits);
    }
    const Buffer head = encode_command(command);
    std::string frame(head.view());
    frame += entry_of(payload, static_cast<std::int64_t>(sequence_++), in_metadata).view();
    store_be32(frame.data(), static_cast<std::uint32_t>(frame.size() - 4));
    peer.send_raw(Buffer::copy_of(frame));
    co_return co_await peer.next();
  }
  Task<Command> send(TestPeer& peer, std::uint64_t producer_id, std::string payload,
                     std::optional<TxnId> txn = {}) {
    co_return co_await send(peer, producer_id, std::move(payload), txn, txn);
  }
  Task<TxnId> begin(TestPeer& peer, std::uint64_t ttl_ms = 60'000) {
    Command command;
    command.set_type(Command::NEW_TXN);
    command.mutable_newtxn()->set_request_id(1);
    command.mutable_newtxn()->set_txn_ttl_millis(ttl_ms);
    peer.send(command);
    const Command answer = co_await peer.next();
    EXPECT_EQ(answer.type(), Command::NEW_TXN_RESPONSE);
    EXPECT_FALSE(answer.newtxnresponse().has_error()) << answer.newtxnresponse().message();
    co_return TxnId{answer.newtxnresponse().txnid_most_bits(),
                    answer.newtxnresponse().txnid_least_bits()};
  }
  Task<Command> add_topic(TestPeer& peer, TxnId txn, std::string topic) {
    Command command;
    command.set_type(Command::ADD_PARTITION_TO_TXN);
    auto& add = *command.mutable_addpartitiontotxn();
    add.set_request_id(2);
    add.set_txnid_least_bits(txn.least_bits);
    add.set_txnid_most_bits(txn.most_bits);
    add.add_partitions(topic);
    peer.send(command);
    co_return co_await peer.next();
  }
  Task<Command> add_subscription(TestPeer& peer, TxnId txn, std::string topic,
                                 std::string subscription) {
    Command command;
    command.set_type(Command::ADD_SUBSCRIPTION_TO_TXN);
    auto& add = *command.mutable_addsubscriptiontotxn();
    add.set_request_id(3);
    add.set_txnid_least_bits(txn.least_bits);
    add.set_txnid_most_bits(txn.most_bits);
    add.add_subscription()->set_topic(topic);
    add.mutable_subscription(0)->set_subscription(subscription);
    peer.send(command);
    co_return co_await peer.next();
  }
  static void ask_end(TestPeer& peer, TxnId txn, bool commit) {
    Command command;
    command.set_type(Command::END_TXN);
    auto& end = *command.mutable_endtxn();
    end.set_request_id(4);
    end.set_txnid_least_bits(txn.least_bits);
    end.set_txnid_most_bits(txn.most_bits);
    end.set_txn_action(commit ? proto::COMMIT : proto::ABORT);
    peer.send(command);
  }
  // END_TXN; the payloads of messages that come before its answer are collected.
  Task<Command> end(TestPeer& peer, TxnId txn, bool commit) {
    ask_end(peer, txn, commit);
    Command answer = co_await peer.next();
    while (answer.type() == Command::MESSAGE) {
      came_.push_back(payload_of(peer));
      answer = co_await peer.next();
    }
    co_return answer;
  }
  static std::string payload_of(TestPeer& peer) {
    const auto metadata = parse_entry_metadata(std::as_bytes(std::span(peer.rest())));
    return metadata ? peer.rest().substr(metadata->payload_offset) : "?";
  }
  // The payloads that come until nothing does for a while, sorted, with spaces between them.
  Task<std::string> received(TestPeer& peer) {
    std::vector<std::string> payloads = std::exchange(came_, {});
    for (;;) {
      for (int i = 0; i < 30 && peer.silent(); ++i) co_await sleep_for(Millis(1));
      if (peer.silent()) break;
      const Command command = co_await peer.next();
      if (command.type() != Command::MESSAGE) continue;
      last_id_ = command.message().message_id();
      payloads.push_back(payload_of(peer));
    }
    std::sort(payloads.begin(), payloads.end());
    co_return fmt::format("{}", fmt::join(payloads, " "));
  }
  // ACK; the answer if it is to have one.
  Task<Command> ack(TestPeer& peer, std::uint64_t consumer, proto::MessageIdData id,
                    std::optional<TxnId> txn, bool cumulative = false) {
    Command command;
    command.set_type(Command::ACK);
    auto& ack = *command.mutable_ack();
    ack.set_consumer_id(consumer);
    ack.set_ack_type(cumulative ? proto::CommandAck::Cumulative : proto::CommandAck::Individual);
    ack.add_message_id()->set_ledgerid(id.ledgerid());
    ack.mutable_message_id(0)->set_entryid(id.entryid());
    ack.set_request_id(5);
    if (txn) {
      ack.set_txnid_least_bits(txn->least_bits);
      ack.set_txnid_most_bits(txn->most_bits);
    }
    peer.send(command);
    co_return co_await peer.next();
  }
  // All connections go, the broker is closed or killed, and a new one opens the same data.
  Task<void> restart() {
    co_await end_peers();
    const Status closed = co_await broker->close();
    EXPECT_TRUE(closed.is_ok()) << closed.to_string();
    broker = std::make_unique<Broker>(
        runtime, config, *metadata, std::vector<LedgerStore*>{ledgers.get()},
        BrokerAddresses{"pulsar://localhost:6650", "http://localhost:8080"});
    const Status opened = co_await broker->open();
    EXPECT_TRUE(opened.is_ok()) << opened.to_string();
  }
  std::int64_t backlog(const std::string& topic) {
    const auto loaded = broker->loaded_topic(*TopicName::parse(topic));
    return loaded == nullptr ? -1 : loaded->subscription("s")->cursor()->backlog_entries();
  }

  std::uint64_t sequence_ = 0;
  std::vector<std::string> came_;
  proto::MessageIdData last_id_;
};

TEST_F(TransactionSessionTest, FindsTheCoordinator) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    Command command;
    command.set_type(Command::PARTITIONED_METADATA);
    command.mutable_partitionmetadata()->set_topic(
        "persistent://pulsar/system/transaction_coordinator_assign");
    command.mutable_partitionmetadata()->set_request_id(7);
    client.send(command);
    EXPECT_EQ((co_await client.next()).partitionmetadataresponse().partitions(), 1U);
    command.Clear();
    command.set_type(Command::TC_CLIENT_CONNECT_REQUEST);
    command.mutable_tcclientconnectrequest()->set_request_id(8);
    command.mutable_tcclientconnectrequest()->set_tc_id(0);
    client.send(command);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::TC_CLIENT_CONNECT_RESPONSE);
    EXPECT_EQ(answer.tcclientconnectresponse().request_id(), 8U);
    EXPECT_FALSE(answer.tcclientconnectresponse().has_error());
    command.mutable_tcclientconnectrequest()->set_tc_id(7);
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.tcclientconnectresponse().error(), proto::TransactionCoordinatorNotFound);
    EXPECT_TRUE(answer.tcclientconnectresponse().has_message());
    // Nobody gets at the logs as topics.
    const Command refused =
        co_await produce(client, "persistent://pulsar/system/__transaction_log_0", 1);
    EXPECT_EQ(refused.error().error(), proto::NotAllowedError);
  });
}

TEST_F(TransactionSessionTest, WhatIsSentShowsAtTheCommitAndNotBefore) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await produce(client, kOther, 2, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1);
    (void)co_await subscribe(reader, kOther, "s", 2);
    flow(reader, 1, 100);
    flow(reader, 2, 100);
    const TxnId txn = co_await begin(client);
    Command answer = co_await add_topic(client, txn, kTopic);
    EXPECT_EQ(answer.type(), Command::ADD_PARTITION_TO_TXN_RESPONSE);
    EXPECT_FALSE(answer.addpartitiontotxnresponse().has_error());
    EXPECT_TRUE(answer.addpartitiontotxnresponse().has_txnid_most_bits());
    (void)co_await add_topic(client, txn, kOther);
    (void)co_await send(client, 1, "before");
    EXPECT_EQ((co_await send(client, 1, "a", txn)).type(), Command::SEND_RECEIPT);
    EXPECT_EQ((co_await send(client, 2, "b", txn)).type(), Command::SEND_RECEIPT);
    (void)co_await send(client, 1, "after");
    EXPECT_EQ(co_await received(reader), "before");
    answer = co_await end(client, txn, true);
    EXPECT_EQ(answer.type(), Command::END_TXN_RESPONSE);
    EXPECT_FALSE(answer.endtxnresponse().has_error()) << answer.endtxnresponse().message();
    EXPECT_EQ(co_await received(reader), "a after b");
    EXPECT_EQ((co_await end(client, txn, true)).endtxnresponse().error(),
              proto::TransactionNotFound);
    EXPECT_EQ((co_await send(client, 1, "late", txn)).type(), Command::SEND_ERROR);
  });
}

TEST_F(TransactionSessionTest, WhatIsAbortedNeverShows) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1, proto::CommandSubscribe::Shared);
    flow(reader, 1, 100);
    (void)co_await send(client, 1, "first");
    EXPECT_EQ(co_await received(reader), "first");
    const auto first = last_id_;
    const TxnId txn = co_await begin(client);
    (void)co_await add_topic(client, txn, kTopic);
    (void)co_await send(client, 1, "never", txn);
    EXPECT_FALSE((co_await end(client, txn, false)).endtxnresponse().has_error());
    EXPECT_EQ(co_await received(reader), "");
    // Neither it nor the marker counts as a message.
    (void)co_await ack(reader, 1, first, std::nullopt);
    EXPECT_EQ(backlog(kTopic), 0);
    Command command;
    command.set_type(Command::GET_LAST_MESSAGE_ID);
    command.mutable_getlastmessageid()->set_consumer_id(1);
    command.mutable_getlastmessageid()->set_request_id(9);
    reader.send(command);
    const Command last = co_await reader.next();
    EXPECT_EQ(last.getlastmessageidresponse().last_message_id().entryid(), first.entryid());
    (void)co_await subscribe(reader, kTopic, "later", 2);
    flow(reader, 2, 100);
    EXPECT_EQ(co_await received(reader), "first");
  });
}

// As clients written in Go send: the entry itself says nothing of the transaction.
TEST_F(TransactionSessionTest, TheTransactionMayBeNamedInTheCommandOnly) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 1);
    const TxnId committed = co_await begin(client);
    const TxnId aborted = co_await begin(client);
    (void)co_await add_topic(client, committed, kTopic);
    (void)co_await add_topic(client, aborted, kTopic);
    Command answer = co_await send(client, 1, "never", aborted, std::nullopt);
    EXPECT_EQ(answer.type(), Command::SEND_RECEIPT);
    answer = co_await send(client, 1, "seen", committed, std::nullopt);
    EXPECT_EQ(answer.type(), Command::SEND_RECEIPT);
    co_await restart();
    TestPeer& later = *co_await connected_peer();
    (void)co_await subscribe(later, kTopic, "s", 1);
    flow(later, 1, 100);
    EXPECT_EQ(co_await received(later), "");
    EXPECT_FALSE((co_await end(later, aborted, false)).endtxnresponse().has_error());
    EXPECT_FALSE((co_await end(later, committed, true)).endtxnresponse().has_error());
    EXPECT_EQ(co_await received(later), "seen");
  });
}

TEST_F(TransactionSessionTest, RefusesWhatWasNotAnnounced) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    const TxnId txn = co_await begin(client);
    Command answer = co_await send(client, 1, "x", txn);
    EXPECT_EQ(answer.type(), Command::SEND_ERROR);
    EXPECT_EQ(answer.send_error().error(), proto::NotAllowedError);
    (void)co_await add_topic(client, txn, kTopic);
    const TxnId another{0, 55};
    EXPECT_EQ((co_await send(client, 1, "x", txn, another)).type(), Command::SEND_ERROR);
    EXPECT_EQ((co_await send(client, 1, "x", std::nullopt, txn)).type(), Command::SEND_ERROR);
    const TxnId unknown{txn.most_bits, 999};
    answer = co_await add_topic(client, unknown, kTopic);
    EXPECT_EQ(answer.addpartitiontotxnresponse().error(), proto::TransactionNotFound);
    const TxnId elsewhere{55, 0};
    answer = co_await add_topic(client, elsewhere, kTopic);
    EXPECT_EQ(answer.addpartitiontotxnresponse().error(), proto::TransactionCoordinatorNotFound);
    EXPECT_EQ(answer.addpartitiontotxnresponse().txnid_most_bits(), 55U);
    (void)co_await produce(client, "non-persistent://public/default/n", 2, "p");
    answer = co_await add_topic(client, txn, "non-persistent://public/default/n");
    EXPECT_EQ(answer.addpartitiontotxnresponse().error(), proto::NotAllowedError);
    EXPECT_EQ((co_await send(client, 2, "x", txn)).type(), Command::SEND_ERROR);
  });
}

TEST_F(TransactionSessionTest, AcknowledgementsCountAtTheCommit) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 1, proto::CommandSubscribe::Shared);
    (void)co_await send(client, 1, "a");
    (void)co_await send(client, 1, "b");
    flow(client, 1, 100);
    EXPECT_EQ(co_await received(client), "a b");
    const auto id = last_id_;
    const TxnId one = co_await begin(client);
    const TxnId two = co_await begin(client);
    Command answer = co_await ack(client, 1, id, one);
    EXPECT_EQ(answer.type(), Command::ACK_RESPONSE);
    EXPECT_EQ(answer.ackresponse().error(), proto::NotAllowedError);  // not announced
    answer = co_await add_subscription(client, one, kTopic, "s");
    EXPECT_EQ(answer.type(), Command::ADD_SUBSCRIPTION_TO_TXN_RESPONSE);
    EXPECT_FALSE(answer.addsubscriptiontotxnresponse().has_error());
    (void)co_await add_subscription(client, two, kTopic, "s");
    EXPECT_FALSE((co_await ack(client, 1, id, one)).ackresponse().has_error());
    EXPECT_EQ((co_await ack(client, 1, id, two)).ackresponse().error(), proto::TransactionConflict);
    EXPECT_EQ(backlog(kTopic), 2);
    EXPECT_FALSE((co_await end(client, one, true)).endtxnresponse().has_error());
    EXPECT_EQ(backlog(kTopic), 1);
    EXPECT_EQ((co_await ack(client, 1, id, two)).ackresponse().error(), proto::TransactionConflict);
    EXPECT_FALSE((co_await end(client, two, false)).endtxnresponse().has_error());
  });
}

TEST_F(TransactionSessionTest, AbortedAcknowledgementsAreDeliveredAgain) {
  run_with_broker([this]() -> Task<void> {
    static constexpr proto::CommandSubscribe::SubType kTypes[] = {
        proto::CommandSubscribe::Shared, proto::CommandSubscribe::Key_Shared,
        proto::CommandSubscribe::Exclusive};
    for (const auto type : kTypes) {
      TestPeer& client = *co_await connected_peer();
      const std::string topic = kTopic + std::to_string(type);
      (void)co_await produce(client, topic, 1, "p");
      (void)co_await subscribe(client, topic, "s", 1, type);
      (void)co_await send(client, 1, "a");
      flow(client, 1, 100);
      EXPECT_EQ(co_await received(client), "a");
      const TxnId txn = co_await begin(client);
      (void)co_await add_subscription(client, txn, topic, "s");
      EXPECT_FALSE((co_await ack(client, 1, last_id_, txn)).ackresponse().has_error());
      // Its consumer goes: nobody else gets it while the transaction is open.
      Command close;
      close.set_type(Command::CLOSE_CONSUMER);
      close.mutable_close_consumer()->set_consumer_id(1);
      close.mutable_close_consumer()->set_request_id(11);
      client.send(close);
      (void)co_await client.next();
      TestPeer& second = *co_await connected_peer();
      (void)co_await subscribe(second, topic, "s", 2, type);
      flow(second, 2, 100);
      EXPECT_EQ(co_await received(second), "");
      EXPECT_FALSE((co_await end(client, txn, false)).endtxnresponse().has_error());
      EXPECT_EQ(co_await received(second), "a") << type;
      EXPECT_EQ(backlog(topic), 1);
    }
  });
}

TEST_F(TransactionSessionTest, CumulativeAcknowledgements) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 1);
    (void)co_await send(client, 1, "a");
    (void)co_await send(client, 1, "b");
    (void)co_await send(client, 1, "c");
    flow(client, 1, 100);
    EXPECT_EQ(co_await received(client), "a b c");
    TxnId txn = co_await begin(client);
    (void)co_await add_subscription(client, txn, kTopic, "s");
    EXPECT_FALSE((co_await ack(client, 1, last_id_, txn, true)).ackresponse().has_error());
    (void)co_await end(client, txn, false);
    EXPECT_EQ(backlog(kTopic), 3);
    EXPECT_EQ(co_await received(client), "");
    Command redeliver;
    redeliver.set_type(Command::REDELIVER_UNACKNOWLEDGED_MESSAGES);
    redeliver.mutable_redeliverunacknowledgedmessages()->set_consumer_id(1);
    client.send(redeliver);
    EXPECT_EQ(co_await received(client), "a b c");
    txn = co_await begin(client);
    (void)co_await add_subscription(client, txn, kTopic, "s");
    EXPECT_FALSE((co_await ack(client, 1, last_id_, txn, true)).ackresponse().has_error());
    (void)co_await end(client, txn, true);
    EXPECT_EQ(backlog(kTopic), 0);
  });
}

TEST_F(TransactionSessionTest, ATransactionSurvivesARestart) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await produce(client, kOther, 2, "p");
    (void)co_await subscribe(client, kOther, "s", 1, proto::CommandSubscribe::Shared);
    (void)co_await send(client, 2, "in");
    flow(client, 1, 100);
    EXPECT_EQ(co_await received(client), "in");
    const TxnId txn = co_await begin(client);
    const TxnId aborted = co_await begin(client);
    (void)co_await add_topic(client, txn, kTopic);
    (void)co_await add_topic(client, aborted, kTopic);
    (void)co_await add_subscription(client, txn, kOther, "s");
    (void)co_await send(client, 1, "never", aborted);
    (void)co_await end(client, aborted, false);
    (void)co_await send(client, 1, "out", txn);
    EXPECT_FALSE((co_await ack(client, 1, last_id_, txn)).ackresponse().has_error());
    co_await restart();
    TestPeer& later = *co_await connected_peer();
    (void)co_await subscribe(later, kTopic, "r", 1);
    (void)co_await subscribe(later, kOther, "s", 2, proto::CommandSubscribe::Shared);
    flow(later, 1, 100);
    flow(later, 2, 100);
    EXPECT_EQ(co_await received(later), "");
    EXPECT_EQ(backlog(kOther), 1);
    EXPECT_FALSE((co_await end(later, txn, true)).endtxnresponse().has_error());
    EXPECT_EQ(co_await received(later), "out");
    EXPECT_EQ(backlog(kOther), 0);
    co_await restart();
    TestPeer& last = *co_await connected_peer();
    (void)co_await subscribe(last, kTopic, "r2", 1);
    flow(last, 1, 100);
    EXPECT_EQ(co_await received(last), "out");
  });
}

TEST_F(TransactionSessionTest, AnOldTransactionEndsByItself) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1);
    flow(reader, 1, 100);
    const TxnId txn = co_await begin(client, 60);
    (void)co_await add_topic(client, txn, kTopic);
    (void)co_await send(client, 1, "forgotten", txn);
    (void)co_await send(client, 1, "waiting");
    const Command message = co_await reader.next();
    EXPECT_EQ(message.type(), Command::MESSAGE);
    EXPECT_EQ(payload_of(reader), "waiting");
    // The topic hears of it before the coordinator has noted that all have.
    auto error = proto::InvalidTxnStatus;
    for (int i = 0; i < 500 && error == proto::InvalidTxnStatus; ++i) {
      error = (co_await end(client, txn, true)).endtxnresponse().error();
      co_await sleep_for(Millis(1));
    }
    EXPECT_EQ(error, proto::TransactionNotFound);
  });
}

TEST_F(TransactionSessionTest, EndsOnOneTopicOrSubscriptionWhenABrokerAsks) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1);
    flow(reader, 1, 100);
    const TxnId txn = co_await begin(client);
    (void)co_await add_topic(client, txn, kTopic);
    (void)co_await send(client, 1, "a", txn);
    Command command;
    command.set_type(Command::END_TXN_ON_PARTITION);
    auto& on_topic = *command.mutable_endtxnonpartition();
    on_topic.set_request_id(20);
    on_topic.set_txnid_least_bits(txn.least_bits);
    on_topic.set_txnid_most_bits(txn.most_bits);
    on_topic.set_topic(kTopic);
    on_topic.set_txn_action(proto::COMMIT);
    client.send(command);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::END_TXN_ON_PARTITION_RESPONSE);
    EXPECT_FALSE(answer.endtxnonpartitionresponse().has_error());
    EXPECT_EQ(co_await received(reader), "a");
    command.Clear();
    command.set_type(Command::END_TXN_ON_SUBSCRIPTION);
    auto& on_subscription = *command.mutable_endtxnonsubscription();
    on_subscription.set_request_id(21);
    on_subscription.set_txnid_least_bits(txn.least_bits);
    on_subscription.set_txnid_most_bits(txn.most_bits);
    on_subscription.mutable_subscription()->set_topic("persistent://public/default/gone");
    on_subscription.mutable_subscription()->set_subscription("s");
    on_subscription.set_txn_action(proto::ABORT);
    client.send(command);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::END_TXN_ON_SUBSCRIPTION_RESPONSE);
    EXPECT_FALSE(answer.endtxnonsubscriptionresponse().has_error());  // what is gone is done
  });
}

TEST_F(TransactionSessionTest, WhatNoCoordinatorKnowsBlocksNobody) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1, proto::CommandSubscribe::Shared);
    flow(reader, 1, 100);
    (void)co_await send(client, 1, "first");
    EXPECT_EQ(co_await received(reader), "first");
    const TxnId known = co_await begin(client);
    (void)co_await add_topic(client, known, kTopic);
    (void)co_await add_subscription(client, known, kTopic, "s");
    const TxnId unknown{0, 777};
    const TxnId late{0, 778};
    EXPECT_EQ((co_await send(client, 1, "never", unknown)).type(), Command::SEND_RECEIPT);
    EXPECT_FALSE((co_await ack(reader, 1, last_id_, late)).ackresponse().has_error());
    (void)co_await send(client, 1, "known", known);
    (void)co_await send(client, 1, "after");
    const auto topic = broker->loaded_topic(*TopicName::parse(kTopic));
    co_await static_cast<PersistentTopic&>(*topic).abort_orphans();
    EXPECT_EQ(co_await received(reader), "first");  // acknowledged by nobody: again
    EXPECT_FALSE((co_await end(client, known, true)).endtxnresponse().has_error());
    EXPECT_EQ(co_await received(reader), "after known");
    // The same by the low watermark that comes with an end.
    const TxnId orphan{0, 900};
    const TxnId other{0, 1000};
    EXPECT_EQ((co_await send(client, 1, "never", orphan)).type(), Command::SEND_RECEIPT);
    (void)co_await send(client, 1, "last");
    const Status ended = co_await topic->end_transaction(other, true, 950);
    EXPECT_TRUE(ended.is_ok());
    EXPECT_EQ(co_await received(reader), "last");
  });
}

TEST_F(TransactionSessionTest, ATerminatedTopicKeepsHowItsTransactionsEnded) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    const TxnId committed = co_await begin(client);
    const TxnId aborted = co_await begin(client);
    (void)co_await add_topic(client, committed, kTopic);
    (void)co_await add_topic(client, aborted, kTopic);
    (void)co_await send(client, 1, "seen", committed);
    (void)co_await send(client, 1, "never", aborted);
    const auto topic = broker->loaded_topic(*TopicName::parse(kTopic));
    EXPECT_TRUE((co_await topic->terminate()).is_ok());
    (void)co_await client.next();  // CLOSE_PRODUCER
    EXPECT_FALSE((co_await end(client, committed, true)).endtxnresponse().has_error());
    EXPECT_FALSE((co_await end(client, aborted, false)).endtxnresponse().has_error());
    co_await restart();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await subscribe(reader, kTopic, "s", 1);
    flow(reader, 1, 100);
    EXPECT_EQ(co_await received(reader), "seen");
  });
}

TEST_F(TransactionSessionTest, DeduplicationHoldsForTransactions) {
  config.broker_deduplication_enabled = true;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1);
    flow(reader, 1, 100);
    const TxnId txn = co_await begin(client);
    (void)co_await add_topic(client, txn, kTopic);
    (void)co_await send(client, 1, "once", txn);
    --sequence_;
    const Command again = co_await send(client, 1, "once", txn);
    EXPECT_EQ(again.type(), Command::SEND_RECEIPT);
    EXPECT_EQ(static_cast<std::int64_t>(again.send_receipt().message_id().entryid()), -1);
    EXPECT_FALSE((co_await end(client, txn, true)).endtxnresponse().has_error());
    EXPECT_EQ(co_await received(reader), "once");
    // A message that was refused because its transaction has ended may be sent in another one.
    EXPECT_EQ((co_await send(client, 1, "late", txn)).type(), Command::SEND_ERROR);
    --sequence_;
    EXPECT_EQ((co_await send(client, 1, "outside")).type(), Command::SEND_RECEIPT);
    EXPECT_EQ(co_await received(reader), "outside");
  });
}

TEST_F(TransactionSessionTest, LeavesNothingBehindWithTheTopic) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 1);
    const TxnId txn = co_await begin(client);
    (void)co_await add_topic(client, txn, kTopic);
    (void)co_await add_subscription(client, txn, kTopic, "s");
    auto before = co_await list_managed_ledgers(*metadata, "public/default/persistent");
    EXPECT_EQ(before->size(), 2U);
    const auto listed = co_await broker->list_topics("public/default", true, true, false);
    EXPECT_EQ(*listed, std::vector<std::string>{kTopic});
    const Status deleted = co_await broker->delete_topic(*TopicName::parse(kTopic), true);
    EXPECT_TRUE(deleted.is_ok()) << deleted.to_string();
    const auto after = co_await list_managed_ledgers(*metadata, "public/default/persistent");
    EXPECT_TRUE(after->empty());
    EXPECT_FALSE((co_await end(client, txn, true)).endtxnresponse().has_error());
  });
}

}  // namespace
}  // namespace geminga
