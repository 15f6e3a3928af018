#include "broker/non_persistent_subscription.h"

#include <map>
#include <set>

#include "base/config.h"
#include "broker/batch_parts.h"
#include "broker/subscription_test_support.h"
#include "wire/batch.h"

namespace geminga {
namespace {

using namespace geminga::testing;

struct Rig {
  explicit Rig(Shard& shard) : topic(shard, "non-persistent://t/ns/x", nullptr) {
    subscription = make_non_persistent_subscription(topic, "s", config);
  }
  Task<std::shared_ptr<Consumer>> join(SubscriptionType type, std::uint64_t id,
                                       std::shared_ptr<TestOutbox> outbox, bool durable = true) {
    SubscribeRequest request;
    request.outbox = std::move(outbox);
    request.consumer_id = id;
    request.type = type;
    request.consumer_name = "c" + std::to_string(id);
    request.durable = durable;
    auto added = co_await subscription->add_consumer(std::move(request));
    EXPECT_TRUE(added.is_ok()) << added.status().to_string();
    co_return added.is_ok() ? *added : nullptr;
  }
  void deliver(int n, const std::string& key = {}) {
    for (int i = 0; i < n; ++i) subscription->deliver(make_test_entry({.key = key}), 1);
  }
  BrokerConfig config;
  TestTopic topic;
  std::shared_ptr<NonPersistentSubscription> subscription;
};

TEST(NonPersistentSubscription, DropsWhatNobodyTakesAndCountsIt) {
  run_on_shard([](Shard& shard) -> Task<void> {
    Rig rig(shard);
    rig.deliver(2);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await rig.join(SubscriptionType::Exclusive, 1, a);
    rig.deliver(1);
    rig.subscription->flow(*ca, 5);
    rig.deliver(7);
    EXPECT_EQ(a->messages.size(), 5U);
    EXPECT_EQ(a->messages[0].position, (Position{0, 0}));
    EXPECT_EQ(rig.subscription->stats().msg_drop, 5);
    rig.subscription->flow(*ca, 5);
    a->window = 0;
    rig.deliver(1);
    EXPECT_EQ(rig.subscription->stats().msg_drop, 6);
    EXPECT_EQ(rig.subscription->stats().msg_out, 5);
    auto b = std::make_shared<TestOutbox>(2);
    SubscribeRequest second;
    second.outbox = b;
    auto refused = co_await rig.subscription->add_consumer(second);
    EXPECT_EQ(refused.code(), ErrorCode::ConsumerBusy);
  });
}

TEST(NonPersistentSubscription, SharesByTurnsAndByKey) {
  run_on_shard([](Shard& shard) -> Task<void> {
    for (const auto type : {SubscriptionType::Shared, SubscriptionType::KeyShared}) {
      Rig rig(shard);
      auto a = std::make_shared<TestOutbox>();
      auto b = std::make_shared<TestOutbox>();
      auto ca = co_await rig.join(type, 1, a);
      auto cb = co_await rig.join(type, 2, b);
      rig.subscription->flow(*ca, 1000);
      rig.subscription->flow(*cb, 1000);
      if (type == SubscriptionType::Shared) {
        rig.deliver(10);
        EXPECT_EQ(a->messages.size(), 5U);
        EXPECT_EQ(b->messages.size(), 5U);
        continue;
      }
      rig.deliver(10, "one key");
      EXPECT_EQ(std::max(a->messages.size(), b->messages.size()), 10U);
      rig.subscription->remove_consumer(a->messages.empty() ? cb : ca);
      rig.deliver(10, "one key");
      EXPECT_EQ(std::min(a->messages.size(), b->messages.size()), 10U);
      EXPECT_FALSE(rig.subscription->stats().consumers[0].key_hash_ranges.empty());
    }
  });
}

// Each message of a batch goes to whom its own key belongs, as a batch of that consumer's own.
TEST(NonPersistentSubscription, BatchesOfMixedKeysAreSharedOutByMessage) {
  run_on_shard([](Shard& shard) -> Task<void> {
    Rig rig(shard);
    std::map<std::string, std::set<std::uint64_t>> who;
    std::vector<std::shared_ptr<TestOutbox>> outboxes;
    std::vector<std::shared_ptr<Consumer>> consumers;
    for (std::uint64_t id = 1; id <= 3; ++id) {
      outboxes.push_back(std::make_shared<TestOutbox>());
      auto joined = co_await rig.join(SubscriptionType::KeyShared, id, outboxes.back());
      consumers.push_back(std::move(joined));
    }
    rig.subscription->flow(*consumers[0], 1000);
    rig.subscription->flow(*consumers[1], 1000);
    std::vector<std::string> keys, texts;
    for (int i = 0; i < 30; ++i) {
      keys.push_back("key " + std::to_string(i % 15));
      texts.push_back(std::to_string(i));
    }
    EntrySpec spec;
    spec.batch = 30;
    spec.payload = batch_of(keys, texts);
    rig.subscription->deliver(make_test_entry(spec), 30);
    rig.subscription->deliver(make_test_entry(spec), 30);
    std::int64_t received = 0;
    for (std::uint64_t id = 1; id <= 2; ++id) {
      const auto& messages = outboxes[id - 1]->messages;
      EXPECT_EQ(messages.size(), 2U);
      for (const auto& message : messages) {
        const auto metadata = parse_entry_metadata(message.entry.span());
        EXPECT_TRUE(metadata.is_ok());
        const auto payload = batch_payload(message.entry, *metadata);
        BatchReader reader(payload->span(), metadata->num_messages);
        int before = -1;
        while (const auto single = reader.next()) {
          who[std::string(single->partition_key)].insert(id);
          const int number = std::stoi(std::string(
              reinterpret_cast<const char*>(single->payload.data()), single->payload.size()));
          EXPECT_GT(number, before);
          before = number;
          ++received;
        }
        EXPECT_TRUE(reader.ok());
      }
    }
    for (const auto& [key, ids] : who) EXPECT_EQ(ids.size(), 1U) << key;
    // The third has asked for nothing: what is its own is dropped and counted, nothing else.
    const auto stats = rig.subscription->stats();
    EXPECT_GT(stats.msg_drop, 0);
    EXPECT_EQ(received + stats.msg_drop, 60);
    EXPECT_EQ(stats.msg_out, received);
    EXPECT_EQ(consumers[0]->permits() + consumers[1]->permits(), 2000 - received);
    EXPECT_LT(who.size(), 15U);
    // All of one consumer: as it was published.
    rig.subscription->remove_consumer(consumers[2]);
    rig.subscription->remove_consumer(consumers[1]);
    rig.subscription->deliver(make_test_entry(spec), 30);
    EXPECT_EQ(outboxes[0]->messages.back().entry.view(), make_test_entry(spec).view());
  });
}

TEST(NonPersistentSubscription, FailoverTellsWhoIsActive) {
  run_on_shard([](Shard& shard) -> Task<void> {
    Rig rig(shard);
    auto a = std::make_shared<TestOutbox>();
    auto b = std::make_shared<TestOutbox>();
    auto ca = co_await rig.join(SubscriptionType::Failover, 1, a);
    auto cb = co_await rig.join(SubscriptionType::Failover, 2, b);
    co_await turns();
    rig.subscription->flow(*ca, 10);
    rig.subscription->flow(*cb, 10);
    rig.deliver(2);
    const bool first = a->events.back() == "active 1";
    EXPECT_EQ((first ? a : b)->messages.size(), 2U);
    EXPECT_EQ((first ? b : a)->events.back(), first ? "inactive 2" : "inactive 1");
    rig.subscription->remove_consumer(first ? ca : cb);
    co_await turns();
    EXPECT_EQ((first ? b : a)->events.back(), first ? "active 2" : "active 1");
    rig.deliver(2);
    EXPECT_EQ((first ? b : a)->messages.size(), 2U);
  });
}

TEST(NonPersistentSubscription, ANonDurableOneGoesWithItsLastConsumer) {
  run_on_shard([](Shard& shard) -> Task<void> {
    Rig rig(shard);
    auto a = std::make_shared<TestOutbox>();
    auto ca = co_await rig.join(SubscriptionType::Exclusive, 1, a, false);
    rig.subscription->remove_consumer(ca);
    EXPECT_EQ(rig.topic.dropped, std::vector<std::string>{"s"});
    co_await rig.subscription->close(true);
    SubscribeRequest late;
    late.outbox = a;
    EXPECT_EQ((co_await rig.subscription->add_consumer(late)).code(), ErrorCode::ServiceNotReady);
  });
}

}  // namespace
}  // namespace geminga
