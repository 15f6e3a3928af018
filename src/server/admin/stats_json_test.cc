#include "server/admin/stats_json.h"

#include <gtest/gtest.h>

#include "server/json_text.h"

namespace geminga {
namespace {

TEST(IsoTime, DropsZerosOfTheFraction) {
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(iso_time(1796059596650), "2026-11-30T17:26:36.65Z");
  EXPECT_EQ(iso_time(1700000000001), "2023-11-14T22:13:20.001Z");
  EXPECT_EQ(iso_time(-1), "1969-12-31T23:59:59.999Z");
}

TopicStats sample() {
  TopicStats stats;
  stats.msg_rate_in = 2;
  stats.msg_in_counter = 10;
  ProducerStats& producer = stats.publishers.emplace_back();
  producer.name = "p";
  producer.address = "/127.0.0.1:1";
  SubscriptionStats sub;
  sub.name = "s";
  sub.type = SubscriptionType::KeyShared;
  sub.key_shared_mode = "AUTO_SPLIT";
  sub.msg_backlog = 3;
  sub.unacked_messages = 4;
  sub.backlog_size = 300;
  sub.msg_expired = 5;
  sub.msg_rate_expired = 0.5;
  sub.last_expire_ms = 1234;
  sub.msg_drop_rate = 2.5;
  ConsumerStats& consumer = sub.consumers.emplace_back();
  consumer.consumer_name = "c";
  consumer.key_hash_ranges = {"[0, 99]", "100-65535"};
  stats.subscriptions.push_back(sub);
  return stats;
}

TEST(StatsJson, PersistentTopic) {
  const auto out = topic_stats_json(sample(), {.owner = "localhost:8080"}, {});
  EXPECT_EQ(to_json(out.at("msgRateIn")), "2.0");
  EXPECT_EQ(out.at("deduplicationStatus").as_string(), "Disabled");
  EXPECT_FALSE(out.contains("msgDropRate"));
  const auto& sub = out.at("subscriptions").at("s");
  EXPECT_EQ(sub.at("type").as_string(), "Key_Shared");
  EXPECT_EQ(to_json(sub.at("consumers").at(0).at("keyHashRangeArrays")), "[[0,99],[100,65535]]");
  EXPECT_EQ(sub.at("unackedMessages").as_int64(), 4);
  EXPECT_EQ(sub.at("totalMsgExpired").as_int64(), 5);
  EXPECT_EQ(sub.at("msgRateExpired").as_double(), 0.5);
  EXPECT_EQ(sub.at("lastExpireTimestamp").as_int64(), 1234);
}

TEST(StatsJson, QueriesLeaveOut) {
  const auto out = topic_stats_json(
      sample(), {},
      {.subscription_backlog_size = false, .exclude_publishers = true, .exclude_consumers = true});
  EXPECT_EQ(to_json(out.at("publishers")), "[]");
  EXPECT_EQ(to_json(out.at("subscriptions").at("s").at("consumers")), "[]");
  EXPECT_EQ(out.at("subscriptions").at("s").at("backlogSize").as_int64(), -1);
}

TEST(StatsJson, NonPersistentTopic) {
  const auto out = topic_stats_json(sample(), {.persistent = false}, {});
  EXPECT_FALSE(out.contains("deduplicationStatus"));
  EXPECT_EQ(out.at("msgDropRate").as_double(), 2.5);
  EXPECT_EQ(out.at("subscriptions").at("s").at("msgDropRate").as_double(), 2.5);
  EXPECT_TRUE(out.at("publishers").at(0).as_object().contains("msgDropRate"));
}

TEST(StatsJson, SumOfPartitions) {
  const auto out = partitioned_stats_json({sample(), sample(), TopicStats()}, {}, {});
  EXPECT_EQ(out.at("msgInCounter").as_int64(), 20);
  EXPECT_EQ(out.at("publishers").as_array().size(), 1U);
  EXPECT_FALSE(out.at("publishers").at(0).as_object().contains("address"));
  EXPECT_EQ(out.at("subscriptions").at("s").at("msgBacklog").as_int64(), 6);
  EXPECT_EQ(out.at("subscriptions").at("s").at("backlogSize").as_int64(), 600);
  EXPECT_FALSE(out.contains("ownerBroker"));
}

}  // namespace
}  // namespace geminga
