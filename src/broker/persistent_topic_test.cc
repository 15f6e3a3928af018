// Topics that are stored: failures of the log, subscriptions, the last message, deduplication,
// deletion.
#include "broker/persistent_topic.h"

#include "broker/broker_test_support.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::Fault;
using testing::make_entry;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";

class PersistentTopicTest : public BrokerWorld {
 protected:
  static TopicName name() { return *TopicName::parse(kTopic); }
  std::shared_ptr<Topic> topic() { return broker->loaded_topic(name()); }
  Task<void> publish(TestPeer& peer, std::uint64_t producer_id, std::string producer,
                     std::uint64_t first, std::uint64_t count, std::int32_t batch = 0) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      peer.send_message(producer_id, i,
                        make_entry(producer, static_cast<std::int64_t>(i), "m", batch), {},
                        std::max(batch, 1));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_EQ((co_await peer.next()).type(), Command::SEND_RECEIPT);
    }
  }
};

TEST_F(PersistentTopicTest, ReopensAfterAFailedWrite) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    // Without it the first ledger would be trimmed as soon as the failure ends it.
    const Status subscribed = co_await topic()->create_subscription("s", Position::earliest(), {});
    EXPECT_TRUE(subscribed.is_ok()) << subscribed.to_string();
    co_await publish(client, 1, "p", 0, 2);
    ledgers->faults().decide = [](const std::string& op,
                                  const std::string&) -> std::optional<Fault> {
      if (op != "append") return std::nullopt;
      return Fault{Status::Io("the disk is gone"), false};
    };
    client.send_message(1, 2, make_entry("p", 2, "m"));
    client.send_message(1, 3, make_entry("p", 3, "m"));
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    ledgers->faults().heal();
    Command again = co_await produce(client, kTopic, 1, "p");
    for (int i = 0; i < 50 && again.type() == Command::ERROR; ++i) {
      EXPECT_EQ(again.error().error(), proto::ServiceNotReady);
      co_await sleep_for(Millis(2));
      again = co_await produce(client, kTopic, 1, "p");
    }
    EXPECT_EQ(again.type(), Command::PRODUCER_SUCCESS);
    co_await publish(client, 1, "p", 2, 2);
    EXPECT_EQ(topic()->managed_ledger()->total_entries(), 4);
    // Every acknowledged entry is delivered, once and in order.
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 9)).type(), Command::SUCCESS);
    flow(client, 9, 10);
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ((co_await client.next()).type(), Command::MESSAGE);
      EXPECT_EQ(client.rest(), make_entry("p", i, "m").view());
    }
    co_await sleep_for(Millis(5));
    EXPECT_TRUE(client.silent());
  });
}

TEST_F(PersistentTopicTest, AFailedWriteTrimsOnlyWhatNobodySubscribedTo) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 1, "p", 0, 2);
    int left = 1;
    ledgers->faults().decide = [&left](const std::string& op,
                                       const std::string&) -> std::optional<Fault> {
      if (op != "append" || left-- <= 0) return std::nullopt;
      return Fault{Status::Io("the ledger is gone"), false};
    };
    co_await publish(client, 1, "p", 2, 2);  // go on in a new ledger
    ledgers->faults().heal();
    ManagedLedger& log = *topic()->managed_ledger();
    for (int i = 0; i < 500 && log.ledgers().size() > 1; ++i) co_await sleep_for(Millis(1));
    EXPECT_EQ(log.total_entries(), 2);
  });
}

TEST_F(PersistentTopicTest, RefusesProducersWhileTheDiskIsFull) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    ledgers->set_writable(false);
    client.send_message(1, 0, make_entry("p", 0, "m"));
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    const Command refused = co_await produce(client, kTopic, 1, "p");
    EXPECT_EQ(refused.error().error(), proto::ProducerBlockedQuotaExceededException);
    // Consumers are served.
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 1)).type(), Command::SUCCESS);
    ledgers->set_writable(true);
    EXPECT_EQ((co_await produce(client, kTopic, 1, "p")).type(), Command::PRODUCER_SUCCESS);
    co_await publish(client, 1, "p", 0, 1);
  });
}

TEST_F(PersistentTopicTest, TellsTheLastMessage) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 3);
    Command ask;
    ask.set_type(Command::GET_LAST_MESSAGE_ID);
    ask.mutable_getlastmessageid()->set_consumer_id(3);
    ask.mutable_getlastmessageid()->set_request_id(1);
    client.send(ask);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::GET_LAST_MESSAGE_ID_RESPONSE);
    EXPECT_EQ(answer.getlastmessageidresponse().last_message_id().entryid(), ~std::uint64_t{0});
    co_await publish(client, 1, "p", 0, 2);
    co_await publish(client, 1, "p", 2, 1, 5);
    client.send(ask);
    answer = co_await client.next();
    EXPECT_EQ(answer.getlastmessageidresponse().last_message_id().entryid(), 2U);
    EXPECT_EQ(answer.getlastmessageidresponse().last_message_id().batch_index(), 4);
    EXPECT_TRUE(answer.getlastmessageidresponse().has_consumer_mark_delete_position());
    ask.mutable_getlastmessageid()->set_consumer_id(9);
    client.send(ask);
    answer = co_await client.next();
    EXPECT_EQ(answer.error().error(), proto::MetadataError);
    EXPECT_EQ(answer.error().message(), "Consumer not found");
  });
}

TEST_F(PersistentTopicTest, SeeksWithCloseConsumerBeforeSuccess) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 1, "p", 0, 5);
    (void)co_await subscribe(client, kTopic, "s", 3);
    Command seek;
    seek.set_type(Command::SEEK);
    seek.mutable_seek()->set_consumer_id(3);
    seek.mutable_seek()->set_request_id(11);
    seek.mutable_seek()->set_message_publish_time(1'700'000'000'003);
    client.send(seek);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::CLOSE_CONSUMER);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::SUCCESS);
    EXPECT_EQ(answer.success().request_id(), 11U);
    (void)co_await subscribe(client, kTopic, "s", 3);
    flow(client, 3, 1);
    answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::MESSAGE);
    EXPECT_EQ(answer.message().message_id().entryid(), 3U);
  });
}

TEST_F(PersistentTopicTest, DeletesASubscriptionOnUnsubscribe) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await subscribe(client, kTopic, "s", 1, proto::CommandSubscribe::Shared);
    (void)co_await subscribe(client, kTopic, "s", 2, proto::CommandSubscribe::Shared);
    Command command;
    command.set_type(Command::UNSUBSCRIBE);
    command.mutable_unsubscribe()->set_consumer_id(1);
    command.mutable_unsubscribe()->set_request_id(5);
    client.send(command);
    const Command refused = co_await client.next();
    EXPECT_EQ(refused.error().error(), proto::MetadataError);
    Command close;
    close.set_type(Command::CLOSE_CONSUMER);
    close.mutable_close_consumer()->set_consumer_id(2);
    close.mutable_close_consumer()->set_request_id(6);
    client.send(close);
    (void)co_await client.next();
    client.send(command);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    EXPECT_EQ(topic()->subscription("s"), nullptr);
    EXPECT_EQ(topic()->managed_ledger()->cursor("s"), nullptr);
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 1)).type(), Command::SUCCESS);
  });
}

TEST_F(PersistentTopicTest, DropsAReaderWithItsConsumer) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 1, "p", 0, 3);
    Command command;
    command.set_type(Command::SUBSCRIBE);
    auto& reader = *command.mutable_subscribe();
    reader.set_topic(kTopic);
    reader.set_subscription("reader-1");
    reader.set_subtype(proto::CommandSubscribe::Exclusive);
    reader.set_consumer_id(4);
    reader.set_request_id(4);
    reader.set_durable(false);
    const std::int64_t ledger = topic()->managed_ledger()->last_confirmed().ledger;
    reader.mutable_start_message_id()->set_ledgerid(static_cast<std::uint64_t>(ledger));
    reader.mutable_start_message_id()->set_entryid(1);
    client.send(command);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    flow(client, 4, 10);
    EXPECT_EQ((co_await client.next()).message().message_id().entryid(), 1U);
    EXPECT_EQ((co_await client.next()).message().message_id().entryid(), 2U);
    Command close;
    close.set_type(Command::CLOSE_CONSUMER);
    close.mutable_close_consumer()->set_consumer_id(4);
    close.mutable_close_consumer()->set_request_id(6);
    client.send(close);
    (void)co_await client.next();
    EXPECT_TRUE(topic()->subscription_names().empty());
  });
}

TEST_F(PersistentTopicTest, RefusesNamesAndTypesAsPulsarDoes) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    EXPECT_EQ((co_await subscribe(client, kTopic, " ", 1)).error().error(), proto::ProducerBusy);
    EXPECT_EQ((co_await subscribe(client, kTopic, "pulsar.dedup", 2)).error().error(),
              proto::ProducerBusy);
    EXPECT_EQ((co_await subscribe(client, "nowhere/n/t", "s", 3)).error().error(),
              proto::ServiceNotReady);
    (void)co_await subscribe(client, kTopic, "s", 4, proto::CommandSubscribe::Shared);
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 5, proto::CommandSubscribe::Failover))
                  .error()
                  .error(),
              proto::ConsumerBusy);
    Command again = co_await subscribe(client, kTopic, "s", 4, proto::CommandSubscribe::Shared);
    EXPECT_EQ(again.type(), Command::SUCCESS);
  });
}

TEST_F(PersistentTopicTest, CreatesTopicsOnlyWhereThatIsAllowed) {
  config.allow_auto_topic_creation = false;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    EXPECT_EQ((co_await produce(client, kTopic, 1)).error().error(), proto::TopicNotFound);
    const Status made = co_await broker->create_partitioned_topic(
        *TopicName::parse("persistent://public/default/p"), 2, {});
    EXPECT_TRUE(made.is_ok()) << made.to_string();
    EXPECT_EQ((co_await produce(client, "p-partition-1", 2)).type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ((co_await produce(client, "p-partition-2", 3)).error().error(), proto::TopicNotFound);
  });
}

TEST_F(PersistentTopicTest, DropsDuplicates) {
  config.broker_deduplication_enabled = true;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 1, "p", 0, 3);
    client.send_message(1, 2, make_entry("p", 2, "m"));
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::SEND_RECEIPT);
    EXPECT_EQ(answer.send_receipt().message_id().ledgerid(), ~std::uint64_t{0});
    EXPECT_EQ(answer.send_receipt().message_id().entryid(), ~std::uint64_t{0});
    // A batch 5 to 7; 6 is in it.
    client.send_message(1, 5, make_entry("p", 5, "m", 3), 7, 3);
    (void)co_await client.next();
    client.send_message(1, 6, make_entry("p", 6, "m"));
    EXPECT_EQ((co_await client.next()).send_receipt().message_id().entryid(), ~std::uint64_t{0});
    EXPECT_EQ(topic()->managed_ledger()->total_entries(), 4);
    // Known again after the topic was closed, from the snapshot or by reading the entries.
    (void)co_await broker->unload_topic(name());
    (void)co_await client.next();
    const Command again = co_await produce(client, kTopic, 1, "p");
    EXPECT_EQ(again.producer_success().last_sequence_id(), 7);
  });
}

// As the C++ client and those on top of it send it.
TEST_F(PersistentTopicTest, KnowsTheLastOfABatchThatDoesNotTellIt) {
  config.broker_deduplication_enabled = true;
  run_with_broker([this]() -> Task<void> {
    TestPeer* client = co_await connected_peer();
    (void)co_await produce(*client, kTopic, 1, "p");
    client->send_message(1, 5, make_entry("p", 5, "m", 3), {}, 3);
    EXPECT_EQ((co_await client->next()).type(), Command::SEND_RECEIPT);
    client->send_message(1, 7, make_entry("p", 7, "m"));
    EXPECT_EQ((co_await client->next()).send_receipt().message_id().entryid(), ~std::uint64_t{0});
    for (int i = 0; i < 2; ++i) {
      (void)co_await broker->unload_topic(name());
      EXPECT_EQ((co_await client->next()).type(), Command::CLOSE_PRODUCER);
      const Command again = co_await produce(*client, kTopic, 1, "p");
      EXPECT_EQ(again.producer_success().last_sequence_id(), 7) << "read, then from the snapshot";
    }
  });
}

TEST_F(PersistentTopicTest, DeduplicationStoresWhatItKnowsAsConfigured) {
  config.broker_deduplication_enabled = true;
  config.broker_deduplication_entries_interval = 3;
  config.broker_deduplication_max_number_of_producers = 1;
  config.broker_deduplication_snapshot_interval_seconds = 60;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "gone");
    co_await publish(client, 1, "gone", 0, 2);
    const auto stored = [this] {
      return topic()->managed_ledger()->cursor("pulsar.dedup")->position_properties();
    };
    EXPECT_TRUE(stored().empty());
    topic()->snapshot_if_due(now_ms() + 59'000);
    EXPECT_TRUE(stored().empty());
    topic()->snapshot_if_due(now_ms() + 61'000);
    EXPECT_EQ(stored().at("gone"), 1) << "by time";
    co_await publish(client, 1, "gone", 2, 2);
    EXPECT_EQ(stored().at("gone"), 1);
    co_await publish(client, 1, "gone", 4, 1);
    EXPECT_EQ(stored().at("gone"), 4) << "by entries";
    // Of those that are not connected one is kept.
    Command close;
    close.set_type(Command::CLOSE_PRODUCER);
    close.mutable_close_producer()->set_producer_id(1);
    close.mutable_close_producer()->set_request_id(1);
    client.send(close);
    EXPECT_EQ((co_await client.next()).type(), Command::SUCCESS);
    co_await sleep_for(Millis(2));
    (void)co_await produce(client, kTopic, 2, "here");
    (void)co_await produce(client, kTopic, 3, "too");
    co_await publish(client, 2, "here", 0, 2);
    co_await sleep_for(Millis(2));
    co_await publish(client, 3, "too", 0, 1);
    EXPECT_EQ(stored().size(), 2) << "both that are connected";
    EXPECT_FALSE(stored().contains("gone"));
  });
}

TEST_F(PersistentTopicTest, DeletesTopics) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 1, "p", 0, 1);
    const Status refused = co_await broker->delete_topic(name(), false);
    EXPECT_TRUE(refused.is(ErrorCode::PreconditionFailed)) << refused.to_string();
    co_await publish(client, 1, "p", 1, 1);
    const Status deleted = co_await broker->delete_topic(name(), true);
    EXPECT_TRUE(deleted.is_ok()) << deleted.to_string();
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    EXPECT_EQ(topic(), nullptr);
    EXPECT_FALSE(*co_await broker->topic_exists(name()));
    EXPECT_TRUE((co_await broker->delete_topic(name(), true)).is(ErrorCode::TopicNotFound));
    EXPECT_EQ((co_await produce(client, kTopic, 1, "p")).type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ(topic()->managed_ledger()->total_entries(), 0);
  });
}

TEST_F(PersistentTopicTest, EndsWhenTerminated) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 1, "p", 0, 2);
    const auto last = co_await topic()->terminate();
    EXPECT_EQ(last->entry, 1);
    EXPECT_EQ((co_await client.next()).type(), Command::CLOSE_PRODUCER);
    EXPECT_EQ((co_await produce(client, kTopic, 1, "p")).error().error(),
              proto::TopicTerminatedError);
    EXPECT_EQ((co_await subscribe(client, kTopic, "s", 1)).type(), Command::SUCCESS);
  });
}

TEST_F(PersistentTopicTest, TellsWatchersOfTopics) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, "persistent://public/default/foo-1", 1);
    Command watch;
    watch.set_type(Command::WATCH_TOPIC_LIST);
    auto& request = *watch.mutable_watchtopiclist();
    request.set_request_id(1);
    request.set_watcher_id(2);
    request.set_namespace_("public/default");
    request.set_topics_pattern("persistent://public/default/foo-.*");
    client.send(watch);
    Command answer = co_await client.next();
    EXPECT_EQ(answer.type(), Command::WATCH_TOPIC_LIST_SUCCESS);
    EXPECT_EQ(answer.watchtopiclistsuccess().topic_size(), 1);
    Command created = co_await produce(client, "persistent://public/default/foo-2", 2);
    Command update = co_await client.next();
    if (created.type() == Command::WATCH_TOPIC_UPDATE) std::swap(created, update);
    EXPECT_EQ(created.type(), Command::PRODUCER_SUCCESS);
    EXPECT_EQ(update.type(), Command::WATCH_TOPIC_UPDATE);
    EXPECT_EQ(update.watchtopicupdate().new_topics(0), "persistent://public/default/foo-2");
    (void)co_await produce(client, "persistent://public/default/other", 3);
    const Status deleted =
        co_await broker->delete_topic(*TopicName::parse("persistent://public/default/foo-2"), true);
    EXPECT_TRUE(deleted.is_ok());
    for (int i = 0; i < 2; ++i) {
      answer = co_await client.next();
      if (answer.type() == Command::WATCH_TOPIC_UPDATE) break;
    }
    EXPECT_EQ(answer.watchtopicupdate().deleted_topics(0), "persistent://public/default/foo-2");
    request.set_topics_pattern("(");
    client.send(watch);
    for (int i = 0; i < 2; ++i) {
      answer = co_await client.next();
      if (answer.type() == Command::ERROR) break;
    }
    EXPECT_EQ(answer.error().error(), proto::InvalidTopicName);
  });
}

TEST_F(PersistentTopicTest, ServesNonPersistentTopics) {
  run_with_broker([this]() -> Task<void> {
    constexpr char kNonPersistent[] = "non-persistent://public/default/np";
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kNonPersistent, 1, "p");
    EXPECT_EQ((co_await subscribe(client, kNonPersistent, "s", 1)).type(), Command::SUCCESS);
    flow(client, 1, 10);
    client.send_message(1, 0, make_entry("p", 0, "m"));
    for (int i = 0; i < 2; ++i) {
      const Command answer = co_await client.next();
      const auto& id = answer.type() == Command::MESSAGE ? answer.message().message_id()
                                                         : answer.send_receipt().message_id();
      EXPECT_EQ(id.ledgerid(), 0U);
      EXPECT_EQ(id.entryid(), 0U);
    }
    Command ask;
    ask.set_type(Command::GET_LAST_MESSAGE_ID);
    ask.mutable_getlastmessageid()->set_consumer_id(1);
    ask.mutable_getlastmessageid()->set_request_id(1);
    client.send(ask);
    EXPECT_EQ((co_await client.next()).error().error(), proto::UnknownError);
  });
}

// Of a batch that begins with messages that are stored the others are stored, once.
TEST_F(PersistentTopicTest, DeduplicationKeepsWhatIsNewInABatch) {
  config.broker_deduplication_enabled = true;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    const auto batch = [](std::int64_t first, int count) {
      std::string payload;
      for (int i = 0; i < count; ++i) {
        OutgoingSingle single;
        const std::string text = "m" + std::to_string(first + i);
        single.payload_size = text.size();
        single.sequence_id = first + i;
        const std::size_t at = payload.size();
        payload.resize(at + encoded_size(single));
        encode(single, reinterpret_cast<std::byte*>(payload.data() + at));
        payload += text;
      }
      return make_entry("p", first, payload, count);
    };
    client.send_message(1, 1, batch(1, 3), 3, 3);
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
    client.send_message(1, 3, batch(3, 3), 5, 3);
    const Command receipt = co_await client.next();
    EXPECT_EQ(receipt.type(), Command::SEND_RECEIPT);
    EXPECT_EQ(receipt.send_receipt().sequence_id(), 3U);
    EXPECT_EQ(receipt.send_receipt().highest_sequence_id(), 5U);
    EXPECT_EQ(topic()->managed_ledger()->total_messages(), 5);
    const auto stored = co_await topic()->managed_ledger()->read(
        topic()->managed_ledger()->last_confirmed(), 1, 1 << 20);
    EXPECT_TRUE(stored.is_ok());
    const std::string_view entry = stored->front().data.view();
    EXPECT_EQ(entry.find("m3"), std::string_view::npos);
    EXPECT_NE(entry.find("m4"), std::string_view::npos);
    EXPECT_NE(entry.find("m5"), std::string_view::npos);
    client.send_message(1, 3, batch(3, 3), 5, 3);
    EXPECT_EQ((co_await client.next()).send_receipt().message_id().entryid(), ~0ULL);
    // One that does not tell the ids of its messages is taken for a repetition, as in Pulsar.
    client.send_message(1, 5, make_entry("p", 5, "no batch", 3), 7, 3);
    EXPECT_EQ((co_await client.next()).send_receipt().message_id().entryid(), ~0ULL);
    client.send_message(1, 6, batch(6, 1), {}, 1);
    EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
    EXPECT_EQ(topic()->managed_ledger()->total_messages(), 6);
  });
}

// Between the broker's looks at the backlog, which are a minute apart.
TEST_F(PersistentTopicTest, ABacklogFarBeyondItsQuotaClosesProducersAtOnce) {
  config.backlog_quota_default_limit_bytes = 1000;
  config.backlog_quota_default_retention_policy = "producer_exception";
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    EXPECT_TRUE((co_await topic()->create_subscription("s", Position::earliest(), {})).is_ok());
    const std::string large(4 << 20, 'x');
    auto type = Command::SEND_RECEIPT;
    for (std::uint64_t i = 0; i < 40 && type == Command::SEND_RECEIPT; ++i) {
      client.send_message(1, i, make_entry("p", static_cast<std::int64_t>(i), large));
      type = (co_await client.next()).type();
      EXPECT_TRUE(i >= 8 || type == Command::SEND_RECEIPT) << "a little beyond waits for the look";
      co_await sleep_for(Millis(20));
    }
    EXPECT_EQ(type, Command::CLOSE_PRODUCER);
    const Command refused = co_await produce(client, kTopic, 1, "p");
    EXPECT_EQ(refused.type(), Command::ERROR);
    EXPECT_EQ(refused.error().error(), proto::ProducerBlockedQuotaExceededException);
  });
}

}  // namespace
}  // namespace geminga
