#include "broker/topic_name.h"

#include <gtest/gtest.h>

#include <unordered_map>

namespace geminga {
namespace {

struct Accepted {
  const char* text;
  const char* full;
  const char* ns;
  const char* local;
  int partition;
  const char* base;
  const char* managed_ledger;
  const char* schema;
};

// Answers of TopicName of Pulsar 4.0.7.
class TopicNameAccepts : public testing::TestWithParam<Accepted> {};

TEST_P(TopicNameAccepts, WhatPulsarAccepts) {
  const Accepted& want = GetParam();
  auto parsed = TopicName::parse(want.text);
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->full(), want.full);
  EXPECT_EQ(parsed->ns(), want.ns);
  EXPECT_EQ(parsed->local(), want.local);
  EXPECT_EQ(parsed->partition_index(), want.partition);
  EXPECT_EQ(parsed->base_full(), want.base);
  EXPECT_EQ(parsed->base().full(), want.base);
  EXPECT_EQ(parsed->managed_ledger_name(), want.managed_ledger);
  EXPECT_EQ(parsed->schema_id(), want.schema);
  EXPECT_EQ(parsed->namespace_name().full(), want.ns);
  auto again = TopicName::parse(parsed->full());
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ(*again, *parsed);
  auto lenient = TopicName::parse_lenient(want.text);
  ASSERT_TRUE(lenient.is_ok());
  EXPECT_EQ(*lenient, *parsed);
}

#define D "persistent://public/default/"
INSTANTIATE_TEST_SUITE_P(
    Names, TopicNameAccepts,
    testing::Values(
        Accepted{"x", D "x", "public/default", "x", -1, D "x", "public/default/persistent/x",
                 "public/default/x"},
        Accepted{"a/b/c", "persistent://a/b/c", "a/b", "c", -1, "persistent://a/b/c",
                 "a/b/persistent/c", "a/b/c"},
        Accepted{"/a", D "a", "public/default", "a", -1, D "a", "public/default/persistent/a",
                 "public/default/a"},
        Accepted{"a/", D "a", "public/default", "a", -1, D "a", "public/default/persistent/a",
                 "public/default/a"},
        Accepted{"PERSISTENT://a/b/c", "persistent://a/b/c", "a/b", "c", -1, "persistent://a/b/c",
                 "a/b/persistent/c", "a/b/c"},
        Accepted{"Non-Persistent://a/b/c", "non-persistent://a/b/c", "a/b", "c", -1,
                 "non-persistent://a/b/c", "a/b/non-persistent/c", "a/b/c"},
        Accepted{"persistent://t/c/n/x", "persistent://t/c/n/x", "t/c/n", "x", -1,
                 "persistent://t/c/n/x", "t/c/n/persistent/x", "t/n/x"},
        Accepted{"persistent://t/n/x/y/z/w", "persistent://t/n/x/y/z/w", "t/n/x", "y/z/w", -1,
                 "persistent://t/n/x/y/z/w", "t/n/x/persistent/y%2Fz%2Fw", "t/x/y%2Fz%2Fw"},
        Accepted{"persistent://t/n/x://y", "persistent://t/n/x://y", "t/n/x:", "/y", -1,
                 "persistent://t/n/x://y", "t/n/x:/persistent/%2Fy", "t/x:/%2Fy"},
        Accepted{"persistent://t/c/n/x-partition-4", "persistent://t/c/n/x-partition-4", "t/c/n",
                 "x-partition-4", 4, "persistent://t/c/n/x", "t/c/n/persistent/x-partition-4",
                 "t/n/x"},
        Accepted{"x-partition-3", D "x-partition-3", "public/default", "x-partition-3", 3, D "x",
                 "public/default/persistent/x-partition-3", "public/default/x"},
        Accepted{"x-partition-0", D "x-partition-0", "public/default", "x-partition-0", 0, D "x",
                 "public/default/persistent/x-partition-0", "public/default/x"},
        Accepted{"x-partition-03", D "x-partition-03", "public/default", "x-partition-03", -1,
                 D "x-partition-03", "public/default/persistent/x-partition-03",
                 "public/default/x-partition-03"},
        Accepted{"x-partition--1", D "x-partition--1", "public/default", "x-partition--1", -1,
                 D "x-partition--1", "public/default/persistent/x-partition--1",
                 "public/default/x-partition--1"},
        Accepted{"x-partition-+1", D "x-partition-+1", "public/default", "x-partition-+1", -1,
                 D "x-partition-+1", "public/default/persistent/x-partition-%2B1",
                 "public/default/x-partition-%2B1"},
        Accepted{"x-partition-", D "x-partition-", "public/default", "x-partition-", -1,
                 D "x-partition-", "public/default/persistent/x-partition-",
                 "public/default/x-partition-"},
        Accepted{"x-partition-3 ", D "x-partition-3 ", "public/default", "x-partition-3 ", -1,
                 D "x-partition-3 ", "public/default/persistent/x-partition-3+",
                 "public/default/x-partition-3+"},
        Accepted{"x-partition-3-partition-5", D "x-partition-3-partition-5", "public/default",
                 "x-partition-3-partition-5", 5, D "x-partition-3",
                 "public/default/persistent/x-partition-3-partition-5",
                 "public/default/x-partition-3"},
        Accepted{"x-partition-2147483647", D "x-partition-2147483647", "public/default",
                 "x-partition-2147483647", 2147483647, D "x",
                 "public/default/persistent/x-partition-2147483647", "public/default/x"},
        Accepted{"x-partition-2147483648", D "x-partition-2147483648", "public/default",
                 "x-partition-2147483648", -1, D "x-partition-2147483648",
                 "public/default/persistent/x-partition-2147483648",
                 "public/default/x-partition-2147483648"},
        Accepted{"x-partition-99999999999", D "x-partition-99999999999", "public/default",
                 "x-partition-99999999999", -1, D "x-partition-99999999999",
                 "public/default/persistent/x-partition-99999999999",
                 "public/default/x-partition-99999999999"},
        Accepted{"persistent://t/n/\xC3\xA9 %20+", "persistent://t/n/\xC3\xA9 %20+", "t/n",
                 "\xC3\xA9 %20+", -1, "persistent://t/n/\xC3\xA9 %20+",
                 "t/n/persistent/%C3%A9+%2520%2B", "t/n/%C3%A9+%2520%2B"},
        Accepted{"persistent://t/n/\xC2\xA0", "persistent://t/n/\xC2\xA0", "t/n", "\xC2\xA0", -1,
                 "persistent://t/n/\xC2\xA0", "t/n/persistent/%C2%A0", "t/n/%C2%A0"},
        Accepted{"a:b/c=d/e_f.", "persistent://a:b/c=d/e_f.", "a:b/c=d", "e_f.", -1,
                 "persistent://a:b/c=d/e_f.", "a:b/c=d/persistent/e_f.", "a:b/c=d/e_f."},
        Accepted{"persistent://../n/..", "persistent://../n/..", "../n", "..", -1,
                 "persistent://../n/..", "../n/persistent/..", "../n/.."}));
#undef D

struct Refused {
  const char* text;
  const char* message;
};
class TopicNameRefuses : public testing::TestWithParam<Refused> {};

TEST_P(TopicNameRefuses, WithPulsarsText) {
  auto parsed = TopicName::parse(GetParam().text);
  ASSERT_FALSE(parsed.is_ok()) << parsed->full();
  EXPECT_EQ(parsed.status().message(), GetParam().message);
  EXPECT_TRUE(parsed.is(ErrorCode::InvalidTopicName));
}

#define SHORT(x)                 \
  "Invalid short topic name '" x \
  "', it should be in the format of <tenant>/<namespace>/<topic> or <topic>"
#define BLANK(x) "Invalid topic name: " x ". Topic local name must not be blank."
INSTANTIATE_TEST_SUITE_P(
    Names, TopicNameRefuses,
    testing::Values(
        Refused{"models/v1", SHORT("models/v1")}, Refused{"a/b/c/d", SHORT("a/b/c/d")},
        Refused{"", SHORT("")}, Refused{"/", SHORT("/")}, Refused{"///", SHORT("///")},
        Refused{"a//b", SHORT("a//b")}, Refused{"/a/b", SHORT("/a/b")},
        Refused{"persistent:/a/b/c", SHORT("persistent:/a/b/c")},
        Refused{"persistent://features/raw", "Invalid topic name: persistent://features/raw"},
        Refused{"persistent://models/v1", "Invalid topic name: persistent://models/v1"},
        Refused{"persistent://", "Invalid topic name: persistent://"},
        Refused{"foo://t/n/x", "Invalid topic domain: 'foo'"},
        Refused{"topic://t/n/x", "Invalid topic domain: 'topic'"},
        Refused{"://a/b/c", "Invalid topic domain: ''"},
        Refused{"a/b/c://d/e", "Invalid topic domain: 'a/b/c'"},
        Refused{"persistent://t/n/", BLANK("persistent://t/n/")},
        Refused{"persistent://t/n/ ", BLANK("persistent://t/n/ ")},
        Refused{"persistent://t/n/\xE3\x80\x80", BLANK("persistent://t/n/\xE3\x80\x80")},
        Refused{"persistent://t/c/n/ ", BLANK("persistent://t/c/n/ ")},
        Refused{"-partition-0", BLANK("persistent://public/default/")},
        Refused{" -partition-3", BLANK("persistent://public/default/ ")},
        Refused{" ", BLANK("persistent://public/default/ ")},
        Refused{"a b/c/d", "Invalid named entity: a b"},
        Refused{"a/ /c", "Invalid named entity:  "},
        Refused{"persistent://t/a b/n/x", "Invalid named entity: a b"},
        Refused{"persistent://ten\xC3\xA4nt/n/x", "Invalid named entity: ten\xC3\xA4nt"},
        Refused{"persistent:///ns/x", "Invalid namespace format. namespace: /ns"},
        Refused{"persistent://t//x", "Invalid namespace format. namespace: t/"},
        Refused{"persistent://t/c//x", "Invalid namespace format. namespace: t/c/"},
        Refused{"a//b/c", "Invalid namespace format. namespace: a//b"},
        Refused{"/a/b/c/", "Invalid namespace format. namespace: /a/b"}));
#undef SHORT
#undef BLANK

TEST(TopicName, LenientTakesTwoPartsAsPublic) {
  for (const char* text : {"persistent://features/raw", "features/raw", "features/raw/"}) {
    auto parsed = TopicName::parse_lenient(text);
    ASSERT_TRUE(parsed.is_ok()) << text;
    EXPECT_EQ(parsed->full(), "persistent://public/features/raw");
    EXPECT_FALSE(parsed->is_v1());
  }
  EXPECT_EQ(TopicName::parse_lenient("non-persistent://models/v3")->full(),
            "non-persistent://public/models/v3");
  EXPECT_FALSE(TopicName::parse_lenient("persistent://models/").is_ok());
  EXPECT_FALSE(TopicName::parse_lenient("persistent://x").is_ok());
  EXPECT_FALSE(TopicName::parse_lenient("a/b/c/d").is_ok());
}

TEST(TopicName, PartitionsAndBase) {
  const TopicName base = *TopicName::parse("t/n/x");
  const TopicName third = base.partition(3);
  EXPECT_EQ(third.full(), "persistent://t/n/x-partition-3");
  EXPECT_EQ(third.partition_index(), 3);
  EXPECT_EQ(third.base(), base);
  EXPECT_EQ(third, *TopicName::parse("t/n/x-partition-3"));
  EXPECT_EQ(std::string(third.base_local()), "x");
}

TEST(TopicName, BundleHashIsZlibsCrcOfTheFullName) {
  EXPECT_EQ(TopicName::parse("persistent://t1/n1/plain")->bundle_hash(), 0x2308dcbaU);
  EXPECT_EQ(TopicName::parse("test")->bundle_hash(), 0xaa2e30f5U);
}

TEST(TopicName, SystemTopics) {
  for (const char* text :
       {"persistent://a/b/__change_events", "persistent://a/b/__change_events-partition-2",
        "persistent://pulsar/system/transaction_coordinator_assign-partition-3",
        "persistent://pulsar/system/__transaction_log_0", "a/b/x-sub__transaction_pending_ack",
        "a/b/__transaction_buffer_snapshot_segments", "non-persistent://a/b/__change_events"}) {
    EXPECT_TRUE(TopicName::parse(text)->is_system()) << text;
  }
  for (const char* text : {"x", "pulsar/system/other", "a/b/__change_events2",
                           "non-persistent://pulsar/system/resource-usage"}) {
    EXPECT_FALSE(TopicName::parse(text)->is_system()) << text;
  }
}

TEST(TopicName, IsAMapKey) {
  std::unordered_map<TopicName, int> map;
  map[*TopicName::parse("x")] = 1;
  map[*TopicName::parse("persistent://public/default/x")] = 2;
  EXPECT_EQ(map.size(), 1U);
}

TEST(NamespaceName, Grammar) {
  auto v2 = NamespaceName::parse("a/b");
  ASSERT_TRUE(v2.is_ok());
  EXPECT_EQ(v2->tenant(), "a");
  EXPECT_EQ(v2->local(), "b");
  EXPECT_FALSE(v2->is_v1());
  EXPECT_EQ(v2->cluster(), "");
  auto v1 = NamespaceName::parse("a/cc/b");
  ASSERT_TRUE(v1.is_ok());
  EXPECT_TRUE(v1->is_v1());
  EXPECT_EQ(v1->cluster(), "cc");
  EXPECT_EQ(v1->local(), "b");
  for (const char* text : {"a", "a/b/c/d", "/", "a/", "/b", "a b/c", "a//b", "a/\xC3\xA9"}) {
    auto refused = NamespaceName::parse(text);
    ASSERT_FALSE(refused.is_ok()) << text;
    EXPECT_EQ(refused.status().message(),
              std::string("Invalid namespace format. expected <tenant>/<namespace> or "
                          "<tenant>/<cluster>/<namespace> but got: ") +
                  text);
  }
  EXPECT_EQ(NamespaceName::parse("").status().message(), "Invalid null namespace: ");
}

}  // namespace
}  // namespace geminga
