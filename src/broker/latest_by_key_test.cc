#include "broker/latest_by_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace geminga {
namespace {

std::set<std::uint64_t> messages_of(const LatestByKey& table) {
  std::set<std::uint64_t> messages;
  table.for_each_message([&](std::uint64_t message) { messages.insert(message); });
  return messages;
}

TEST(LatestByKey, KeepsTheLatestAndForgets) {
  LatestByKey table(1 << 20);
  table.begin(0);
  EXPECT_FALSE(table.put({1, 1}, 10));
  EXPECT_FALSE(table.put({2, 1}, 11));
  EXPECT_EQ(table.put({1, 1}, 12), 10U);
  EXPECT_EQ(table.put({2, 1}, std::nullopt), 11U);
  EXPECT_FALSE(table.put({3, 1}, std::nullopt)) << "was never there";
  EXPECT_EQ(messages_of(table), (std::set<std::uint64_t>{12}));
  EXPECT_FALSE(table.put({2, 1}, 13));
  EXPECT_EQ(messages_of(table), (std::set<std::uint64_t>{12, 13}));
  EXPECT_EQ(table.covered_to(), LatestByKey::kLast);
}

// The table gives up keys, never memory; pass by pass all of them are seen, exactly.
TEST(LatestByKey, CoversAllKeysInPassesWithinItsMemory) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t kBytes = 64 * LatestByKey::kSlotBytes;
  std::vector<Hash128> keys(1000);
  for (Hash128& key : keys) key = {random(), random()};
  std::vector<std::pair<Hash128, std::optional<std::uint64_t>>> puts;
  std::map<std::size_t, std::uint64_t> expected;
  for (std::uint64_t n = 0; n < 5000; ++n) {
    const std::size_t key = random() % keys.size();
    const bool forget = random() % 8 == 0;
    puts.emplace_back(keys[key], forget ? std::nullopt : std::optional(n));
    if (forget) {
      expected.erase(key);
    } else {
      expected[key] = n;
    }
  }
  LatestByKey table(kBytes);
  std::set<std::uint64_t> found;
  int passes = 0;
  for (std::uint64_t from = 0;;) {
    table.begin(from);
    for (const auto& [key, message] : puts) table.put(key, message);
    EXPECT_LE(table.memory_bytes(), kBytes);
    for (const std::uint64_t message : messages_of(table)) {
      EXPECT_TRUE(found.insert(message).second) << message << " in two passes";
    }
    ++passes;
    if (table.covered_to() == LatestByKey::kLast) break;
    from = table.covered_to() + 1;
  }
  std::set<std::uint64_t> latest;
  for (const auto& [key, message] : expected) latest.insert(message);
  EXPECT_EQ(found, latest);
  EXPECT_GE(passes, 1000 / 56);
}

}  // namespace
}  // namespace geminga
