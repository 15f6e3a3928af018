// What the broker does to topics by itself: those that nobody uses, and subscriptions that nobody
// used for long, are deleted as the policies say.
#include "broker/topic_shard.h"

#include "base/clock.h"
#include "broker/broker_test_support.h"
#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using testing::BrokerWorld;

constexpr std::int64_t kMinute = 60'000;

class TopicShardTest : public BrokerWorld {
 protected:
  static TopicName name() { return *TopicName::parse("persistent://public/default/t"); }
  Task<void> policies(std::string json) {
    const auto put = co_await metadata->put("/admin/policies/public/default", std::move(json), {});
    EXPECT_TRUE(put.is_ok()) << put.status().to_string();
  }
  Task<std::shared_ptr<Topic>> load(TopicShard& topics) {
    auto topic = co_await topics.get(name(), true);
    EXPECT_TRUE(topic.is_ok()) << topic.status().to_string();
    co_return topic.is_ok() ? *topic : nullptr;
  }
};

TEST_F(TopicShardTest, SubscriptionsUnusedForLongAreDeleted) {
  run_with_broker([this]() -> Task<void> {
    TopicShard topics(*broker, shard());
    const auto topic = co_await load(topics);
    EXPECT_TRUE((co_await topic->create_subscription("s", Position::earliest(), {})).is_ok());
    co_await topics.expire_subscriptions(now_ms() + 1000 * kMinute);
    EXPECT_NE(topic->subscription("s"), nullptr) << "without a policy";
    co_await policies(R"({"subscription_expiration_time_minutes":10})");
    co_await topics.expire_subscriptions(now_ms() + 9 * kMinute);
    EXPECT_NE(topic->subscription("s"), nullptr) << "too early";
    co_await topics.expire_subscriptions(now_ms() + 11 * kMinute);
    EXPECT_EQ(topic->subscription("s"), nullptr);
    (void)co_await topics.close();
  });
}

TEST_F(TopicShardTest, InactiveTopicsAreDeletedAsTheirPolicySays) {
  config.broker_delete_inactive_topics_max_inactive_duration_seconds = 60;
  run_with_broker([this]() -> Task<void> {
    TopicShard topics(*broker, shard());
    const auto look = [&](std::int64_t later) -> Task<bool> {
      co_await topics.delete_inactive(now_ms() + later);
      co_return topics.loaded(name()) != nullptr;
    };
    auto topic = co_await load(topics);
    EXPECT_TRUE((co_await topic->create_subscription("s", Position::earliest(), {})).is_ok());
    EXPECT_TRUE(co_await look(0));
    EXPECT_TRUE(co_await look(10 * kMinute)) << "it has a subscription";
    co_await policies(R"({"inactive_topic_policies":{"deleteWhileInactive":true,
        "inactiveTopicDeleteMode":"delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds":300}})");
    EXPECT_TRUE(co_await look(4 * kMinute));
    EXPECT_FALSE(co_await look(6 * kMinute));
    topic = co_await load(topics);
    co_await policies(R"({"inactive_topic_policies":{"deleteWhileInactive":false}})");
    EXPECT_TRUE(co_await look(0));
    EXPECT_TRUE(co_await look(100 * kMinute)) << "the policy forbids it";
    (void)co_await topics.close();
  });
}

// A client that comes back the moment it is told to go.
class EagerOutbox final : public testing::TestOutbox {
 public:
  void send_close_producer(std::uint64_t) override {
    if (come_back) std::exchange(come_back, nullptr)();
  }
  UniqueFunction<void()> come_back;
};

TEST_F(TopicShardTest, UnloadingAfterAFailedWriteLeavesTheTopicThatWasOpenedAnew) {
  run_with_broker([this]() -> Task<void> {
    TopicShard topics(*broker, shard());
    Gate gate;
    const auto failing = co_await load(topics);
    std::shared_ptr<Topic> anew;
    auto outbox = std::make_shared<EagerOutbox>();
    outbox->come_back = [&] {
      spawn(shard(), gate, [&]() -> Task<void> { anew = co_await load(topics); });
    };
    ProducerRequest request;
    request.name = "p";
    request.outbox = outbox;
    const auto grant = co_await failing->add_producer(std::move(request));
    EXPECT_TRUE(grant.is_ok()) << grant.status().to_string();
    ledgers->faults().decide = [](const std::string& op, const std::string&) {
      return op == "append" ? std::optional(testing::Fault{Status::Io("the disk is gone"), false})
                            : std::nullopt;
    };
    PublishItem item;
    item.producer = grant->producer;
    item.entry = testing::make_entry("p", 0, "m");
    item.messages = 1;
    std::vector<PublishItem> items;
    items.push_back(std::move(item));
    failing->publish(items);
    for (int i = 0; i < 5000 && anew == nullptr; ++i) co_await sleep_for(Millis(1));
    EXPECT_NE(anew, nullptr);
    EXPECT_NE(anew, failing);
    co_await sleep_for(Millis(5));
    EXPECT_EQ(topics.loaded(name()), anew) << "it was unloaded too";
    ledgers->faults().heal();
    co_await gate.close();
    (void)co_await topics.close();
  });
}

}  // namespace
}  // namespace geminga
