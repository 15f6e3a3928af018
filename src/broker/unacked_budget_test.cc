#include "broker/unacked_budget.h"

#include "broker/broker_test_support.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::make_entry;
using testing::TestPeer;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

TEST(UnackedBudget, BlocksWhoHoldsMostUntilHalfIsLeft) {
  int resumed = 0;
  UnackedBudget budget(2, 100, 0.16, [&] { ++resumed; });
  UnackedCount small(&budget, 0);
  UnackedCount large(&budget, 1);
  small += 10;
  large += 90;
  EXPECT_FALSE(large.blocked()) << "not more than the limit";
  large += 1;
  EXPECT_TRUE(large.blocked());
  EXPECT_FALSE(small.blocked()) << "it holds less than its share";
  large -= 50;
  EXPECT_TRUE(large.blocked()) << "51 of 100 are left";
  {
    UnackedCount other(&budget, 0);
    other += 17;
    EXPECT_TRUE(other.blocked());
  }
  EXPECT_EQ(resumed, 0);
  large -= 2;
  EXPECT_EQ(resumed, 1);
  EXPECT_FALSE(large.blocked());
  EXPECT_EQ(budget.total(), 49);
}

TEST(UnackedBudget, NoLimitCountsNothing) {
  UnackedBudget budget(1, 0, 0.16, [] {});
  EXPECT_FALSE(budget.limited());
  UnackedCount count(nullptr, 0);
  count += 1000;
  EXPECT_FALSE(count.blocked());
  EXPECT_EQ(count, 1000);
}

TEST(UnackedBudget, SharesAreNumbersUpToOne) {
  EXPECT_EQ(*parse_share("0.16"), 0.16);
  EXPECT_EQ(*parse_share("1"), 1);
  for (const char* wrong : {"", "0", "-1", "1.1", "x", "0.1x", "nan"})
    EXPECT_FALSE(parse_share(wrong).is_ok()) << wrong;
}

class UnackedBudgetTest : public BrokerWorld {
 protected:
  static std::string topic(int i) { return "persistent://public/default/t" + std::to_string(i); }
  // Messages that came, as long as they come.
  Task<int> received(TestPeer& client) {
    int count = 0;
    for (int quiet = 0; quiet < 20;) {
      if (client.silent()) {
        ++quiet;
        co_await sleep_for(Millis(1));
        continue;
      }
      quiet = 0;
      EXPECT_EQ((co_await client.next()).type(), Command::MESSAGE);
      ++count;
    }
    co_return count;
  }
  Task<void> publish(TestPeer& client, std::uint64_t producer, int from, int count) {
    for (int i = from; i < from + count; ++i)
      client.send_message(producer, static_cast<std::uint64_t>(i), make_entry("p", i, "m"));
    for (int i = 0; i < count; ++i)
      EXPECT_EQ((co_await client.next()).type(), Command::SEND_RECEIPT);
  }
  static void ack_up_to(TestPeer& client, std::uint64_t consumer, std::int64_t ledger, int count) {
    for (int i = 0; i < count; ++i) {
      Command ack;
      ack.set_type(Command::ACK);
      ack.mutable_ack()->set_consumer_id(consumer);
      ack.mutable_ack()->set_ack_type(proto::CommandAck::Individual);
      auto* id = ack.mutable_ack()->add_message_id();
      id->set_ledgerid(static_cast<std::uint64_t>(ledger));
      id->set_entryid(static_cast<std::uint64_t>(i));
      client.send(ack);
    }
  }
};

TEST_F(UnackedBudgetTest, SubscriptionsThatHoldMostWaitForTheBroker) {
  config.max_unacked_messages_per_broker = 100;
  config.max_unacked_messages_per_subscription_on_broker_blocked = "0.2";
  run_with_broker([this]() -> Task<void> {
    TestPeer& producer = *co_await connected_peer();
    TestPeer& greedy = *co_await connected_peer();
    TestPeer& modest = *co_await connected_peer();
    (void)co_await produce(producer, topic(1), 1, "p");
    (void)co_await produce(producer, topic(2), 2, "p");
    (void)co_await subscribe(greedy, topic(1), "s", 1, proto::CommandSubscribe::Shared);
    (void)co_await subscribe(modest, topic(2), "s", 2, proto::CommandSubscribe::Shared);
    flow(greedy, 1, 1000);
    flow(modest, 2, 1000);
    co_await publish(producer, 2, 0, 10);
    EXPECT_EQ(co_await received(modest), 10);
    co_await publish(producer, 1, 0, 95);
    EXPECT_EQ(co_await received(greedy), 91) << "with the other's ten one more than the limit";
    co_await publish(producer, 1, 95, 50);
    EXPECT_EQ(co_await received(greedy), 0);
    const auto topic_held = broker->loaded_topic(*TopicName::parse(topic(1)));
    const auto why = topic_held->subscription("s")->explain();
    EXPECT_EQ(why->reason, WaitReason::BrokerUnackedLimit);
    EXPECT_TRUE(topic_held->stats().subscriptions.at(0).blocked_on_unacked);
    co_await publish(producer, 2, 10, 5);
    EXPECT_EQ(co_await received(modest), 5) << "whoever holds little goes on";
    // Half: the rest comes.
    ack_up_to(greedy, 1, 0, 62);
    EXPECT_EQ(co_await received(greedy), 54);
  });
}

}  // namespace
}  // namespace geminga
