#include "managed_ledger/position_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace geminga {
namespace {

TEST(PositionMap, KeepsOneItemAPosition) {
  PositionMap<int> map;
  EXPECT_TRUE(map.insert({1, 5}, 50));
  EXPECT_FALSE(map.insert({1, 5}, 51));
  EXPECT_EQ(*map.find({1, 5}), 50);
  EXPECT_EQ(map.find({1, 6}), nullptr);
  EXPECT_EQ(map.erase({1, 5}), 50);
  EXPECT_FALSE(map.erase({1, 5}));
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.first(), nullptr);
}

TEST(PositionMap, AgreesWithAMapOverRandomChanges) {
  std::mt19937_64 random(7);
  PositionMap<int> map;
  std::map<Position, int> model;
  for (int step = 0; step < 60'000; ++step) {
    const Position p{static_cast<LedgerId>(random() % 3), static_cast<EntryId>(random() % 700)};
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
      case 3: EXPECT_EQ(map.insert(p, step), model.emplace(p, step).second); break;
      case 4:
      case 5: EXPECT_EQ(map.erase(p).has_value(), model.erase(p) == 1); break;
      case 6: {
        const auto* item = map.at_or_after(p);
        const auto it = model.lower_bound(p);
        ASSERT_EQ(item == nullptr, it == model.end());
        if (item != nullptr) {
          EXPECT_EQ(item->position, it->first);
        }
        break;
      }
      default:
        if (const auto dice = random() % 1000; dice == 0) {
          map.erase_if([&](Position q, int) { return q <= p; });
          std::erase_if(model, [&](const auto& item) { return item.first <= p; });
        } else if (dice == 1) {
          map.erase_through(p);
          model.erase(model.begin(), model.upper_bound(p));
        }
    }
    ASSERT_EQ(map.size(), model.size());
  }
  auto it = model.begin();
  map.for_each([&](Position p, int value) {
    ASSERT_EQ(p, it->first);
    EXPECT_EQ(value, it->second);
    ++it;
  });
  EXPECT_EQ(it, model.end());
}

}  // namespace
}  // namespace geminga
