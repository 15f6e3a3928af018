#include "broker/topics_pattern.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

bool matches(std::string_view pattern, std::string_view topic) {
  const auto compiled = TopicsPattern::compile(pattern);
  EXPECT_TRUE(compiled.is_ok()) << compiled.status().to_string();
  return compiled.is_ok() && compiled->matches(topic);
}

TEST(TopicsPattern, ComparesWholeNamesWithoutDomainAndPartition) {
  EXPECT_TRUE(matches("persistent://public/default/foo-.*", "persistent://public/default/foo-1"));
  EXPECT_TRUE(matches("^persistent://public/default/foo-.*", "persistent://public/default/foo-1"));
  EXPECT_TRUE(matches("public/default/foo", "persistent://public/default/foo-partition-3"));
  EXPECT_FALSE(matches("public/default/fo", "persistent://public/default/foo"));
  EXPECT_FALSE(matches("persistent://public/default/foo-.*", "persistent://public/other/foo-1"));
  EXPECT_TRUE(
      matches("non-persistent://public/default/a.b", "non-persistent://public/default/a-b"));
  EXPECT_TRUE(matches("public/default/\\Qa.b\\E", "persistent://public/default/a.b"));
}

TEST(TopicsPattern, ReadsWhatOnlyABacktrackingEngineKnows) {
  EXPECT_TRUE(matches("public/default/(?!bad).*", "persistent://public/default/good"));
  EXPECT_FALSE(matches("public/default/(?!bad).*", "persistent://public/default/bad-one"));
  EXPECT_TRUE(matches("public/default/(a|b)-\\1", "persistent://public/default/b-b"));
}

TEST(TopicsPattern, RefusesWhatIsNoPattern) {
  EXPECT_TRUE(TopicsPattern::compile("public/default/(").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(TopicsPattern::compile("public/default/[a").is(ErrorCode::InvalidArgument));
}

TEST(TopicsPattern, BoundsItsEffort) {
  // Exponential for a naive engine; a look-ahead keeps it from the linear one.
  const std::string topic = "persistent://public/default/" + std::string(5000, 'a') + "!";
  EXPECT_FALSE(matches("public/default/(?=a)(a+)+b", topic));
}

TEST(TopicsPattern, LengthLeavesOutTheDomain) {
  EXPECT_EQ(TopicsPattern::length("a/b/c-.*"), 8U);
  EXPECT_EQ(TopicsPattern::length("persistent://a/b/c-.*"), 8U);
  EXPECT_EQ(TopicsPattern::length("^non-persistent://a/b/c-.*"), 9U);
}

}  // namespace
}  // namespace geminga
