// Transactions as a client sees them: every command, over a peer in memory, and what a restart of
// the broker in the middle leaves.
#include "broker/persistent_topic.h"
#include "broker/transaction_test_support.h"
#include "broker/transactions.h"

namespace geminga {
namespace {

using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";
constexpr char kOther[] = "persistent://public/default/u";

using TransactionSessionTest = testing::TransactionWorld;

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
    EXPECT_EQ(unacked(kTopic), 1) << "its consumer has done with it";
    EXPECT_FALSE((co_await end(client, one, true)).endtxnresponse().has_error());
    EXPECT_EQ(backlog(kTopic), 1);
    EXPECT_EQ(unacked(kTopic), 1);
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
      if (type != proto::CommandSubscribe::Exclusive) {
        const TxnId other = co_await begin(client);
        (void)co_await add_subscription(client, other, topic, "s");
        (void)co_await ack(client, 1, last_id_, other);
        EXPECT_EQ(unacked(topic), 0);
        EXPECT_FALSE((co_await end(client, other, false)).endtxnresponse().has_error());
        EXPECT_EQ(co_await received(client), "a") << "by the same consumer";
        EXPECT_EQ(unacked(topic), 1);
      }
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
