#include "server/admin/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <cctype>
#include <memory>
#include <set>
#include <string_view>

#include "server/json_text.h"

namespace geminga {

namespace json = boost::json;

namespace {

// What the pattern does not tell. A row fits the routes of the method whose pattern ends with
// `end`; the first that fits counts. `query` has "name:type" between spaces (string, integer,
// boolean, number), `body` a schema of kSchemas or one of these types, with "[]" behind it a list
// of them.
struct Detail {
  HttpMethod method;
  std::string_view end;
  std::string_view query;
  std::string_view body = {};
};

constexpr HttpMethod kGet = HttpMethod::Get;
constexpr HttpMethod kPut = HttpMethod::Put;
constexpr HttpMethod kPost = HttpMethod::Post;
constexpr HttpMethod kDelete = HttpMethod::Delete;
constexpr std::string_view kPolicy = "applied:boolean isGlobal:boolean";
constexpr std::string_view kGlobal = "isGlobal:boolean";

constexpr Detail kDetails[] = {
    // topics and subscriptions
    {kGet, "/{topic}/stats",
     "getPreciseBacklog:boolean subscriptionBacklogSize:boolean getEarliestTimeInBacklog:boolean "
     "excludePublishers:boolean excludeConsumers:boolean"},
    {kGet, "/{topic}/partitioned-stats",
     "perPartition:boolean getPreciseBacklog:boolean subscriptionBacklogSize:boolean "
     "getEarliestTimeInBacklog:boolean excludePublishers:boolean excludeConsumers:boolean"},
    {kGet, "/{topic}/internalStats", "metadata:boolean"},
    {kGet, "/{topic}/partitions", "checkAllowAutoCreation:boolean"},
    {kPut, "/{topic}/partitions", "createLocalTopicOnly:boolean", "integer"},
    {kPost, "/{topic}/partitions", "updateLocalTopicOnly:boolean force:boolean", "integer"},
    {kDelete, "/{topic}/partitions", "force:boolean deleteSchema:boolean"},
    {kDelete, "/{namespace}/{topic}", "force:boolean deleteSchema:boolean"},
    {kPut, "/{namespace}/{topic}", "", "Properties"},
    {kPut, "/{topic}/properties", "", "Properties"},
    {kDelete, "/{topic}/properties", "key:string"},
    {kGet, "/{topic}/examinemessage", "initialPosition:string messagePosition:integer"},
    {kPut, "/{topic}/backlogSize", "", "MessageId"},
    {kPut, "/subscription/{subscription}", "replicated:boolean", "MessageId"},
    {kDelete, "/subscription/{subscription}", "force:boolean"},
    {kPut, "/subscription/{subscription}/properties", "", "Properties"},
    {kPost, "/subscription/{subscription}/resetcursor", "", "MessageId"},
    {kPost, "/subscription/{subscription}/expireMessages", "", "MessageId"},
    {kPost, "/subscription/{subscription}/analyzeBacklog", "", "MessageId"},
    {kPost, "/subscription/{subscription}/replicatedSubscriptionStatus", "", "boolean"},
    {kPut, "/{topic}/offload", "", "MessageId"},
    // policies of topics
    {kPost, "/{topic}/messageTTL", "messageTTL:integer isGlobal:boolean"},
    {kDelete, "/{topic}/messageTTL", "messageTTL:integer isGlobal:boolean"},
    {kPost, "/{topic}/backlogQuota", "backlogQuotaType:string isGlobal:boolean", "BacklogQuota"},
    {kDelete, "/{topic}/backlogQuota", "backlogQuotaType:string isGlobal:boolean"},
    {kPost, "/{topic}/retention", kGlobal, "RetentionPolicies"},
    {kPost, "/{topic}/persistence", kGlobal, "PersistencePolicies"},
    {kPost, "/{topic}/dispatchRate", kGlobal, "DispatchRate"},
    {kPost, "/{topic}/subscriptionDispatchRate", kGlobal, "DispatchRate"},
    {kPost, "/{subscription}/dispatchRate", kGlobal, "DispatchRate"},
    {kPost, "/{topic}/replicatorDispatchRate", kGlobal, "DispatchRate"},
    {kPost, "/{topic}/publishRate", kGlobal, "PublishRate"},
    {kPost, "/{topic}/subscribeRate", kGlobal, "SubscribeRate"},
    {kPost, "/{topic}/inactiveTopicPolicies", kGlobal, "InactiveTopicPolicies"},
    {kPost, "/{topic}/delayedDelivery", kGlobal, "DelayedDeliveryPolicies"},
    {kPost, "/{topic}/subscriptionTypesEnabled", kGlobal, "string[]"},
    {kPost, "/{topic}/replication", kGlobal, "string[]"},
    {kPost, "/{topic}/deduplicationEnabled", kGlobal, "boolean"},
    {kPost, "/{topic}/schemaValidationEnforced", "", "boolean"},
    {kPut, "/{topic}/schemaCompatibilityStrategy", "", "string"},
    {kPost, "/{topic}/maxProducers", kGlobal, "integer"},
    {kPost, "/{topic}/maxConsumers", kGlobal, "integer"},
    {kPost, "/{topic}/maxConsumersPerSubscription", kGlobal, "integer"},
    {kPost, "/{topic}/maxSubscriptionsPerTopic", kGlobal, "integer"},
    {kPost, "/{topic}/maxMessageSize", kGlobal, "integer"},
    {kPost, "/{topic}/maxUnackedMessagesOnConsumer", kGlobal, "integer"},
    {kPost, "/{topic}/maxUnackedMessagesOnSubscription", kGlobal, "integer"},
    {kPost, "/{topic}/compactionThreshold", kGlobal, "integer"},
    {kPost, "/{topic}/deduplicationSnapshotInterval", kGlobal, "integer"},
    {kGet, "/{topic}/messageTTL", kPolicy},
    {kGet, "/{topic}/retention", kPolicy},
    {kGet, "/{topic}/backlogQuotaMap", kPolicy},
    {kGet, "/{topic}/maxProducers", kPolicy},
    {kGet, "/{topic}/dispatchRate", kPolicy},
    {kGet, "/{topic}/compactionThreshold", kPolicy},
    // tenants, namespaces, clusters
    {kPut, "/tenants/{tenant}", "", "TenantInfo"},
    {kPost, "/tenants/{tenant}", "", "TenantInfo"},
    {kDelete, "/tenants/{tenant}", "force:boolean"},
    {kPut, "/namespaces/{tenant}/{namespace}", "", "Policies"},
    {kDelete, "/namespaces/{tenant}/{namespace}", "force:boolean"},
    {kGet, "/{namespace}/topics", "mode:string includeSystemTopic:boolean"},
    {kPost, "/{namespace}/retention", "", "RetentionPolicies"},
    {kPost, "/{namespace}/persistence", "", "PersistencePolicies"},
    {kPost, "/{namespace}/backlogQuota", "backlogQuotaType:string", "BacklogQuota"},
    {kDelete, "/{namespace}/backlogQuota", "backlogQuotaType:string"},
    {kPost, "/{namespace}/messageTTL", "", "integer"},
    {kPost, "/{namespace}/dispatchRate", "", "DispatchRate"},
    {kPost, "/{namespace}/subscriptionDispatchRate", "", "DispatchRate"},
    {kPost, "/{namespace}/replicatorDispatchRate", "", "DispatchRate"},
    {kPost, "/{namespace}/publishRate", "", "PublishRate"},
    {kPost, "/{namespace}/subscribeRate", "", "SubscribeRate"},
    {kPost, "/{namespace}/inactiveTopicPolicies", "", "InactiveTopicPolicies"},
    {kPost, "/{namespace}/delayedDelivery", "", "DelayedDeliveryPolicies"},
    {kPost, "/{namespace}/autoTopicCreation", "", "AutoTopicCreationOverride"},
    {kPost, "/{namespace}/autoSubscriptionCreation", "", "AutoSubscriptionCreationOverride"},
    {kPost, "/{namespace}/deduplication", "", "boolean"},
    {kPost, "/{namespace}/encryptionRequired", "", "boolean"},
    {kPost, "/{namespace}/schemaValidationEnforced", "", "boolean"},
    {kPost, "/{namespace}/isAllowAutoUpdateSchema", "", "boolean"},
    {kPost, "/{namespace}/subscriptionTypesEnabled", "", "string[]"},
    {kPost, "/{namespace}/replication", "", "string[]"},
    {kPost, "/{namespace}/antiAffinity", "", "string"},
    {kPost, "/{namespace}/maxProducersPerTopic", "", "integer"},
    {kPost, "/{namespace}/maxConsumersPerTopic", "", "integer"},
    {kPost, "/{namespace}/maxConsumersPerSubscription", "", "integer"},
    {kPost, "/{namespace}/maxSubscriptionsPerTopic", "", "integer"},
    {kPost, "/{namespace}/maxTopicsPerNamespace", "", "integer"},
    {kPost, "/{namespace}/maxUnackedMessagesPerConsumer", "", "integer"},
    {kPost, "/{namespace}/maxUnackedMessagesPerSubscription", "", "integer"},
    {kPost, "/{namespace}/subscriptionExpirationTime", "", "integer"},
    {kPut, "/{namespace}/compactionThreshold", "", "integer"},
    {kPut, "/{namespace}/offloadThreshold", "", "integer"},
    {kPut, "/{namespace}/properties", "", "Properties"},
    {kPut, "/{bundle}/split", "unload:boolean splitAlgorithmName:string", "integer[]"},
    {kPost, "/permissions/{role}", "", "string[]"},
    {kPut, "/clusters/{cluster}", "", "ClusterData"},
    {kPost, "/clusters/{cluster}", "", "ClusterData"},
    {kPost, "/clusters/{cluster}/peers", "", "string[]"},
    {kPut, "/resourcegroups/{group}", "", "ResourceGroup"},
    {kPost, "/schemas/{tenant}/{namespace}/{topic}/schema", "", "PostSchemaPayload"},
    {kPost, "/schemas/{tenant}/{namespace}/{topic}/compatibility", "", "PostSchemaPayload"},
    {kPost, "/schemas/{tenant}/{namespace}/{topic}/version", "", "PostSchemaPayload"},
    {kDelete, "/schemas/{tenant}/{namespace}/{topic}/schema", "force:boolean"},
};

constexpr std::string_view kSchemas = R"({
"Error":{"type":"object","properties":{"reason":{"type":"string"}}},
"Properties":{"type":"object","additionalProperties":{"type":"string"}},
"MessageId":{"type":"object","properties":{"ledgerId":{"type":"integer","format":"int64"},"entryId":{"type":"integer","format":"int64"},"partitionIndex":{"type":"integer"}}},
"TenantInfo":{"type":"object","properties":{"adminRoles":{"type":"array","items":{"type":"string"}},"allowedClusters":{"type":"array","items":{"type":"string"}}}},
"ClusterData":{"type":"object","properties":{"serviceUrl":{"type":"string"},"serviceUrlTls":{"type":"string"},"brokerServiceUrl":{"type":"string"},"brokerServiceUrlTls":{"type":"string"}}},
"Policies":{"type":"object","properties":{"replication_clusters":{"type":"array","items":{"type":"string"}},"bundles":{"type":"object","properties":{"numBundles":{"type":"integer"}}},"properties":{"$ref":"#/components/schemas/Properties"}}},
"RetentionPolicies":{"type":"object","properties":{"retentionTimeInMinutes":{"type":"integer"},"retentionSizeInMB":{"type":"integer","format":"int64"}}},
"PersistencePolicies":{"type":"object","properties":{"bookkeeperEnsemble":{"type":"integer"},"bookkeeperWriteQuorum":{"type":"integer"},"bookkeeperAckQuorum":{"type":"integer"},"managedLedgerMaxMarkDeleteRate":{"type":"number"}}},
"BacklogQuota":{"type":"object","properties":{"limitSize":{"type":"integer","format":"int64"},"limitTime":{"type":"integer"},"policy":{"type":"string","enum":["producer_request_hold","producer_exception","consumer_backlog_eviction"]}}},
"DispatchRate":{"type":"object","properties":{"dispatchThrottlingRateInMsg":{"type":"integer"},"dispatchThrottlingRateInByte":{"type":"integer","format":"int64"},"relativeToPublishRate":{"type":"boolean"},"ratePeriodInSecond":{"type":"integer"}}},
"PublishRate":{"type":"object","properties":{"publishThrottlingRateInMsg":{"type":"integer"},"publishThrottlingRateInByte":{"type":"integer","format":"int64"}}},
"SubscribeRate":{"type":"object","properties":{"subscribeThrottlingRatePerConsumer":{"type":"integer"},"ratePeriodInSecond":{"type":"integer"}}},
"InactiveTopicPolicies":{"type":"object","properties":{"inactiveTopicDeleteMode":{"type":"string","enum":["delete_when_no_subscriptions","delete_when_subscriptions_caught_up"]},"maxInactiveDurationSeconds":{"type":"integer"},"deleteWhileInactive":{"type":"boolean"}}},
"DelayedDeliveryPolicies":{"type":"object","properties":{"active":{"type":"boolean"},"tickTime":{"type":"integer"},"maxDeliveryDelayInMillis":{"type":"integer"}}},
"AutoTopicCreationOverride":{"type":"object","properties":{"allowAutoTopicCreation":{"type":"boolean"},"topicType":{"type":"string"},"defaultNumPartitions":{"type":"integer"}}},
"AutoSubscriptionCreationOverride":{"type":"object","properties":{"allowAutoSubscriptionCreation":{"type":"boolean"}}},
"ResourceGroup":{"type":"object","properties":{"publishRateInMsgs":{"type":"integer"},"publishRateInBytes":{"type":"integer"},"dispatchRateInMsgs":{"type":"integer"},"dispatchRateInBytes":{"type":"integer"}}},
"PostSchemaPayload":{"type":"object","properties":{"type":{"type":"string"},"schema":{"type":"string"},"properties":{"$ref":"#/components/schemas/Properties"}}}
})";

json::object typed(std::string_view type) {
  if (type.ends_with("[]")) {
    type.remove_suffix(2);
    return {{"type", "array"}, {"items", typed(type)}};
  }
  if (std::islower(static_cast<unsigned char>(type.front())) != 0) return {{"type", type}};
  return {{"$ref", fmt::format("#/components/schemas/{}", type)}};
}

std::string_view verb_of(HttpMethod method) {
  switch (method) {
    case HttpMethod::Put: return "put";
    case HttpMethod::Post: return "post";
    case HttpMethod::Delete: return "delete";
    default: return "get";
  }
}

// "getAdminV2TenantsTenant"
std::string operation_id(const Route& route) {
  std::string id(verb_of(route.method));
  bool start = true;
  for (const char c : route.pattern) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      if (c == '{') id += "By";
      start = true;
      continue;
    }
    id += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    start = false;
  }
  return id;
}

// Which part of the API: the first segment that is no "admin" and no version.
std::string tag_of(const std::string& pattern) {
  std::string_view rest(pattern);
  while (rest.starts_with('/')) {
    rest.remove_prefix(1);
    const std::string_view segment = rest.substr(0, rest.find('/'));
    if (segment != "admin" && segment != "v2" && segment != "v3") return std::string(segment);
    rest.remove_prefix(segment.size());
  }
  return "other";
}

json::array path_parameters(const std::string& pattern) {
  json::array parameters;
  for (std::size_t at = pattern.find('{'); at != std::string::npos;
       at = pattern.find('{', at + 1)) {
    std::string name = pattern.substr(at + 1, pattern.find('}', at) - at - 1);
    if (name.ends_with("...")) name.resize(name.size() - 3);
    parameters.push_back(
        json::object{{"name", name},
                     {"in", "path"},
                     {"required", true},
                     {"schema", json::object{{"type", "string"}, {"minLength", 1}}}});
  }
  return parameters;
}

void add_query(json::array& parameters, std::string_view query) {
  while (!query.empty()) {
    const std::size_t space = std::min(query.find(' '), query.size());
    const std::string_view one = query.substr(0, space);
    query.remove_prefix(std::min(space + 1, query.size()));
    const std::size_t colon = one.find(':');
    parameters.push_back(json::object{{"name", one.substr(0, colon)},
                                      {"in", "query"},
                                      {"required", false},
                                      {"schema", typed(one.substr(colon + 1))}});
  }
}

json::object answers(const Route& route) {
  const auto reason = [](const char* text) {
    json::object schema = typed("Error");
    json::object content;
    content["application/json"] = json::object{{"schema", std::move(schema)}};
    return json::object{{"description", text}, {"content", std::move(content)}};
  };
  json::object out;
  if (route.built)
    out["2XX"] = json::object{{"description", "Done; with a body, what was asked for"}};
  out["4XX"] =
      reason("Refused: the request is wrong, or what it names is not there or not in that state");
  if (!route.built) out["501"] = reason("Not available in this version");
  out["default"] = reason("The broker could not do it now");
  return out;
}

json::object operation(const Route& route, const Detail* detail) {
  json::object out;
  out["operationId"] = operation_id(route);
  out["summary"] = route.summary;
  out["tags"] = json::array{json::string(tag_of(route.pattern))};
  json::array parameters = path_parameters(route.pattern);
  if (detail != nullptr) add_query(parameters, detail->query);
  out["parameters"] = std::move(parameters);
  if (detail != nullptr && !detail->body.empty()) {
    json::object content;
    content["application/json"] = json::object{{"schema", typed(detail->body)}};
    out["requestBody"] = json::object{{"content", std::move(content)}};
  }
  out["responses"] = answers(route);
  return out;
}

std::string path_of(const std::string& pattern) {
  std::string path = pattern;
  const std::size_t rest = path.find("...}");
  if (rest != std::string::npos) path.erase(rest, 3);
  return path;
}

}  // namespace

json::object describe_api(const HttpRouter& router, std::vector<std::string>* unused) {
  json::object paths;
  std::set<const Detail*> fitted;
  for (const auto& route : router.routes()) {
    const Detail* found = nullptr;
    for (const Detail& detail : kDetails) {
      if (detail.method != route->method || !std::string_view(route->pattern).ends_with(detail.end))
        continue;
      fitted.insert(&detail);
      if (found == nullptr) found = &detail;
    }
    json::value& path = paths[path_of(route->pattern)];
    if (!path.is_object()) path = json::object();
    path.get_object()[verb_of(route->method)] = operation(*route, found);
  }
  if (unused != nullptr) {
    for (const Detail& detail : kDetails) {
      if (!fitted.contains(&detail))
        unused->push_back(fmt::format("{} {}", verb_of(detail.method), detail.end));
    }
  }
  json::object out;
  out["openapi"] = "3.0.3";
  out["info"] = json::object{
      {"title", "Geminga"},
      {"version", "v2"},
      {"description", "The admin API of Apache Pulsar 4.x, as this broker serves it."}};
  out["paths"] = std::move(paths);
  const auto schemas = parse_json(kSchemas);
  out["components"] = json::object{{"schemas", schemas ? *schemas : json::value(json::object())}};
  return out;
}

void add_openapi_route(HttpRouter& router) {
  auto page = std::make_shared<std::atomic<std::shared_ptr<const std::string>>>();
  router.get("/openapi.json", "This description",
             [&router, page](HttpRequest&) -> Task<Result<HttpResponse>> {
               auto text = page->load();
               if (text == nullptr) {
                 // Two shards may make it at the same time: it is the same.
                 text = std::make_shared<const std::string>(to_json(describe_api(router)));
                 page->store(text);
               }
               co_return json_text(*text);
             });
}

}  // namespace geminga
