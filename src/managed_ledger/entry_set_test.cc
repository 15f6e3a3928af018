#include "managed_ledger/entry_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace geminga {
namespace {

std::int64_t ranges_of(const std::set<EntryId>& ids) {
  std::int64_t ranges = 0;
  for (const EntryId id : ids) ranges += ids.contains(id - 1) ? 0 : 1;
  return ranges;
}

TEST(EntrySet, JoinsNeighboursAcrossChunks) {
  EntrySet set;
  EXPECT_TRUE(set.insert(4095));
  EXPECT_TRUE(set.insert(4096));
  EXPECT_FALSE(set.insert(4096));
  EXPECT_EQ(set.ranges(), 1);
  EXPECT_EQ(set.next_missing(4095), 4097);
  EXPECT_EQ(set.next_present(0), 4095);
  EXPECT_EQ(set.largest(), 4096);
  EXPECT_EQ(set.erase_through(4095), 1);
  EXPECT_EQ(set.ranges(), 1);
  EXPECT_EQ(set.erase_through(100'000), 1);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.ranges(), 0);
}

TEST(EntrySet, AgreesWithASetOverRandomWork) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 8; ++round) {
    EntrySet set;
    std::set<EntryId> model;
    const EntryId span = round % 2 == 0 ? 12'000 : 700;
    for (int step = 0; step < 3000; ++step) {
      const EntryId id = std::uniform_int_distribution<EntryId>(0, span)(random);
      switch (random() % 20) {
        case 0: {
          const EntryId last = id + static_cast<EntryId>(random() % 300);
          set.insert_range(id, last);
          for (EntryId i = id; i <= last; ++i) model.insert(i);
          break;
        }
        case 1:
          if (random() % 10 == 0) {
            const auto until = model.upper_bound(id / 4);
            EXPECT_EQ(set.erase_through(id / 4), std::distance(model.begin(), until));
            model.erase(model.begin(), until);
          }
          break;
        case 2:
        case 3:
        case 4: EXPECT_EQ(set.erase(id), model.erase(id) == 1); break;
        default: EXPECT_EQ(set.insert(id), model.insert(id).second);
      }
      const EntryId probe = std::uniform_int_distribution<EntryId>(0, span)(random);
      ASSERT_EQ(set.contains(probe), model.contains(probe));
      EntryId missing = probe;
      while (model.contains(missing)) ++missing;
      ASSERT_EQ(set.next_missing(probe), missing);
      const auto present = model.lower_bound(probe);
      ASSERT_EQ(set.next_present(probe), present == model.end() ? -1 : *present);
    }
    EXPECT_EQ(set.size(), static_cast<std::int64_t>(model.size()));
    EXPECT_EQ(set.ranges(), ranges_of(model));
    EXPECT_EQ(set.largest(), model.empty() ? -1 : *model.rbegin());
    std::set<EntryId> walked;
    set.for_each_range([&](EntryId first, EntryId last) {
      for (EntryId i = first; i <= last; ++i) walked.insert(i);
      return true;
    });
    EXPECT_EQ(walked, model);
  }
}

TEST(EntrySet, StoredPartsAndJoinedSetsAgreeWithASet) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const EntryId span : {EntryId{300}, EntryId{9'000}, EntryId{100'000}}) {
    EntrySet one;
    EntrySet two;
    std::set<EntryId> model;
    for (int i = 0; i < 6000; ++i) {
      const EntryId id = std::uniform_int_distribution<EntryId>(0, span)(random);
      (i % 3 == 0 ? one : two).insert(id);
      model.insert(id);
    }
    EntrySet joined;
    joined.merge(one);
    joined.merge(two);
    EntrySet loaded;
    std::size_t parts = 0;
    for (const EntrySet* set : {&two, &one}) {
      for (const std::string& part : set->encode(1000)) {
        ++parts;
        EXPECT_LT(part.size(), 1600U);
        ASSERT_TRUE(loaded.merge_encoded(part).is_ok());
      }
    }
    EXPECT_GT(parts, span > 50'000 ? 4U : 1U);
    for (const EntrySet* set : {&joined, &loaded}) {
      EXPECT_EQ(set->size(), static_cast<std::int64_t>(model.size()));
      EXPECT_EQ(set->ranges(), ranges_of(model));
      std::set<EntryId> walked;
      set->for_each_range([&](EntryId first, EntryId last) {
        for (EntryId i = first; i <= last; ++i) walked.insert(i);
        return true;
      });
      EXPECT_EQ(walked, model);
    }
    // Damage is found or does no harm.
    std::string bytes = one.encode(1 << 20).front();
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = bytes.substr(0, random() % (bytes.size() + 1));
      if (!damaged.empty()) damaged[random() % damaged.size()] = static_cast<char>(random());
      EntrySet set;
      (void)set.merge_encoded(damaged);
      EXPECT_LE(set.ranges(), set.size());
    }
  }
}

TEST(EntrySet, AMillionRandomHolesTakeLessThanTwoBytesEach) {
  EntrySet set;
  std::mt19937 random(1);
  const EntryId span = 5'000'000;
  while (set.ranges() < 1'000'000)
    set.insert(std::uniform_int_distribution<EntryId>(0, span)(random));
  const double bytes = static_cast<double>(set.memory_bytes()) / static_cast<double>(set.ranges());
  RecordProperty("bytes_per_hole", std::to_string(bytes));
  std::printf("%lld ranges, %zu bytes, %.2f bytes a hole\n", static_cast<long long>(set.ranges()),
              set.memory_bytes(), bytes);
  EXPECT_LT(bytes, 2.0);
  // Holes filled: long runs, next to nothing.
  set.erase_through(span - 300'000);
  for (EntryId id = span - 300'000; id <= span; ++id) set.insert(id);
  EXPECT_EQ(set.ranges(), 1);
  EXPECT_LT(set.memory_bytes(), 30'000U);
}

TEST(EntrySet, FewHolesTakeFewBytes) {
  EntrySet set;
  for (EntryId id = 0; id < 1'000'000; id += 1000) set.insert(id);
  EXPECT_EQ(set.ranges(), 1000);
  EXPECT_LT(set.memory_bytes(), 60'000U);
}

}  // namespace
}  // namespace geminga
