#include "base/histogram.h"

#include <gtest/gtest.h>

#include <random>

namespace geminga {
namespace {

TEST(Histogram, EmptyAndSmallValues) {
  Histogram h;
  EXPECT_EQ(h.percentile(50), 0);
  EXPECT_EQ(h.min(), 0);
  EXPECT_EQ(h.max(), 0);
  for (int i = 1; i <= 100; ++i) h.record(i);
  EXPECT_EQ(h.count(), 100U);
  EXPECT_EQ(h.percentile(0), 1);
  EXPECT_EQ(h.percentile(50), 50);
  EXPECT_EQ(h.percentile(99), 99);
  EXPECT_EQ(h.percentile(99.9), 100);
  EXPECT_EQ(h.percentile(100), 100);
  EXPECT_EQ(h.min(), 1);
  EXPECT_EQ(h.max(), 100);
  EXPECT_DOUBLE_EQ(h.mean(), 50.5);
}

TEST(Histogram, ThreeSignificantDigits) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 1000; ++round) {
    const auto value = static_cast<std::int64_t>(random() >> (1 + random() % 62));
    Histogram h;
    h.record(value);
    h.record(INT64_MAX);
    const std::int64_t got = h.percentile(50);
    EXPECT_GE(got, value);
    EXPECT_LE(static_cast<double>(got - value), static_cast<double>(value) / 1000) << value;
  }
}

TEST(Histogram, PercentilesAgreeWithSorting) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> latencies(13, 2);
  std::vector<std::int64_t> values(20000);
  Histogram h;
  for (auto& value : values) h.record(value = static_cast<std::int64_t>(latencies(random)));
  std::sort(values.begin(), values.end());
  for (const double p : {1.0, 50.0, 95.0, 99.0, 99.9}) {
    const auto exact = values[static_cast<std::size_t>(std::lround(p * 200)) - 1];
    EXPECT_NEAR(static_cast<double>(h.percentile(p)), static_cast<double>(exact),
                static_cast<double>(exact) / 1000);
  }
  EXPECT_EQ(h.max(), values.back());
}

TEST(Histogram, MergeIsAsIfRecordedTogether) {
  Histogram a;
  Histogram b;
  Histogram both;
  for (std::int64_t i = 0; i < 1000; ++i) {
    (i % 2 == 0 ? a : b).record(i * i, 3);
    both.record(i * i, 3);
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.min(), both.min());
  EXPECT_EQ(a.max(), both.max());
  EXPECT_EQ(a.percentile(42), both.percentile(42));
  EXPECT_DOUBLE_EQ(a.mean(), both.mean());
  a.record(-5);
  EXPECT_EQ(a.min(), 0);
  a.reset();
  EXPECT_EQ(a.count(), 0U);
}

}  // namespace
}  // namespace geminga
