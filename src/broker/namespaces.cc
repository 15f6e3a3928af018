#include "broker/namespaces.h"

#include "broker/policy_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/url_encoding.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr char kPoliciesRoot[] = "/admin/policies/";
constexpr char kPartitionedRoot[] = "/admin/partitioned-topics/";
constexpr int kAttempts = 32;  // of a compare-and-set that others win

std::string partitioned_root(std::string_view name_space, TopicDomain domain) {
  return fmt::format("{}{}/{}", kPartitionedRoot, name_space, to_string(domain));
}

std::string partitioned_path(const TopicName& name) {
  return fmt::format("{}/{}", partitioned_root(name.ns(), name.domain()), url_encode(name.local()));
}

json::object even_bundles(std::int64_t count) {
  // The width is rounded once, as in Pulsar: the last bundle takes the rest.
  const std::int64_t width = (std::int64_t{1} << 32) / count;
  json::array boundaries;
  for (std::int64_t i = 0; i < count; ++i) {
    boundaries.emplace_back(fmt::format("0x{:08x}", width * i));
  }
  boundaries.emplace_back("0xffffffff");
  return {{"boundaries", std::move(boundaries)}, {"numBundles", count}};
}

std::optional<std::int64_t> number(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  boost::system::error_code error;
  const auto result = value->to_number<std::int64_t>(error);
  if (error) return std::nullopt;
  return result;
}

std::optional<bool> flag(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  if (value == nullptr || !value->is_bool()) return std::nullopt;
  return value->get_bool();
}

const json::object* member(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

Result<json::object> parse_object(const std::string& text, std::string_view what) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    return Status::Corruption(fmt::format("{} is not the JSON object it must be", what));
  }
  return std::move(value.get_object());
}

}  // namespace

std::string new_namespace_policies(const std::string& cluster, std::int64_t bundles) {
  const json::object policies{
      {"auth_policies", json::object{{"namespace_auth", json::object{}},
                                     {"destination_auth", json::object{}},
                                     {"subscription_auth_roles", json::object{}}}},
      {"replication_clusters", json::array{cluster}},
      {"allowed_clusters", json::array{}},
      {"bundles", even_bundles(bundles)},
      {"backlog_quota_map", json::object{}},
      {"clusterDispatchRate", json::object{}},
      {"topicDispatchRate", json::object{}},
      {"subscriptionDispatchRate", json::object{}},
      {"replicatorDispatchRate", json::object{}},
      {"clusterSubscribeRate", json::object{}},
      {"publishMaxMessageRate", json::object{}},
      {"latency_stats_sample_rate", json::object{}},
      {"deleted", false},
      {"encryption_required", false},
      {"subscription_auth_mode", "None"},
      {"offload_threshold", -1},
      {"offload_threshold_in_seconds", -1},
      {"schema_compatibility_strategy", "UNDEFINED"},
      {"is_allow_auto_update_schema", true},
      {"schema_validation_enforced", false},
      {"subscription_types_enabled", json::array{}},
      {"properties", json::object{}},
      {"migrated", false}};
  return json::serialize(policies);
}

Result<NamespacePolicies> parse_namespace_policies(const std::string& text,
                                                   const std::string& cluster) {
  GM_ASSIGN_OR_RETURN(const json::object stored, parse_object(text, "namespace policies"));
  NamespacePolicies policies;
  if (const auto* creation = member(stored, "autoTopicCreationOverride")) {
    NamespacePolicies::AutoTopicCreation override;
    override.allowed = flag(*creation, "allowAutoTopicCreation").value_or(true);
    const json::value* type = creation->if_contains("topicType");
    override.partitioned =
        type != nullptr && type->is_string() && type->get_string() == "partitioned";
    const auto count = number(*creation, "defaultNumPartitions").value_or(1);
    override.partitions = static_cast<std::int32_t>(std::clamp<std::int64_t>(count, 1, 100'000));
    policies.auto_topic_creation = override;
  }
  if (const auto* creation = member(stored, "autoSubscriptionCreationOverride")) {
    policies.auto_subscription_creation = flag(*creation, "allowAutoSubscriptionCreation");
  }
  if (const auto* retention = member(stored, "retention_policies")) {
    policies.retention_minutes = number(*retention, "retentionTimeInMinutes");
    policies.retention_mb = number(*retention, "retentionSizeInMB");
  }
  const auto of_cluster = [&](std::string_view name) -> const json::value* {
    const json::object* by_cluster = member(stored, name);
    return by_cluster != nullptr ? by_cluster->if_contains(cluster) : nullptr;
  };
  policies.publish_rate = publish_rate(of_cluster("publishMaxMessageRate"));
  policies.dispatch_rate = dispatch_rate(of_cluster("topicDispatchRate"));
  policies.subscription_dispatch_rate = dispatch_rate(of_cluster("subscriptionDispatchRate"));
  policies.subscribe_rate = subscribe_rate(of_cluster("clusterSubscribeRate"));
  policies.max_mark_delete_rate = mark_delete_rate(stored.if_contains("persistence"));
  if (const auto* delayed = member(stored, "delayed_delivery_policies")) {
    policies.delayed_delivery = flag(*delayed, "active");
    policies.max_delivery_delay_ms = number(*delayed, "maxDeliveryDelayInMillis");
  }
  policies.message_ttl_seconds = number(stored, "message_ttl_in_seconds");
  policies.subscription_expiration_minutes = number(stored, "subscription_expiration_time_minutes");
  take_backlog_quotas(stored.if_contains("backlog_quota_map"), policies);
  take_inactive_topics(stored.if_contains("inactive_topic_policies"), policies);
  policies.compaction_threshold = number(stored, "compaction_threshold");
  policies.deduplication = flag(stored, "deduplicationEnabled");
  policies.deduplication_snapshot_seconds = number(stored, "deduplicationSnapshotIntervalSeconds");
  policies.max_producers_per_topic = number(stored, "max_producers_per_topic");
  policies.max_consumers_per_topic = number(stored, "max_consumers_per_topic");
  policies.max_consumers_per_subscription = number(stored, "max_consumers_per_subscription");
  policies.max_subscriptions_per_topic = number(stored, "max_subscriptions_per_topic");
  policies.max_topics_per_namespace = number(stored, "max_topics_per_namespace");
  policies.max_unacked_per_consumer = number(stored, "max_unacked_messages_per_consumer");
  policies.max_unacked_per_subscription = number(stored, "max_unacked_messages_per_subscription");
  if (const json::value* types = stored.if_contains("subscription_types_enabled");
      types != nullptr && types->is_array()) {
    for (const json::value& type : types->get_array()) {
      if (type.is_string()) policies.subscription_types_enabled.emplace_back(type.get_string());
    }
  }
  policies.encryption_required = flag(stored, "encryption_required").value_or(false);
  policies.allow_auto_update_schema = flag(stored, "is_allow_auto_update_schema").value_or(true);
  policies.schema_validation_enforced = flag(stored, "schema_validation_enforced").value_or(false);
  policies.deleted = flag(stored, "deleted").value_or(false);
  return policies;
}

Namespaces::Namespaces(MetadataStore& metadata, const BrokerConfig& config)
    : metadata_(metadata), config_(config) {}

Task<Status> Namespaces::create_if_missing(std::string path, std::string value) {
  MetadataPut options;
  options.expected_version = -1;
  auto put = co_await metadata_.put(std::move(path), std::move(value), options);
  if (!put && !put.is(ErrorCode::BadVersion) && !put.is(ErrorCode::AlreadyExists))
    co_return put.status();
  co_return Status::ok();
}

Task<Status> Namespaces::bootstrap() {
  const std::string cluster = config_.cluster_name;
  const std::string url =
      fmt::format("http://{}:{}", config_.advertised_address, config_.web_service_port);
  const std::string broker_url =
      fmt::format("pulsar://{}:{}", config_.advertised_address, config_.broker_service_port);
  const json::object cluster_data{
      {"serviceUrl", url},
      {"brokerServiceUrl", broker_url},
      {"brokerClientTlsEnabled", false},
      {"tlsAllowInsecureConnection", false},
      {"brokerClientTlsEnabledWithKeyStore", false},
      {"brokerClientTlsTrustStoreType", "JKS"},
      {"brokerClientTlsKeyStoreType", "JKS"},
      {"brokerClientSslFactoryPlugin", "org.apache.pulsar.common.util.DefaultPulsarSslFactory"}};
  const json::object tenant{{"adminRoles", json::array{}},
                            {"allowedClusters", json::array{cluster}}};
  const std::string tenant_text = json::serialize(tenant);
  const std::string policies =
      new_namespace_policies(cluster, config_.default_number_of_namespace_bundles);
  GM_CO_RETURN_IF_ERROR(
      co_await create_if_missing("/admin/clusters/" + cluster, json::serialize(cluster_data)));
  for (const char* name : {"public", "pulsar"}) {
    GM_CO_RETURN_IF_ERROR(
        co_await create_if_missing(std::string(kPoliciesRoot) + name, tenant_text));
  }
  for (const char* name : {"public/default", "pulsar/system"}) {
    GM_CO_RETURN_IF_ERROR(co_await create_if_missing(std::string(kPoliciesRoot) + name, policies));
  }
  co_return Status::ok();
}

Task<Result<std::optional<NamespacePolicies>>> Namespaces::policies(std::string name_space) {
  auto found = co_await metadata_.get(kPoliciesRoot + name_space);
  if (!found) co_return found.status();
  // A parent without a value of its own is no namespace.
  if (!found->has_value() || (*found)->value.empty()) {
    std::optional<NamespacePolicies> defaults;
    const auto name = NamespaceName::parse(name_space);
    if (name && name->exists_by_itself()) defaults.emplace();
    co_return defaults;
  }
  auto policies = parse_namespace_policies((*found)->value, config_.cluster_name);
  if (!policies) co_return policies.status().with_context("namespace " + name_space);
  co_return std::optional<NamespacePolicies>(std::move(*policies));
}

Task<Result<std::int32_t>> Namespaces::partition_count(TopicName name) {
  auto found = co_await metadata_.get(partitioned_path(name));
  if (!found) co_return found.status();
  if (!found->has_value() || (*found)->value.empty()) co_return 0;
  auto stored = parse_object((*found)->value, "metadata of partitioned topic " + name.full());
  if (!stored) co_return stored.status();
  co_return static_cast<std::int32_t>(number(*stored, "partitions").value_or(0));
}

Task<Status> Namespaces::create_partitioned(TopicName name, std::int32_t partitions,
                                            std::map<std::string, std::string> properties) {
  json::object stored{{"partitions", partitions}, {"deleted", false}};
  if (!properties.empty()) {
    json::object kept;
    for (auto& [key, value] : properties) kept[key] = value;
    stored["properties"] = std::move(kept);
  }
  MetadataPut options;
  options.expected_version = -1;
  auto put = co_await metadata_.put(partitioned_path(name), json::serialize(stored), options);
  if (put.is(ErrorCode::BadVersion) || put.is(ErrorCode::AlreadyExists)) {
    co_return Status::AlreadyExists("This topic already exists");
  }
  co_return put.status();
}

Task<Status> Namespaces::grow_partitioned(TopicName name, std::int32_t partitions) {
  const std::string path = partitioned_path(name);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto found = co_await metadata_.get(path);
    if (!found) co_return found.status();
    if (!found->has_value() || (*found)->value.empty()) {
      co_return Status::NotFound("Partitioned topic does not exist: " + name.full());
    }
    auto stored = parse_object((*found)->value, "metadata of partitioned topic " + name.full());
    if (!stored) co_return stored.status();
    if (partitions <= number(*stored, "partitions").value_or(0)) {
      co_return Status::InvalidArgument(
          fmt::format("Number of new partitions {} must be more than existing {}", partitions,
                      number(*stored, "partitions").value_or(0)));
    }
    (*stored)["partitions"] = partitions;
    MetadataPut options;
    options.expected_version = (*found)->stat.version;
    auto put = co_await metadata_.put(path, json::serialize(*stored), options);
    if (!put.is(ErrorCode::BadVersion)) co_return put.status();
  }
  co_return Status::BadVersion("others kept changing the partitions of " + name.full());
}

Task<Status> Namespaces::remove_partitioned(TopicName name) {
  co_return co_await metadata_.remove(partitioned_path(name));
}

Task<Result<std::vector<std::string>>> Namespaces::partitioned_topics(std::string name_space,
                                                                      TopicDomain domain) {
  auto locals = co_await metadata_.children(partitioned_root(name_space, domain));
  if (!locals) co_return locals.status();
  std::vector<std::string> names;
  names.reserve(locals->size());
  for (const std::string& encoded : *locals) {
    auto local = url_decode(encoded);
    if (!local) co_return Status::Corruption("partitioned topic with the broken name " + encoded);
    names.push_back(fmt::format("{}://{}/{}", to_string(domain), name_space, *local));
  }
  co_return names;
}

}  // namespace geminga
