#include "server/admin/policy_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/json_text.h"

namespace geminga {
namespace {

Result<boost::json::value> read(PolicyReader reader, std::string_view text,
                                PolicyTarget target = {}) {
  return reader(*parse_json(text), target);
}
std::string stored(PolicyReader reader, std::string_view text) {
  auto value = read(reader, text);
  return value ? to_json(*value) : value.status().to_string();
}

TEST(PolicyValues, FieldsAreFilledInAndUnknownOnesDropped) {
  EXPECT_EQ(stored(read_retention, R"({"unknown":1})"),
            R"({"retentionTimeInMinutes":0,"retentionSizeInMB":0})");
  EXPECT_EQ(stored(read_subscribe_rate, "{}"),
            R"({"subscribeThrottlingRatePerConsumer":-1,"ratePeriodInSecond":30})");
  EXPECT_EQ(
      stored(read_persistence, R"({"managedLedgerMaxMarkDeleteRate":2})"),
      R"({"bookkeeperEnsemble":2,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":2,"managedLedgerMaxMarkDeleteRate":2.0})");
  EXPECT_EQ(stored(read_inactive_topics, "{}"),
            R"({"maxInactiveDurationSeconds":0,"deleteWhileInactive":false})");
  EXPECT_EQ(stored(read_backlog_quota,
                   R"({"limitSize":10,"limitTime":-1,"policy":"producer_exception"})"),
            R"({"limit":10,"limitSize":10,"limitTime":-1,"policy":"producer_exception"})");
  EXPECT_EQ(stored(read_backlog_quota, R"({"limit":7,"policy":"producer_exception"})"),
            R"({"limit":7,"limitSize":7,"limitTime":0,"policy":"producer_exception"})");
}

TEST(PolicyValues, TextsAreThoseOfTheOracle) {
  EXPECT_EQ(read(read_retention, R"({"retentionTimeInMinutes":-2,"retentionSizeInMB":5})")
                .status()
                .message(),
            "Invalid retention policy: time limit must be >= -1");
  EXPECT_THAT(read(read_retention, R"({"retentionTimeInMinutes":0,"retentionSizeInMB":5})")
                  .status()
                  .message(),
              ::testing::HasSubstr("Setting a single time or size limit to 0"));
  EXPECT_EQ(read(read_limit, "-1", {.policy = "maxProducersPerTopic"}).status().message(),
            "maxProducersPerTopic must be 0 or more");
  EXPECT_TRUE(read(read_limit, "-1").is(ErrorCode::PreconditionFailed));
  EXPECT_EQ(
      read(read_auto_topic_creation, R"({"allowAutoTopicCreation":true,"topicType":"x"})")
          .status()
          .message(),
      "Invalid configuration for autoTopicCreationOverride. the detail is Unknown topic type [x]");
  EXPECT_EQ(
      read(read_backlog_quota, R"({"limitSize":10})", {.name_space = "t/n"}).status().message(),
      "Set namespace[t/n] backlog quota failed because the data validation failed. the attribute "
      "policy cannot "
      "be null");
  EXPECT_EQ(read(read_persistence,
                 R"({"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":3})")
                .status()
                .message(),
            "Bookkeeper Ensemble (1) >= WriteQuorum (2) >= AckQuorum (3)");
  EXPECT_EQ(read(read_entry_filters, R"({"entryFilterNames":"f1,f2"})").status().message(),
            "Entry filter 'f1' not found");
}

TEST(PolicyValues, WrongTypesAreProtocolErrors) {
  EXPECT_TRUE(read(read_retention, "[]").is(ErrorCode::Protocol));
  EXPECT_TRUE(read(read_retention, R"({"retentionTimeInMinutes":"x"})").is(ErrorCode::Protocol));
  EXPECT_TRUE(read(read_boolean, "1").is(ErrorCode::Protocol));
  EXPECT_TRUE(read(read_ttl, "\"x\"").is(ErrorCode::Protocol));
  EXPECT_TRUE(read(read_subscription_types, R"(["Nonsense"])").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(read(read_text_list, "[1]").is(ErrorCode::Protocol));
}

TEST(PolicyValues, QuotaAndRetentionLeaveRoomForEachOther) {
  const auto fits = [](const char* quota, const char* retention) {
    return check_quota_against_retention(*parse_json(quota), *parse_json(retention)).is_ok();
  };
  EXPECT_TRUE(fits(R"({"limitSize":5,"limitTime":-1})",
                   R"({"retentionTimeInMinutes":-1,"retentionSizeInMB":-1})"));
  EXPECT_TRUE(fits(R"({"limitSize":1048575,"limitTime":59})",
                   R"({"retentionTimeInMinutes":1,"retentionSizeInMB":1})"));
  EXPECT_FALSE(fits(R"({"limitSize":1048576,"limitTime":-1})",
                    R"({"retentionTimeInMinutes":1,"retentionSizeInMB":1})"));
  EXPECT_FALSE(fits(R"({"limitSize":-1,"limitTime":60})",
                    R"({"retentionTimeInMinutes":1,"retentionSizeInMB":1})"));
  EXPECT_TRUE(fits(R"({"limitSize":-1,"limitTime":60})", "null"));
}

}  // namespace
}  // namespace geminga
