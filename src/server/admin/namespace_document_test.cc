#include "server/admin/namespace_document.h"

#include <gtest/gtest.h>

#include "broker/namespaces.h"
#include "server/json_text.h"

namespace geminga {
namespace {

TEST(NamespaceDocument, NothingGivenIsTheDefault) {
  const auto document = new_namespace_document({}, "standalone", 4);
  ASSERT_TRUE(document.is_ok());
  EXPECT_EQ(to_json(document->at("replication_clusters")), R"(["standalone"])");
  EXPECT_EQ(document->at("bundles").at("numBundles").as_int64(), 4);
  EXPECT_EQ(document->at("schema_compatibility_strategy").as_string(), "UNDEFINED");
  EXPECT_FALSE(document->contains("retention_policies"));
  EXPECT_TRUE(parse_namespace_policies(to_json(*document), "standalone").is_ok());
}

TEST(NamespaceDocument, WhatIsGivenIsKept) {
  const auto body = parse_json(
      R"({"replication_clusters":["a","b"],"bundles":{"numBundles":8},"retention_policies":{"retentionTimeInMinutes":1,"retentionSizeInMB":2},"message_ttl_in_seconds":60,"unknown":1,"deleted":true,"properties":{"k":"v"},"persistence":null})");
  const auto document = new_namespace_document(*body, "standalone", 4);
  ASSERT_TRUE(document.is_ok());
  EXPECT_EQ(to_json(document->at("replication_clusters")), R"(["a","b"])");
  EXPECT_EQ(document->at("bundles").at("numBundles").as_int64(), 8);
  EXPECT_EQ(document->at("message_ttl_in_seconds").as_int64(), 60);
  EXPECT_FALSE(document->at("deleted").as_bool());
  EXPECT_FALSE(document->contains("unknown"));
  EXPECT_FALSE(document->contains("persistence"));
  EXPECT_FALSE(document->contains("clusterThatCanDeleteNamespace"));
}

TEST(NamespaceDocument, BundlesAreChecked) {
  const auto bundles = [](const char* text) {
    return new_namespace_document(*parse_json(std::string(R"({"bundles":)") + text + "}"), "c", 4);
  };
  EXPECT_EQ(bundles(R"({"numBundles":-3})")->at("bundles").at("numBundles").as_int64(), 4);
  EXPECT_TRUE(bundles(R"({"numBundles":100000})").is(ErrorCode::InvalidArgument));
  EXPECT_EQ(bundles(R"({"boundaries":["0x00000000","0x12345678","0xffffffff"]})")
                ->at("bundles")
                .at("numBundles")
                .as_int64(),
            2);
  EXPECT_TRUE(
      bundles(R"({"boundaries":["0x00000001","0xffffffff"]})").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(bundles(R"({"boundaries":["0x00000000","0x00000000","0xffffffff"]})")
                  .is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(
      bundles(R"({"boundaries":["0x00000000","0x12345678"]})").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(bundles("[]").is(ErrorCode::Protocol));
}

TEST(NamespaceDocument, TopicPoliciesAreSharedByPartitions) {
  EXPECT_EQ(topic_policies_path(*TopicName::parse("persistent://t/n/a b-partition-3")),
            "/admin/topic-policies/t/n/persistent/a+b");
}

}  // namespace
}  // namespace geminga
