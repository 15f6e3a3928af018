#include "broker/entry_stamp.h"

#include "broker/broker_test_support.h"
#include "broker/transaction_test_support.h"
#include "wire/message_metadata.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::make_entry;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";
constexpr char kIndex[] = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor";
constexpr char kTime[] =
    "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor";

TEST(EntryStampParts, AreNamedByPulsarsClasses) {
  EXPECT_FALSE(parse_entry_stamp("")->index);
  EXPECT_TRUE(parse_entry_stamp(kIndex)->index);
  EXPECT_FALSE(parse_entry_stamp(kIndex)->timestamp);
  const auto both = parse_entry_stamp(std::string(" ") + kTime + " , " + kIndex + ",");
  EXPECT_TRUE(both->index && both->timestamp);
  EXPECT_NE(parse_entry_stamp("com.example.Mine").status().message().find("'com.example.Mine'"),
            std::string::npos);
}

class EntryStampTest : public BrokerWorld {
 protected:
  static TopicName name() { return *TopicName::parse(kTopic); }
  ManagedLedger& log() { return *broker->loaded_topic(name())->managed_ledger(); }
  Task<TestPeer*> producing_peer() {
    TestPeer* client = co_await connected_peer();
    EXPECT_EQ((co_await produce(*client, kTopic, 1, "p")).type(), Command::PRODUCER_SUCCESS);
    co_return client;
  }
  Task<void> publish(TestPeer& client, std::int32_t batch = 0) {
    client.send_message(1, static_cast<std::uint64_t>(sent_),
                        make_entry("p", sent_, "m" + std::to_string(sent_), batch), {},
                        std::max(batch, 1));
    ++sent_;
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
  }
  // The broker's metadata of the newest entry.
  Task<EntryMetadata> newest() {
    entries_ = *co_await log().read(log().last_confirmed(), 1, 1);
    EXPECT_EQ(verify_checksum(entries_[0].data.span()), ChecksumVerdict::Ok);
    co_return *parse_entry_metadata(entries_[0].data.span());
  }
  Task<std::int64_t> index() {
    const EntryMetadata metadata = co_await newest();
    co_return metadata.index.value_or(-1);
  }
  Task<void> restart() {
    co_await end_peers();
    EXPECT_TRUE((co_await broker->close()).is_ok());
    broker = std::make_unique<Broker>(
        runtime, config, *metadata, std::vector<LedgerStore*>{ledgers.get()},
        BrokerAddresses{"pulsar://localhost:6650", "http://localhost:8080"});
    EXPECT_TRUE((co_await broker->open()).is_ok());
  }
  std::int64_t sent_ = 0;
  std::vector<Entry> entries_;
};

TEST_F(EntryStampTest, CountsMessagesAndTellsTheTime) {
  config.broker_entry_metadata_interceptors = std::string(kTime) + "," + kIndex;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await producing_peer();
    co_await publish(client);
    const EntryMetadata first = co_await newest();
    EXPECT_EQ(first.index, 0);
    EXPECT_NEAR(static_cast<double>(*first.broker_timestamp), static_cast<double>(now_ms()), 5000);
    EXPECT_EQ(first.timestamp(), *first.broker_timestamp) << "by which it is sought and expires";
    co_await publish(client, 10);
    EXPECT_EQ(co_await index(), 10) << "of the last message of a batch";
    co_await publish(client);
    EXPECT_EQ(co_await index(), 11);
  });
}

TEST_F(EntryStampTest, AnIndexGoesOnWhateverHappens) {
  config.broker_entry_metadata_interceptors = kIndex;
  run_with_broker([this]() -> Task<void> {
    TestPeer* client = co_await producing_peer();
    EXPECT_TRUE(
        (co_await broker->loaded_topic(name())->create_subscription("s", Position::earliest(), {}))
            .is_ok());
    for (int i = 0; i < 3; ++i) co_await publish(*client);
    co_await restart();
    client = co_await producing_peer();
    co_await publish(*client);
    EXPECT_EQ(co_await index(), 3) << "from the last entry";
    // Everything is trimmed, and nothing new was written.
    EXPECT_TRUE((co_await log().truncate()).is_ok());
    EXPECT_EQ(log().total_entries(), 0);
    co_await restart();
    client = co_await producing_peer();
    co_await publish(*client, 5);
    EXPECT_EQ(co_await index(), 8) << "from the property";
    std::map<std::string, std::string> properties;
    properties["k"] = "v";
    EXPECT_TRUE((co_await log().set_properties(std::move(properties))).is_ok());
    EXPECT_EQ(log().properties().at("index"), "8") << "others' properties do not put it out";
    // Off for a while: nothing is put in front, and it is counted all the same.
    config.broker_entry_metadata_interceptors = "";
    co_await restart();
    client = co_await producing_peer();
    co_await publish(*client, 4);
    EXPECT_FALSE((co_await newest()).index);
    EXPECT_TRUE((co_await log().rollover()).is_ok());
    config.broker_entry_metadata_interceptors = kIndex;
    co_await restart();
    client = co_await producing_peer();
    co_await publish(*client);
    EXPECT_EQ(co_await index(), 13);
  });
}

TEST_F(EntryStampTest, WhatIsPublishedWithoutAnIndexDoesNotBuryTheLastOne) {
  config.broker_entry_metadata_interceptors = kIndex;
  run_with_broker([this]() -> Task<void> {
    TestPeer* client = co_await producing_peer();
    // Far more than there are messages, so that their number does not help.
    co_await publish(*client, 1000);
    EXPECT_TRUE((co_await log().truncate()).is_ok());
    co_await publish(*client);
    co_await publish(*client);
    EXPECT_EQ(co_await index(), 1001);
    config.broker_entry_metadata_interceptors = "";
    co_await restart();
    client = co_await producing_peer();
    for (int i = 0; i < 150; ++i) co_await publish(*client);
    config.broker_entry_metadata_interceptors = kIndex;
    co_await restart();
    client = co_await producing_peer();
    co_await publish(*client);
    EXPECT_GT(co_await index(), 1001);
  });
}

class EntryStampTransactionTest : public testing::TransactionWorld {};

TEST_F(EntryStampTransactionTest, MarkersDoNotBuryTheLastIndex) {
  config.broker_entry_metadata_interceptors = kIndex;
  run_with_broker([this]() -> Task<void> {
    TestPeer* client = co_await connected_peer();
    (void)co_await produce(*client, kTopic, 1, "p");
    client->send_message(1, sequence_, make_entry("p", 0, "m", 1000), sequence_ + 999, 1000);
    sequence_ += 1000;
    EXPECT_EQ((co_await client->next()).type(), Command::SEND_RECEIPT);
    const auto log = [this] {
      return broker->loaded_topic(*TopicName::parse(kTopic))->managed_ledger();
    };
    EXPECT_TRUE((co_await log()->truncate()).is_ok());
    std::vector<TxnId> open;
    for (int i = 0; i < 120; ++i) {
      open.push_back(co_await begin(*client));
      (void)co_await add_topic(*client, open.back(), kTopic);
      EXPECT_EQ((co_await send(*client, 1, "m", open.back())).type(), Command::SEND_RECEIPT);
    }
    for (const TxnId& txn : open)
      EXPECT_FALSE((co_await end(*client, txn, true)).endtxnresponse().has_error());
    co_await restart();
    client = co_await connected_peer();
    (void)co_await produce(*client, kTopic, 1, "p");
    (void)co_await send(*client, 1, "m");
    const auto entries = co_await log()->read(log()->last_confirmed(), 1, 1);
    EXPECT_EQ(parse_entry_metadata(entries->front().data.span())->index, 1120);
  });
}

TEST_F(EntryStampTest, OnlyClientsThatAskGetIt) {
  config.broker_entry_metadata_interceptors = kIndex;
  config.exposing_broker_entry_metadata_to_client_enabled = true;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await producing_peer();
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 7)).type(), Command::SUCCESS);
    flow(client, 7, 10);
    TestPeer& asking = peer();
    Command connect;
    connect.set_type(Command::CONNECT);
    connect.mutable_connect()->set_client_version("Pulsar-Java-v4.0.8");
    connect.mutable_connect()->set_protocol_version(20);
    connect.mutable_connect()->mutable_feature_flags()->set_supports_broker_entry_metadata(true);
    asking.send(connect);
    EXPECT_EQ((co_await asking.next()).type(), Command::CONNECTED);
    EXPECT_EQ((co_await subscribe(asking, kTopic, "other", 8)).type(), Command::SUCCESS);
    flow(asking, 8, 10);
    client.send_message(1, 0, make_entry("p", 0, "m"));
    for (int i = 0; i < 2; ++i) {
      const auto got = (co_await client.next()).type();
      if (got == Command::MESSAGE) {
        EXPECT_EQ(client.rest(), make_entry("p", 0, "m").view());
      }
    }
    EXPECT_EQ((co_await asking.next()).type(), Command::MESSAGE);
    const auto metadata = parse_entry_metadata(std::as_bytes(std::span(asking.rest())));
    EXPECT_TRUE(metadata.is_ok());
    EXPECT_EQ(metadata->index, 0);
  });
}

TEST_F(EntryStampTest, WhatAClientPutInFrontIsNotBelieved) {
  config.broker_entry_metadata_interceptors = kIndex;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await producing_peer();
    const Buffer plain = make_entry("p", 0, "m");
    std::string forged("\x0e\x02\x00\x00\x00\x02\x10\x63", 8);  // index 99
    forged += plain.view();
    client.send_message(1, 0, Buffer::copy_of(forged));
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
    EXPECT_EQ(co_await index(), 0);
  });
}

}  // namespace
}  // namespace geminga
