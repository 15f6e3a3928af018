#include "ledger/log_cache.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

constexpr std::size_t kBlock = 4096;

class LogCacheTest : public ::testing::Test {
 protected:
  // Reads the block: from the cache, or "from disk". True: it was in the cache.
  bool read(std::uint32_t ordinal) {
    if (cache_.find(1, ordinal) != nullptr) return true;
    auto block = cache_.new_cold_block(kBlock);
    block->segment = 1;
    block->ordinal = ordinal;
    cache_.insert_cold(block);
    EXPECT_LE(cache_.bytes(), 16 * kBlock);
    return false;
  }

  MemoryBudget budget_{1 << 20};
  LogCounters counters_;
  LogCache cache_{BlockPool::make(budget_, kBlock, 0), 4 * kBlock, 16 * kBlock, counters_};
};

TEST_F(LogCacheTest, KeepsLittleOfWhatIsReadOnce) {
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_FALSE(read(i));
  EXPECT_EQ(cache_.target(), 4 * kBlock);
  EXPECT_LE(cache_.bytes(), 4 * kBlock);
  EXPECT_TRUE(read(999));
}

TEST_F(LogCacheTest, GrowsUntilItHoldsWhatIsReadAgainAndShrinksAfterwards) {
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t i = 0; i < 10; ++i) read(i);
  }
  EXPECT_GE(cache_.bytes(), 10 * kBlock);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(read(i)) << i;
  // More than the limit holds: it is not passed, and what is read only once brings it down again.
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t i = 0; i < 40; ++i) read(100 + i);
  }
  EXPECT_LE(cache_.target(), 16 * kBlock);
  for (std::uint32_t i = 0; i < 1000; ++i) read(1000 + i);
  EXPECT_EQ(cache_.target(), 4 * kBlock);
}

}  // namespace
}  // namespace geminga
