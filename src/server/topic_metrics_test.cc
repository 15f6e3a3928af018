// /metrics over a broker in memory: each feature is used, then its numbers are read from the page.
#include "server/topic_metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "base/clock.h"
#include "broker/topic_compaction.h"
#include "broker/transaction_test_support.h"
#include "broker/transactions.h"
#include "server/admin/admin.h"
#include "server/http_router.h"

namespace geminga {
namespace {

using testing::TestPeer;
namespace proto = pulsar::proto;

constexpr char kTopic[] = "persistent://public/default/t";
constexpr char kMemory[] = "non-persistent://public/default/m";
constexpr auto kShared = proto::CommandSubscribe::Shared;
constexpr auto kKeyShared = proto::CommandSubscribe::Key_Shared;

// What stands before the labels of the test's own topic.
constexpr char kOfTopic[] = "cluster=\"standalone\",namespace=\"public/default\",topic=\"";

class Page {
 public:
  explicit Page(const std::string& text) : text_(text) {
    std::string_view rest = text_;
    std::string last;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::string line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.starts_with("# TYPE ")) {
        const std::size_t space = line.find(' ', 7);
        const std::string name = line.substr(7, space - 7);
        // All samples of a metric stand together, behind one head.
        EXPECT_TRUE(types_.emplace(name, line.substr(space + 1)).second) << name << " comes twice";
        last = name;
      }
      if (line.starts_with("#")) continue;
      const std::size_t space = line.rfind(' ');
      const std::string series = line.substr(0, space);
      EXPECT_TRUE(series.starts_with(last)) << series << " behind the head of " << last;
      EXPECT_TRUE(values_.emplace(series, std::strtod(line.c_str() + space, nullptr)).second)
          << series << " comes twice";
    }
  }
  // NaN: there is no such series.
  double at(const std::string& series) const {
    const auto found = values_.find(series);
    return found == values_.end() ? std::nan("") : found->second;
  }
  double of_topic(const std::string& name, const std::string& more = "",
                  const std::string& topic = kTopic) const {
    return at(name + "{" + kOfTopic + topic + "\"" + more + "}");
  }
  double of_subscription(const std::string& name, const std::string& more = "",
                         const std::string& topic = kTopic) const {
    return of_topic(name, ",subscription=\"s\"" + more, topic);
  }
  bool has(const std::string& name) const { return types_.contains(name); }
  std::string type(const std::string& name) const { return types_.at(name); }
  const std::string& text() const { return text_; }

 private:
  const std::string text_;
  std::map<std::string, std::string> types_;
  std::map<std::string, double> values_;
};

class TopicMetricsTest : public testing::TransactionWorld {
 protected:
  Task<Page> scrape() {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    HttpRequest request;
    request.method = HttpMethod::Get;
    EXPECT_TRUE(parse_target("/metrics", request).is_ok());
    HttpResponse response = co_await router.dispatch(request);
    EXPECT_EQ(response.status, 200U);
    std::string text;
    for (bool more = response.stream != nullptr; more;) {
      std::string piece;
      more = co_await response.stream->next(piece);
      text += piece;
    }
    co_return Page(text);
  }
  static std::shared_ptr<Topic> loaded(Broker& broker, const std::string& name = kTopic) {
    return broker.loaded_topic(*TopicName::parse(name));
  }
  Task<void> publish(TestPeer& peer, int count, std::int64_t deliver_at = 0) {
    for (int i = 0; i < count; ++i) {
      OutgoingMetadata message;
      message.producer_name = "p";
      message.sequence_id = static_cast<std::int64_t>(sequence_);
      message.publish_time = deliver_at == 0 ? 1 : now_ms();
      message.deliver_at_time = deliver_at;
      message.partition_key = "k";
      peer.send_message(1, sequence_++, testing::make_entry(message, "payload"));
      EXPECT_EQ((co_await peer.next()).type(), Command::SEND_RECEIPT);
    }
  }
};

TEST_F(TopicMetricsTest, SubscriptionsAndTheirConsumersAndProducers) {
  config.expose_consumer_level_metrics_in_prometheus = true;
  config.expose_producer_level_metrics_in_prometheus = true;
  config.max_unacked_messages_per_consumer = 3;
  run_with_broker([this]() -> Task<void> {
    const std::int64_t began = now_ms();
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 9, kShared);
    co_await publish(client, 5);
    flow(client, 9, 10);
    for (int i = 0; i < 3; ++i) last_id_ = (co_await client.next()).message().message_id();
    const Page page = co_await scrape();
    EXPECT_EQ(page.of_topic("pulsar_subscriptions_count"), 1);
    EXPECT_EQ(page.of_topic("pulsar_producers_count"), 1);
    EXPECT_EQ(page.of_topic("pulsar_consumers_count"), 1);
    EXPECT_EQ(page.of_topic("pulsar_msg_backlog"), 5);
    EXPECT_EQ(page.of_topic("pulsar_storage_backlog_quota_limit"), -1);
    EXPECT_EQ(page.of_topic("pulsar_storage_backlog_quota_limit_time"), -1);
    EXPECT_EQ(page.of_topic("pulsar_storage_backlog_age_seconds"), -1);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_back_log"), 5);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_back_log_no_delayed"), 5);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_unacked_messages"), 3);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_consumers_count"), 1);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_in_replay"), 0);
    EXPECT_EQ(page.of_subscription("pulsar_out_messages_total"), 3);
    EXPECT_GE(page.of_subscription("pulsar_subscription_last_consumed_timestamp"), began);
    EXPECT_GE(page.of_subscription("pulsar_subscription_last_consumed_flow_timestamp"), began);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_last_acked_timestamp"), 0);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_last_mark_delete_advanced_timestamp"), 0);
    const std::string c = R"(,consumer_name="c9",consumer_id="9")";
    EXPECT_EQ(page.of_subscription("pulsar_out_messages_total", c), 3);
    EXPECT_EQ(page.of_subscription("pulsar_consumer_available_permits", c), 7);
    EXPECT_EQ(page.of_subscription("pulsar_consumer_unacked_messages", c), 3);
    EXPECT_EQ(page.of_subscription("pulsar_consumer_blocked_on_unacked_messages", c), 1);
    EXPECT_GT(page.of_subscription("pulsar_consumer_msg_rate_out", c), 0);
    EXPECT_EQ(page.of_subscription("pulsar_consumer_msg_ack_rate", c), 0);
    EXPECT_GT(page.of_topic("pulsar_producer_msg_rate_in", R"(,producer_name="p",producer_id="1")"),
              0);
    EXPECT_EQ(page.type("pulsar_consumer_available_permits"), "gauge");
    EXPECT_EQ(page.at(R"(pulsar_broker_consumers_count{cluster="standalone"})"), 1);
    EXPECT_EQ(page.at(R"(pulsar_ml_count{cluster="standalone"})"), 1);
    EXPECT_EQ(page.at(R"(pulsar_ml_NumberOfMessagesInBacklog{cluster="standalone",)"
                      R"(namespace="public/default/persistent"})"),
              5);

    (void)co_await ack(client, 9, last_id_, {});
    const Page later = co_await scrape();
    EXPECT_EQ(later.of_subscription("pulsar_subscription_back_log"), 4);
    EXPECT_GE(later.of_subscription("pulsar_subscription_last_acked_timestamp"), began);
    EXPECT_GT(later.of_subscription("pulsar_subscription_msg_ack_rate"), 0);
  });
}

TEST_F(TopicMetricsTest, ConsumersAndProducersAreShownIfAskedFor) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 9, kShared);
    const Page page = co_await scrape();
    EXPECT_FALSE(page.has("pulsar_consumer_available_permits"));
    EXPECT_FALSE(page.has("pulsar_producer_msg_rate_in"));
    EXPECT_EQ(page.text().find("consumer_id="), std::string::npos);
  });
}

TEST_F(TopicMetricsTest, ExpiredAndDeduplicatedMessages) {
  config.broker_deduplication_enabled = true;
  run_with_broker([this]() -> Task<void> {
    const std::int64_t began = now_ms();
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 9, kShared);
    co_await publish(client, 5);
    sequence_ -= 2;
    co_await publish(client, 2);
    const Page before = co_await scrape();
    EXPECT_EQ(before.of_topic("geminga_deduplicated_messages_total"), 2);
    EXPECT_EQ(before.of_subscription("pulsar_subscription_back_log"), 5);
    EXPECT_EQ(before.of_subscription("pulsar_subscription_total_msg_expired"), 0);
    EXPECT_EQ(before.of_subscription("pulsar_subscription_last_expire_timestamp"), 0);
    const auto subscription = loaded(*broker)->subscription("s");
    EXPECT_TRUE((co_await subscription->expire(3600)).is_ok());
    const Page page = co_await scrape();
    EXPECT_EQ(page.of_subscription("pulsar_subscription_back_log"), 0);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_total_msg_expired"), 5);
    EXPECT_GT(page.of_subscription("pulsar_subscription_msg_rate_expired"), 0);
    EXPECT_GE(page.of_subscription("pulsar_subscription_last_expire_timestamp"), began);
    EXPECT_GE(page.of_subscription("pulsar_subscription_last_mark_delete_advanced_timestamp"),
              began);
  });
}

TEST_F(TopicMetricsTest, QuotasOfTheBacklog) {
  config.backlog_quota_default_limit_bytes = 200;
  config.backlog_quota_default_limit_second = 7200;
  config.backlog_quota_default_retention_policy = "consumer_backlog_eviction";
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 9, kShared);
    co_await publish(client, 20);
    const auto topic = loaded(*broker);
    co_await topic->check_backlog();
    for (int i = 0; i < 1000 && topic->stats().evictions_by_size == 0; ++i)
      co_await sleep_for(Millis(1));
    const Page page = co_await scrape();
    EXPECT_EQ(page.of_topic("pulsar_storage_backlog_quota_limit"), 200);
    EXPECT_EQ(page.of_topic("pulsar_storage_backlog_quota_limit_time"), 7200);
    // What was there when it was checked was published long ago.
    EXPECT_GT(page.of_topic("pulsar_storage_backlog_age_seconds"), 3600);
    const char* evictions = "pulsar_storage_backlog_quota_exceeded_evictions_total";
    EXPECT_EQ(page.of_topic(evictions, R"(,quota_type="size")"), 1);
    EXPECT_EQ(page.at(R"(pulsar_broker_storage_backlog_quota_exceeded_evictions_total)"
                      R"({cluster="standalone",quota_type="size"})"),
              1);
    EXPECT_LT(page.of_topic("pulsar_storage_backlog_size"), 200);
    EXPECT_LT(page.of_topic("pulsar_msg_backlog"), 20);
  });
}

TEST_F(TopicMetricsTest, Compaction) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    co_await publish(client, 20);
    const Page before = co_await scrape();
    EXPECT_FALSE(before.has("pulsar_compaction_succeed_count"));
    TopicCompaction& compaction = *loaded(*broker)->compaction();
    EXPECT_TRUE(compaction.start().is_ok());
    for (int i = 0; i < 1000 && compaction.state() == TopicCompaction::State::Running; ++i)
      co_await sleep_for(Millis(1));
    const Page page = co_await scrape();
    EXPECT_EQ(page.of_topic("pulsar_compaction_succeed_count"), 1);
    EXPECT_EQ(page.of_topic("pulsar_compaction_failed_count"), 0);
    EXPECT_EQ(page.of_topic("pulsar_compaction_removed_event_count"), 19);
    EXPECT_EQ(page.of_topic("pulsar_compaction_compacted_entries_count"), 1);
    EXPECT_GT(page.of_topic("pulsar_compaction_compacted_entries_size"), 20);
    EXPECT_GE(page.of_topic("pulsar_compaction_duration_time_in_mills"), 0);
    EXPECT_GT(page.of_topic("pulsar_compaction_read_throughput"), 0);
    EXPECT_GT(page.of_topic("pulsar_compaction_write_throughput"), 0);
    EXPECT_EQ(page.of_topic("pulsar_compaction_latency_count"), 1);
    double in_ranges = page.of_topic("pulsar_compaction_latency_overflow");
    for (const char* range : {"0_5", "1", "5", "10", "20", "50", "100", "200", "1000"})
      in_ranges += page.of_topic(std::string("pulsar_compaction_latency_le_") + range);
    EXPECT_EQ(in_ranges, 1);
    EXPECT_GT(page.at(R"(pulsar_broker_out_bytes_total{cluster="standalone",)"
                      R"(system_subscription="true"})"),
              0);
  });
}

TEST_F(TopicMetricsTest, DelayedMessages) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 9, kShared);
    flow(client, 9, 10);
    co_await publish(client, 100, now_ms() + 600'000);
    for (int i = 0; i < 1000 && loaded(*broker)->subscription("s")->stats().msg_delayed < 100; ++i)
      co_await sleep_for(Millis(1));
    const Page page = co_await scrape();
    EXPECT_EQ(page.of_subscription("pulsar_subscription_delayed"), 100);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_back_log"), 100);
    EXPECT_EQ(page.of_subscription("pulsar_subscription_back_log_no_delayed"), 0);
    EXPECT_GT(page.of_topic("pulsar_delayed_message_index_size_bytes"), 100);
    EXPECT_GT(page.of_subscription("pulsar_subscription_delayed_message_index_size_bytes"), 100);
    EXPECT_EQ(page.of_topic("pulsar_delayed_message_index_loaded"), 100);
    EXPECT_EQ(page.of_topic("pulsar_delayed_message_index_bucket_total"), 0);
    EXPECT_TRUE((co_await broker->unload_topic(*TopicName::parse(kTopic))).is_ok());
    (void)co_await client.next();
    (void)co_await client.next();
    (void)co_await subscribe(client, kTopic, "s", 10, kShared);
    const Page later = co_await scrape();
    EXPECT_EQ(later.of_topic("pulsar_delayed_message_index_bucket_total"), 1);
    EXPECT_GT(later.of_topic("pulsar_delayed_message_index_bucket_snapshot_size_bytes"), 100);
  });
}

TEST_F(TopicMetricsTest, Transactions) {
  run_with_broker([this]() -> Task<void> {
    const Page none = co_await scrape();
    EXPECT_FALSE(none.has("pulsar_txn_active_count"));
    TestPeer& client = *co_await connected_peer();
    TestPeer& reader = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(reader, kTopic, "s", 1);
    flow(reader, 1, 100);
    (void)co_await send(client, 1, "plain");
    EXPECT_EQ(co_await received(reader), "plain");
    TxnId ids[3];
    for (TxnId& txn : ids) {
      txn = co_await begin(client);
      (void)co_await add_topic(client, txn, kTopic);
      (void)co_await send(client, 1, "in txn", txn);
    }
    (void)co_await add_subscription(client, ids[0], kTopic, "s");
    const Command acked = co_await ack(reader, 1, last_id_, ids[0]);
    EXPECT_FALSE(acked.ackresponse().has_error());
    EXPECT_FALSE((co_await end(client, ids[0], true)).endtxnresponse().has_error());
    EXPECT_FALSE((co_await end(client, ids[1], false)).endtxnresponse().has_error());
    const Page page = co_await scrape();
    EXPECT_EQ(page.of_topic("pulsar_txn_tb_active_total"), 1);
    EXPECT_EQ(page.of_topic("pulsar_txn_tb_committed_total"), 1);
    EXPECT_EQ(page.of_topic("pulsar_txn_tb_aborted_total"), 1);
    EXPECT_EQ(page.of_subscription("pulsar_txn_tp_committed_count_total", R"(,status="succeed")"),
              1);
    EXPECT_EQ(page.of_subscription("pulsar_txn_tp_aborted_count_total", R"(,status="succeed")"), 0);
    EXPECT_EQ(page.type("pulsar_txn_tp_committed_count_total"), "counter");
    const std::string labels = R"({cluster="standalone",coordinator_id="0"})";
    EXPECT_EQ(page.at("pulsar_txn_active_count" + labels), 1);
    EXPECT_EQ(page.at("pulsar_txn_created_total" + labels), 3);
    EXPECT_EQ(page.at("pulsar_txn_committed_total" + labels), 1);
    EXPECT_EQ(page.at("pulsar_txn_aborted_total" + labels), 1);
    EXPECT_EQ(page.at("pulsar_txn_timeout_total" + labels), 0);
    // NEW and ADD_PARTITION of three, ADD_SUBSCRIPTION of one, two records of each end.
    EXPECT_EQ(page.at("pulsar_txn_append_log_total" + labels), 11);
    EXPECT_EQ(page.at(R"(pulsar_txn_tb_client_pending_requests{cluster="standalone"})"), 0);
    double ended = 0;
    for (const char* range : {"10", "20", "50", "100", "500", "1000", "5000", "overflow"})
      ended += page.at("pulsar_txn_execution_latency_le_" + std::string(range) + labels);
    EXPECT_EQ(ended, 2);
  });
}

TEST_F(TopicMetricsTest, TopicsThatAreNotStored) {
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kMemory, 1, "p");
    (void)co_await subscribe(client, kMemory, "s", 9, kKeyShared);
    co_await publish(client, 4);
    const Page page = co_await scrape();
    EXPECT_GT(page.of_subscription("pulsar_subscription_msg_drop_rate", "", kMemory), 0);
    EXPECT_EQ(page.of_topic("pulsar_storage_backlog_quota_limit", "", kMemory), 0);
    EXPECT_EQ(page.of_topic("pulsar_in_messages_total", "", kMemory), 4);
    EXPECT_EQ(page.of_topic("pulsar_consumers_count", "", kMemory), 1);
    EXPECT_EQ(page.at(R"(pulsar_ml_count{cluster="standalone"})"), 0);
  });
}

TEST_F(TopicMetricsTest, OfNamespacesWhereTopicsAreNotShown) {
  config.expose_topic_level_metrics_in_prometheus = false;
  config.expose_consumer_level_metrics_in_prometheus = true;
  run_with_broker([this]() -> Task<void> {
    TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 8, kShared);
    co_await publish(client, 3);
    const std::string other = "persistent://public/default/u";
    (void)co_await produce(client, other, 2, "p");
    (void)co_await subscribe(client, other, "s", 9, kShared);
    const Page page = co_await scrape();
    EXPECT_EQ(page.text().find(",topic=\""), std::string::npos);
    EXPECT_EQ(page.text().find("subscription=\"s"), std::string::npos);
    const std::string ns = R"({cluster="standalone",namespace="public/default")";
    EXPECT_EQ(page.at("pulsar_subscriptions_count" + ns + "}"), 2);
    EXPECT_EQ(page.at("pulsar_consumers_count" + ns + "}"), 2);
    EXPECT_EQ(page.at("pulsar_producers_count" + ns + "}"), 2);
    EXPECT_EQ(page.at("pulsar_in_messages_total" + ns + "}"), 3);
    EXPECT_EQ(page.at("pulsar_out_messages_total" + ns + "}"), 0);
    EXPECT_EQ(page.at("pulsar_msg_backlog" + ns + R"(,remote_cluster="local"})"), 3);
    EXPECT_EQ(page.at("pulsar_subscription_delayed" + ns + "}"), 0);
    EXPECT_EQ(page.at("pulsar_consumer_msg_ack_rate" + ns + "}"), 0);
    EXPECT_FALSE(page.has("pulsar_subscription_back_log"));
    EXPECT_FALSE(page.has("pulsar_storage_backlog_quota_limit"));
    EXPECT_FALSE(page.has("pulsar_consumer_available_permits"));
  });
}

}  // namespace
}  // namespace geminga
