#include "broker/token_bucket.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(TokenBucket, NoLimitLetsEverythingPass) {
  TokenBucket bucket;
  bucket.take(1e9, 0);
  EXPECT_EQ(bucket.wait_ns(0), 0);
}

TEST(TokenBucket, KeepsTheRateOverTimeAlsoWithBatchesLargerThanIt) {
  TokenBucket bucket;
  bucket.set(10, 1, 0);
  std::int64_t now = 0;
  double passed = 0;
  for (int i = 0; i < 100; ++i) {
    now += bucket.wait_ns(now);
    ASSERT_EQ(bucket.wait_ns(now), 0);
    bucket.take(25, now);
    passed += 25;
  }
  // The first burst comes at once, the rest at ten a second.
  EXPECT_NEAR(static_cast<double>(now) / kSecond, (passed - 25 - 9) / 10, 1.0);
}

TEST(TokenBucket, WhatIsNotUsedIsKeptForOnePeriodOnly) {
  TokenBucket bucket;
  bucket.set(10, 1, 0);
  std::int64_t passed = 0;
  const std::int64_t late = 100 * kSecond;
  while (bucket.wait_ns(late) == 0) {
    bucket.take(1, late);
    ++passed;
  }
  EXPECT_EQ(passed, 10);
}

TEST(TokenBucket, ASmallRateLetsSingleOnesPass) {
  TokenBucket bucket;
  bucket.set(0.1, 1, 0);
  EXPECT_EQ(bucket.wait_ns(0), 0);
  bucket.take(1, 0);
  EXPECT_NEAR(static_cast<double>(bucket.wait_ns(0)), 10.0 * kSecond, 10);
}

TEST(TokenBucket, ALimitThatIsTakenAwayHoldsNothingBack) {
  TokenBucket bucket;
  bucket.set(1, 1, 0);
  bucket.take(1000, 0);
  EXPECT_GT(bucket.wait_ns(0), 0);
  bucket.set(0, 1, 0);
  EXPECT_EQ(bucket.wait_ns(0), 0);
}

TEST(RateLimiter, RelativeLimitsAreOverTheRateOfPublishing) {
  RateLimiter limiter;
  Rate rate;
  rate.messages = 5;
  rate.relative_to_publish_rate = true;
  limiter.set(rate, 0);
  Rate published;
  published.messages = 95;
  limiter.follow(published, 0);
  limiter.take(200, 0, 0);
  EXPECT_NEAR(static_cast<double>(limiter.wait_ns(kSecond)), 0.96 * kSecond, 0.1 * kSecond);
}

TEST(RateLimiter, BytesAndMessagesBothCount) {
  RateLimiter limiter;
  Rate rate;
  rate.messages = 1000;
  rate.bytes = 10;
  limiter.set(rate, 0);
  limiter.take(1, 100, 0);
  EXPECT_GT(limiter.wait_ns(kSecond), 0);
}

}  // namespace
}  // namespace geminga
