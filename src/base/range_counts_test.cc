#include "base/range_counts.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

TEST(RangeCounts, AValueCountsInOneRange) {
  RangeCounts<10, 20> counts;
  for (const std::int64_t value : {0, 10, 11, 20, 21, 1000}) counts.record(value);
  EXPECT_EQ(counts.count(0), 2);
  EXPECT_EQ(counts.count(1), 2);
  EXPECT_EQ(counts.count(2), 2);
  EXPECT_EQ(counts.total(), 6);
  EXPECT_EQ(counts.sum(), 1062);
}

}  // namespace
}  // namespace geminga
