#include "broker/namespaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>

#include "metadata/rocksdb_store.h"
#include "runtime/runtime.h"

namespace geminga {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::IsEmpty;

class NamespacesTest : public testing::Test {
 protected:
  NamespacesTest() : runtime_({.shards = 1, .memory_limit = 64 << 20, .pin_threads = false}) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "geminga-namespaces-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    runtime_.start();
    auto opened = open_rocksdb_store({.path = root_ + "/metadata"});
    if (opened.is_ok()) store_ = std::move(opened).value();
    namespaces_ = std::make_unique<Namespaces>(*store_, config_);
  }
  template <typename F>
  auto run(F function) {
    return runtime_.run_and_wait(0, std::move(function));
  }

  ~NamespacesTest() override {
    EXPECT_TRUE(run([this] { return store_->close(); }).is_ok());
    store_.reset();
    runtime_.stop();
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::string stored(const std::string& path) {
    auto value = run([=, this] { return store_->get(path); });
    EXPECT_TRUE(value.is_ok());
    return value->has_value() ? (*value)->value : "(missing)";
  }
  void store(const std::string& path, const std::string& text) {
    EXPECT_TRUE(run([=, this] { return store_->put(path, text, {}); }).is_ok());
  }
  std::int32_t count(const TopicName& name) {
    return run([=, this] { return namespaces_->partition_count(name); }).value();
  }

  BrokerConfig config_;
  Runtime runtime_;
  std::string root_;
  std::unique_ptr<MetadataStore> store_;
  std::unique_ptr<Namespaces> namespaces_;
};

// What Pulsar 4.0.7 answers for /admin/v2/namespaces/public/default of a new standalone.
constexpr char kNewPolicies[] =
    R"({"auth_policies":{"namespace_auth":{},"destination_auth":{},"subscription_auth_roles":{}},)"
    R"("replication_clusters":["standalone"],"allowed_clusters":[],)"
    R"("bundles":{"boundaries":["0x00000000","0x40000000","0x80000000","0xc0000000","0xffffffff"],)"
    R"("numBundles":4},"backlog_quota_map":{},"clusterDispatchRate":{},"topicDispatchRate":{},)"
    R"("subscriptionDispatchRate":{},"replicatorDispatchRate":{},"clusterSubscribeRate":{},)"
    R"("publishMaxMessageRate":{},"latency_stats_sample_rate":{},"deleted":false,)"
    R"("encryption_required":false,"subscription_auth_mode":"None","offload_threshold":-1,)"
    R"("offload_threshold_in_seconds":-1,"schema_compatibility_strategy":"UNDEFINED",)"
    R"("is_allow_auto_update_schema":true,"schema_validation_enforced":false,)"
    R"("subscription_types_enabled":[],"properties":{},"migrated":false})";

TEST_F(NamespacesTest, BootstrapMakesWhatPulsarMakes) {
  ASSERT_TRUE(run([this] { return namespaces_->bootstrap(); }).is_ok());
  EXPECT_EQ(stored("/admin/policies/public/default"), kNewPolicies);
  EXPECT_EQ(stored("/admin/policies/pulsar/system"), kNewPolicies);
  for (const char* tenant : {"/admin/policies/public", "/admin/policies/pulsar"}) {
    EXPECT_EQ(stored(tenant), R"({"adminRoles":[],"allowedClusters":["standalone"]})");
  }
  const json::value cluster = json::parse(stored("/admin/clusters/standalone"));
  EXPECT_EQ(cluster.at("serviceUrl"), "http://localhost:8080");
  EXPECT_EQ(cluster.at("brokerServiceUrl"), "pulsar://localhost:6650");
  EXPECT_EQ(cluster.at("brokerClientSslFactoryPlugin"),
            "org.apache.pulsar.common.util.DefaultPulsarSslFactory");
}

TEST_F(NamespacesTest, BootstrapLeavesAloneWhatIsThere) {
  store("/admin/policies/public/default", R"({"deduplicationEnabled":true,"unknown":{"a":1}})");
  ASSERT_TRUE(run([this] { return namespaces_->bootstrap(); }).is_ok());
  ASSERT_TRUE(run([this] { return namespaces_->bootstrap(); }).is_ok());
  EXPECT_EQ(stored("/admin/policies/public/default"),
            R"({"deduplicationEnabled":true,"unknown":{"a":1}})");
}

TEST(NamespaceDocument, BundlesAreCutAsPulsarCutsThem) {
  const std::pair<int, const char*> cases[] = {
      {1, R"(["0x00000000","0xffffffff"])"},
      {3, R"(["0x00000000","0x55555555","0xaaaaaaaa","0xffffffff"])"},
      {7, R"(["0x00000000","0x24924924","0x49249248","0x6db6db6c","0x92492490","0xb6db6db4",)"
          R"("0xdb6db6d8","0xffffffff"])"}};
  for (const auto& [bundles, boundaries] : cases) {
    const json::value policies = json::parse(new_namespace_policies("c", bundles));
    EXPECT_EQ(json::serialize(policies.at("bundles").at("boundaries")), boundaries);
    EXPECT_EQ(policies.at("bundles").at("numBundles"), bundles);
    EXPECT_EQ(json::serialize(policies.at("replication_clusters")), R"(["c"])");
  }
}

TEST_F(NamespacesTest, ReadsPoliciesFresh) {
  EXPECT_FALSE(run([this] { return namespaces_->policies("t/n"); })->has_value());
  store("/admin/policies/t/n/child", "{}");  // a parent is no namespace
  EXPECT_FALSE(run([this] { return namespaces_->policies("t/n"); })->has_value());
  store("/admin/policies/t/n",
        R"({"message_ttl_in_seconds":60,"max_consumers_per_topic":3,"deleted":true,)"
        R"("delayed_delivery_policies":{"active":true,"maxDeliveryDelayInMillis":9},)"
        R"("retention_policies":{"retentionTimeInMinutes":-1,"retentionSizeInMB":10},)"
        R"("autoTopicCreationOverride":{"allowAutoTopicCreation":true,"topicType":"partitioned",)"
        R"("defaultNumPartitions":3},"subscription_types_enabled":["Shared","Failover"]})");
  auto policies = run([this] { return namespaces_->policies("t/n"); });
  ASSERT_TRUE(policies.is_ok() && policies->has_value());
  const NamespacePolicies& read = **policies;
  EXPECT_EQ(read.message_ttl_seconds, 60);
  EXPECT_EQ(read.delayed_delivery, true);
  EXPECT_EQ(read.max_delivery_delay_ms, 9);
  EXPECT_EQ(read.max_consumers_per_topic, 3);
  EXPECT_FALSE(read.max_producers_per_topic.has_value());
  EXPECT_EQ(read.retention_minutes, -1);
  EXPECT_EQ(read.retention_mb, 10);
  EXPECT_TRUE(read.deleted);
  ASSERT_TRUE(read.auto_topic_creation.has_value());
  EXPECT_TRUE(read.auto_topic_creation->allowed);
  EXPECT_TRUE(read.auto_topic_creation->partitioned);
  EXPECT_EQ(read.auto_topic_creation->partitions, 3);
  EXPECT_THAT(read.subscription_types_enabled, ElementsAre("Shared", "Failover"));
  store("/admin/policies/t/n", R"({"message_ttl_in_seconds":"soon","deduplicationEnabled":false})");
  policies = run([this] { return namespaces_->policies("t/n"); });
  ASSERT_TRUE(policies.is_ok() && policies->has_value());
  EXPECT_FALSE((*policies)->message_ttl_seconds.has_value());
  EXPECT_EQ((*policies)->deduplication, false);
  store("/admin/policies/t/n", "[1]");
  policies = run([this] { return namespaces_->policies("t/n"); });
  EXPECT_TRUE(policies.is(ErrorCode::Corruption));
  EXPECT_THAT(policies.status().message(), testing::HasSubstr("t/n"));
}

TEST_F(NamespacesTest, ThoseOfTheOldFormNeedNotBeCreated) {
  EXPECT_TRUE(run([this] { return namespaces_->policies("t/c/n"); })->has_value());
  EXPECT_FALSE(run([this] { return namespaces_->policies("t/global/n"); })->has_value());
  store("/admin/policies/t/c/n", R"({"deleted":true})");
  EXPECT_TRUE((*run([this] { return namespaces_->policies("t/c/n"); }))->deleted);
}

TEST_F(NamespacesTest, PartitionedTopics) {
  const TopicName name = *TopicName::parse("persistent://t/n/a b");
  const std::string path = "/admin/partitioned-topics/t/n/persistent/a+b";
  EXPECT_EQ(count(name), 0);
  ASSERT_TRUE(run([&] { return namespaces_->create_partitioned(name, 3, {}); }).is_ok());
  EXPECT_EQ(stored(path), R"({"partitions":3,"deleted":false})");
  EXPECT_EQ(count(name), 3);
  const Status again = run([&] { return namespaces_->create_partitioned(name, 4, {}); });
  EXPECT_TRUE(again.is(ErrorCode::AlreadyExists));
  EXPECT_EQ(again.message(), "This topic already exists");

  store(path, R"({"partitions":3,"deleted":false,"properties":{"k":"v"},"later":[1]})");
  ASSERT_TRUE(run([&] { return namespaces_->grow_partitioned(name, 5); }).is_ok());
  EXPECT_EQ(stored(path), R"({"partitions":5,"deleted":false,"properties":{"k":"v"},"later":[1]})");
  EXPECT_TRUE(
      run([&] { return namespaces_->grow_partitioned(name, 4); }).is(ErrorCode::InvalidArgument));

  const TopicName other = *TopicName::parse("non-persistent://t/n/np");
  ASSERT_TRUE(run([&] { return namespaces_->create_partitioned(other, 2, {{"k", "v"}}); }).is_ok());
  EXPECT_EQ(stored("/admin/partitioned-topics/t/n/non-persistent/np"),
            R"({"partitions":2,"deleted":false,"properties":{"k":"v"}})");
  EXPECT_THAT(*run([&] { return namespaces_->partitioned_topics("t/n", TopicDomain::Persistent); }),
              ElementsAre("persistent://t/n/a b"));

  ASSERT_TRUE(run([&] { return namespaces_->remove_partitioned(name); }).is_ok());
  EXPECT_TRUE(run([&] { return namespaces_->remove_partitioned(name); }).is(ErrorCode::NotFound));
  EXPECT_TRUE(run([&] { return namespaces_->grow_partitioned(name, 9); }).is(ErrorCode::NotFound));
  EXPECT_THAT(*run([&] { return namespaces_->partitioned_topics("t/n", TopicDomain::Persistent); }),
              IsEmpty());
}

}  // namespace
}  // namespace geminga
