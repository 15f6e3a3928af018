#include "broker/topic_policies.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

TEST(TopicPolicies, LieOverThoseOfTheNamespace) {
  NamespacePolicies policies;
  policies.max_producers_per_topic = 5;
  policies.retention_minutes = 10;
  const Status laid = overlay_topic_policies(
      policies,
      R"({"global":{"maxConsumers":3,"maxProducers":4},)"
      R"("local":{"maxConsumers":2,"maxUnackedMessagesOnConsumer":7,"maxUnackedMessagesOnSubscription":9,)"
      R"("deduplicationEnabled":true,"delayedDelivery":{"active":false,"tickTime":1000,)"
      R"("maxDeliveryDelayInMillis":5000},"retention":{"retentionTimeInMinutes":-1,)"
      R"("retentionSizeInMB":7},"subscriptionTypesEnabled":["Shared"],)"
      R"("autoSubscriptionCreation":{"allowAutoSubscriptionCreation":false}}})");
  ASSERT_TRUE(laid.is_ok()) << laid.to_string();
  EXPECT_EQ(policies.max_producers_per_topic, 4);
  EXPECT_EQ(policies.max_consumers_per_topic, 2);
  EXPECT_EQ(policies.max_unacked_per_consumer, 7);
  EXPECT_EQ(policies.max_unacked_per_subscription, 9);
  EXPECT_EQ(policies.deduplication, true);
  EXPECT_EQ(policies.delayed_delivery, false);
  EXPECT_EQ(policies.max_delivery_delay_ms, 5000);
  EXPECT_EQ(policies.retention_minutes, -1);
  EXPECT_EQ(policies.retention_mb, 7);
  EXPECT_EQ(policies.auto_subscription_creation, false);
  EXPECT_EQ(policies.subscription_types_enabled, std::vector<std::string>{"Shared"});
  EXPECT_FALSE(policies.max_subscriptions_per_topic.has_value());
}

TEST(TopicPolicies, MustBeAnObject) {
  NamespacePolicies policies;
  EXPECT_TRUE(overlay_topic_policies(policies, "[]").is(ErrorCode::Corruption));
  EXPECT_TRUE(overlay_topic_policies(policies, "{").is(ErrorCode::Corruption));
  EXPECT_TRUE(overlay_topic_policies(policies, "{}").is_ok());
}

TEST(TopicPolicies, AreKeptUnderTheBaseOfPartitions) {
  EXPECT_EQ(topic_policies_key(*TopicName::parse("persistent://a/b/c-partition-3")),
            "/admin/topic-policies/a/b/persistent/c");
}

TEST(TopicPolicies, RatesOfTheTopicAreOverThoseOfItsNamespace) {
  auto policies = parse_namespace_policies(
      R"({"publishMaxMessageRate":{"c1":{"publishThrottlingRateInMsg":7,"publishThrottlingRateInByte":-1}},)"
      R"("topicDispatchRate":{"c1":{"dispatchThrottlingRateInMsg":20,"ratePeriodInSecond":2}},)"
      R"("clusterSubscribeRate":{"other":{"subscribeThrottlingRatePerConsumer":1}},)"
      R"("persistence":{"managedLedgerMaxMarkDeleteRate":0.5}})",
      "c1");
  ASSERT_TRUE(policies);
  EXPECT_EQ(policies->publish_rate->messages, 7);
  EXPECT_EQ(policies->dispatch_rate->messages, 10);
  EXPECT_EQ(policies->dispatch_rate->period_s, 2);
  EXPECT_FALSE(policies->subscribe_rate);
  EXPECT_EQ(policies->max_mark_delete_rate, 0.5);
  ASSERT_TRUE(overlay_topic_policies(
      *policies,
      R"({"local":{"publishRate":{"publishThrottlingRateInMsg":-1,"publishThrottlingRateInByte":5},)"
      R"("subscriptionDispatchRate/s1":{"dispatchThrottlingRateInMsg":3,"ratePeriodInSecond":1},)"
      R"("subscribeRate":{"subscribeThrottlingRatePerConsumer":4,"ratePeriodInSecond":9},)"
      R"("maxMessageSize":1000}})"));
  EXPECT_LE(policies->publish_rate->messages, 0);
  EXPECT_EQ(policies->publish_rate->bytes, 5);
  ASSERT_EQ(policies->dispatch_rates.size(), 1u);
  EXPECT_EQ(policies->dispatch_rates[0].first, "s1");
  EXPECT_EQ(policies->dispatch_rates[0].second.messages, 3);
  EXPECT_EQ(policies->subscribe_rate->most, 4);
  EXPECT_EQ(policies->subscribe_rate->period_seconds, 9);
  EXPECT_EQ(policies->max_message_size, 1000);
}

}  // namespace
}  // namespace geminga
