#include "broker/key_shared_selector.h"

#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

std::shared_ptr<Consumer> named(const std::string& name, std::vector<HashRange> ranges = {}) {
  SubscribeRequest request;
  request.outbox = std::make_shared<TestOutbox>();
  request.consumer_name = name;
  if (!ranges.empty())
    request.key_shared = KeySharedOptions{KeySharedMode::Sticky, std::move(ranges), false};
  return std::make_shared<Consumer>(request);
}

struct Share {
  std::size_t ranges = 0;
  std::int64_t slots = 0;
  std::int64_t digest = 0;
};
Share share_of(const KeySharedSelector& selector, const Consumer* consumer) {
  Share share;
  for (const auto& [range, owner] : selector.ranges()) {
    if (owner != consumer) continue;
    ++share.ranges;
    share.slots += range.end - range.start + 1;
    share.digest = (share.digest * 31 + range.start * 7 + range.end) % 1'000'000'007;
    for (const std::int32_t slot : {range.start, range.end}) {
      EXPECT_EQ(selector.select(static_cast<KeySlot>(slot)), consumer);
    }
  }
  return share;
}

// The numbers are those that Pulsar 4.0.7 showed for consumers of these names, in this order.
TEST(HashRingSelector, SharesOutAsPulsarDoes) {
  auto selector = make_hash_ring_selector(100);
  auto alpha = named("alpha");
  auto beta = named("beta");
  auto alpha2 = named("alpha");
  for (auto& consumer : {alpha, beta, alpha2}) EXPECT_TRUE(selector->add(*consumer).is_ok());
  const auto check = [&](const Consumer* consumer, Share expected) {
    const Share share = share_of(*selector, consumer);
    EXPECT_EQ(share.ranges, expected.ranges);
    EXPECT_EQ(share.slots, expected.slots);
    EXPECT_EQ(share.digest, expected.digest);
  };
  check(alpha.get(), {62, 22798, 337875031});
  check(beta.get(), {65, 25593, 639232648});
  check(alpha2.get(), {62, 17144, 703437470});
  EXPECT_EQ(ranges_text(*selector, *alpha).front(), "[1, 1065]");
}

TEST(HashRingSelector, LeavingGivesBackWhatWasTaken) {
  auto selector = make_hash_ring_selector(100);
  EXPECT_EQ(selector->select(5), nullptr);
  auto a = named("a");
  auto b = named("b");
  EXPECT_TRUE(selector->add(*a).is_ok());
  EXPECT_EQ(selector->ranges().size(), 1U);
  EXPECT_TRUE(selector->add(*b).is_ok());
  selector->remove(*a);
  EXPECT_EQ(selector->ranges().size(), 1U);
  EXPECT_EQ(selector->select(1), b.get());
  EXPECT_EQ(selector->select(65535), b.get());
  selector->remove(*b);
  selector->remove(*b);
  EXPECT_TRUE(selector->ranges().empty());
}

TEST(AutoSplitSelector, HalvesTheWidestRange) {
  auto selector = make_auto_split_selector();
  auto a = named("a");
  auto b = named("b");
  auto c = named("c");
  for (auto& consumer : {a, b, c}) EXPECT_TRUE(selector->add(*consumer).is_ok());
  EXPECT_EQ(selector->select(1), c.get());
  EXPECT_EQ(selector->select(16384), c.get());
  EXPECT_EQ(selector->select(16385), b.get());
  EXPECT_EQ(selector->select(32768), b.get());
  EXPECT_EQ(selector->select(32769), a.get());
  EXPECT_EQ(selector->select(65535), a.get());
  selector->remove(*a);  // the last range goes to the one below
  EXPECT_EQ(selector->select(65535), b.get());
  selector->remove(*c);  // the others go to the one above
  EXPECT_EQ(selector->select(1), b.get());
}

TEST(StickySelector, RefusesRangesThatOverlapOrMakeNoSense) {
  auto selector = make_sticky_selector();
  auto a = named("a", {{0, 99}, {200, 300}});
  EXPECT_TRUE(selector->add(*a).is_ok());
  for (const auto& bad : std::vector<std::vector<HashRange>>{{},
                                                             {{99, 150}},
                                                             {{150, 200}},
                                                             {{210, 220}},
                                                             {{100, 400}},
                                                             {{400, 500}, {450, 600}},
                                                             {{7, 5}},
                                                             {{65000, 65536}},
                                                             {{-1, 5}}}) {
    EXPECT_EQ(selector->add(*named("b", bad)).code(), ErrorCode::ConsumerAssign);
  }
  auto c = named("c", {{301, 65535}, {100, 199}});
  EXPECT_TRUE(selector->add(*c).is_ok());
  EXPECT_EQ(selector->select(99), a.get());
  EXPECT_EQ(selector->select(100), c.get());
  selector->remove(*a);
  EXPECT_EQ(selector->select(99), nullptr);
}

TEST(KeySlot, ZeroIsNoKeys) {
  EXPECT_EQ(range_slot(0), 1);
  EXPECT_EQ(range_slot(65536), 1);
  EXPECT_EQ(range_slot(65535), 65535);
  EXPECT_EQ(ring_slot(0), 1);
  EXPECT_EQ(ring_slot(65534), 65535);
  EXPECT_EQ(ring_slot(65535), 1);
}

}  // namespace
}  // namespace geminga
