// `namespaces`: their life, bundles and policies.
#include "cli/admin/command.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

#define NS(path) "/admin/v2/namespaces/{namespace}" path
#define GET(path) "GET " NS("/" path)
#define SET(path) "POST " NS("/" path)
#define REMOVE(path) "DELETE " NS("/" path)

constexpr std::string_view kNs = "namespace";
constexpr std::string_view kRate =
    "namespace -md,--msg-dispatch-rate:int=-1 -bd,--byte-dispatch-rate:int=-1 "
    "-dt,--dispatch-rate-period:int=1 -rp,--relative-to-publish-rate";
constexpr std::string_view kOnOff = "namespace -e,--enable@on=true -d,--disable@on=false";

Status create(Call& call) {
  json::object policies;
  if (const auto* bundles = call.values.if_contains("bundles")) {
    if (bundles->to_number<std::int64_t>() < 0) {
      return Status::InvalidArgument(
          "Invalid number of bundles. Number of bundles has to be in the range of (0, 2^32].");
    }
    policies["bundles"] = json::object{{"numBundles", *bundles}};
  }
  if (const auto* clusters = call.values.if_contains("clusters"))
    policies["replication_clusters"] = *clusters;
  return call.client
      .must("PUT", make_target("/admin/v2/namespaces/{namespace}", call.values), to_json(policies))
      .status();
}

// All bundles, or one, of all subscriptions, or one.
Status clear(Call& call, std::string_view what) {
  std::string path = "/admin/v2/namespaces/{namespace}";
  if (call.values.contains("bundle")) path += "/{bundle}";
  path += "/" + std::string(what);
  if (call.values.contains("sub")) path += "/{sub}";
  return call.client.must("POST", make_target(path, call.values)).status();
}

Status unload(Call& call) {
  std::string path = "/admin/v2/namespaces/{namespace}";
  if (call.values.contains("bundle")) path += "/{bundle}";
  path += "/unload?destinationBroker={destinationBroker}";
  return call.client.must("PUT", make_target(path, call.values)).status();
}

Status split(Call& call) {
  json::object values = call.values;
  if (!values.contains("bundle")) {
    if (!values.contains("bundle-type"))
      return Status::InvalidArgument("missing: --bundle or --bundle-type");
    values["bundle"] = values.at("bundle-type");
  }
  std::string body;
  if (const auto* boundaries = values.if_contains("split-boundaries")) {
    json::array numbers;
    for (const json::value& each : boundaries->as_array()) {
      auto number = parse_json(std::string(each.as_string()));
      if (!number || !number->is_int64())
        return Status::InvalidArgument("--split-boundaries: '" + std::string(each.as_string()) +
                                       "' is not a whole number");
      numbers.push_back(std::move(*number));
    }
    body = to_json(numbers);
  }
  return call.client
      .must("PUT",
            make_target("/admin/v2/namespaces/{namespace}/{bundle}/split?unload={unload}"
                        "&splitAlgorithmName={split-algorithm-name}",
                        values),
            body)
      .status();
}

Status show_offload_threshold(Call& call) {
  for (const auto& [path, name] :
       {std::pair{"/admin/v2/namespaces/{namespace}/offloadThreshold", "offloadThresholdInBytes"},
        {"/admin/v2/namespaces/{namespace}/offloadThresholdInSeconds",
         "offloadThresholdInSeconds"}}) {
    GM_ASSIGN_OR_RETURN(const Answer answer,
                        call.client.must("GET", make_target(path, call.values)));
    print_text(std::string(name) + ": " + answer.body + "\n");
  }
  return Status::ok();
}

Status set_offload_threshold(Call& call) {
  for (const auto& [path, name] :
       {std::pair{"/admin/v2/namespaces/{namespace}/offloadThreshold", "size"},
        {"/admin/v2/namespaces/{namespace}/offloadThresholdInSeconds", "time"}}) {
    const json::value* value = call.values.if_contains(name);
    if (value == nullptr) continue;
    GM_RETURN_IF_ERROR(
        call.client.must("PUT", make_target(path, call.values), to_json(*value)).status());
  }
  return Status::ok();
}

Status show_offload_lag(Call& call) {
  GM_ASSIGN_OR_RETURN(
      const Answer answer,
      call.client.must("GET", make_target("/admin/v2/namespaces/{namespace}/offloadDeletionLagMs",
                                          call.values)));
  if (answer.body.empty() || answer.body == "null") {
    print_text("Unset for namespace. Defaulting to broker setting.\n");
    return Status::ok();
  }
  GM_ASSIGN_OR_RETURN(const json::value lag, parse_json(answer.body));
  print_text(std::to_string(lag.is_int64() ? lag.get_int64() / 60000 : 0) + " minute(s)\n");
  return Status::ok();
}

constexpr Command kCommands[] = {
    {"list",
     "<tenant>",
     "GET /admin/v2/namespaces/{tenant}",
     {},
     Print::Lines,
     "Lists the namespaces of a tenant"},
    {"list-cluster",
     "<tenant-cluster>",
     "GET /admin/namespaces/{tenant-cluster}",
     {},
     Print::Lines,
     "Lists the namespaces of the old form of a tenant and cluster"},
    {"topics",
     "namespace -m,--mode:upper -ist,--include-system-topic",
     GET("topics?mode={mode}&includeSystemTopic={include-system-topic}"),
     {},
     Print::Lines,
     "Lists the topics of a namespace"},
    {"destinations", kNs, GET("topics"), {}, Print::Lines, "Lists the topics of a namespace"},
    {"bundles", kNs, GET("bundles"), {}, Print::Json, "Shows the bundles of a namespace"},
    {"policies", kNs, "GET " NS(""), {}, Print::Json, "Shows all policies of a namespace"},
    {"create",
     "namespace -b,--bundles:int -c,--clusters:list",
     {},
     {},
     Print::Nothing,
     "Creates a namespace",
     create},
    {"delete",
     "namespace -f,--force",
     "DELETE " NS("?force={force}"),
     {},
     Print::Nothing,
     "Deletes a namespace; with --force its topics, too"},
    {"permissions", kNs, GET("permissions"), {}, Print::Map, "Shows who may do what"},
    {"grant-permission", "namespace -r,--role:text! -a,--actions:list!", SET("permissions/{role}"),
     R"("$actions")", Print::Nothing, "Lets a role do something"},
    {"revoke-permission",
     "namespace -r,--role:text!",
     REMOVE("permissions/{role}"),
     {},
     Print::Nothing,
     "Takes a role's permissions"},
    {"subscription-permission",
     kNs,
     GET("permissions/subscription"),
     {},
     Print::Map,
     "Shows who may use which subscription"},
    {"grant-subscription-permission", "namespace -s,--subscription:text! -rs,--roles:list!",
     SET("permissions/subscription/{subscription}"), R"("$roles")", Print::Nothing,
     "Lets roles use a subscription"},
    {"revoke-subscription-permission",
     "namespace -s,--subscription:text! -r,--role:text!",
     REMOVE("permissions/{subscription}/{role}"),
     {},
     Print::Nothing,
     "Takes a role's right to a subscription"},
    {"set-clusters", "namespace -c,--clusters:list!", SET("replication"), R"("$clusters")"},
    {"get-clusters", kNs, GET("replication"), {}, Print::Lines},
    {"set-allowed-clusters", "namespace -c,--clusters:list!", SET("allowedClusters"),
     R"("$clusters")"},
    {"get-allowed-clusters", kNs, GET("allowedClusters"), {}, Print::Lines},
    {"set-subscription-types-enabled", "namespace -t,--types:list!",
     SET("subscriptionTypesEnabled"), R"("$types")"},
    {"get-subscription-types-enabled", kNs, GET("subscriptionTypesEnabled"), {}, Print::Json},
    {"remove-subscription-types-enabled", kNs, REMOVE("subscriptionTypesEnabled")},
    {"get-backlog-quotas", kNs, {}, {}, Print::Nothing, {}, show_namespace_backlog_quotas},
    {"set-backlog-quota",
     "namespace -l,--limit:size=-1 -lt,--limitTime:sec=-1 -p,--policy:text! "
     "-t,--type:lower=destination_storage",
     SET("backlogQuota?backlogQuotaType={type}"), kQuotaBody},
    {"remove-backlog-quota", "namespace -t,--type:lower=destination_storage",
     REMOVE("backlogQuota?backlogQuotaType={type}")},
    {"get-persistence", kNs, GET("persistence"), {}, Print::Json},
    {"set-persistence",
     "namespace -e,--bookkeeper-ensemble:int=2 -w,--bookkeeper-write-quorum:int=2 "
     "-a,--bookkeeper-ack-quorum:int=2 -r,--ml-mark-delete-max-rate:num=0 "
     "-c,--ml-storage-class:text",
     SET("persistence"), kPersistenceBody},
    {"remove-persistence", kNs, REMOVE("persistence")},
    {"get-message-ttl", kNs, GET("messageTTL"), {}, Print::Json},
    {"set-message-ttl", "namespace -ttl,--messageTTL:sec!", SET("messageTTL"), R"("$messageTTL")"},
    {"remove-message-ttl", kNs, REMOVE("messageTTL")},
    {"get-max-subscriptions-per-topic", kNs, GET("maxSubscriptionsPerTopic"), {}, Print::Json},
    {"set-max-subscriptions-per-topic", "namespace -m,--max-subscriptions-per-topic:int!",
     SET("maxSubscriptionsPerTopic"), R"("$max-subscriptions-per-topic")"},
    {"remove-max-subscriptions-per-topic", kNs, REMOVE("maxSubscriptionsPerTopic")},
    {"get-subscription-expiration-time", kNs, GET("subscriptionExpirationTime"), {}, Print::Json},
    {"set-subscription-expiration-time", "namespace -t,--time:int!",
     SET("subscriptionExpirationTime"), R"("$time")"},
    {"remove-subscription-expiration-time", kNs, REMOVE("subscriptionExpirationTime")},
    {"get-anti-affinity-group", kNs, GET("antiAffinity"), {}, Print::Text},
    {"set-anti-affinity-group", "namespace -g,--group:text!", SET("antiAffinity"), R"("$group")"},
    {"get-anti-affinity-namespaces",
     "-g,--group:text! -c,--cluster:text! -p,--tenant:text",
     "GET /admin/namespaces/{cluster}/antiAffinity/{group}?property={tenant}",
     {},
     Print::Lines,
     "Lists the namespaces of an anti-affinity group"},
    {"delete-anti-affinity-group", kNs, REMOVE("antiAffinity")},
    {"set-deduplication", kOnOff, SET("deduplication"), R"("$on")"},
    {"get-deduplication", kNs, GET("deduplication"), {}, Print::Json},
    {"remove-deduplication", kNs, REMOVE("deduplication")},
    {"set-deduplication-snapshot-interval", "namespace -i,--interval:int!",
     SET("deduplicationSnapshotInterval"), R"("$interval")"},
    {"get-deduplication-snapshot-interval",
     kNs,
     GET("deduplicationSnapshotInterval"),
     {},
     Print::Json},
    {"remove-deduplication-snapshot-interval", kNs, SET("deduplicationSnapshotInterval")},
    {"set-auto-topic-creation",
     "namespace -e,--enable@on=true -d,--disable@on=false -t,--type:lower=non-partitioned "
     "-n,--num-partitions:int",
     SET("autoTopicCreation"),
     R"({"allowAutoTopicCreation":"$on","topicType":"$type","defaultNumPartitions":"$num-partitions"})"},
    {"get-auto-topic-creation", kNs, GET("autoTopicCreation"), {}, Print::Json},
    {"remove-auto-topic-creation", kNs, REMOVE("autoTopicCreation")},
    {"set-auto-subscription-creation", "namespace -e,--enable", SET("autoSubscriptionCreation"),
     R"({"allowAutoSubscriptionCreation":"$enable"})"},
    {"get-auto-subscription-creation", kNs, GET("autoSubscriptionCreation"), {}, Print::Json},
    {"remove-auto-subscription-creation", kNs, REMOVE("autoSubscriptionCreation")},
    {"get-retention", kNs, GET("retention"), {}, Print::Json},
    {"set-retention", "namespace -t,--time:min! -s,--size:mb!", SET("retention"), kRetentionBody},
    {"remove-retention", kNs, REMOVE("retention")},
    {"set-bookie-affinity-group", "namespace -pg,--primary-group:text! -sg,--secondary-group:text",
     SET("persistence/bookieAffinity"),
     R"({"bookkeeperAffinityGroupPrimary":"$primary-group","bookkeeperAffinityGroupSecondary":"$secondary-group"})"},
    {"get-bookie-affinity-group", kNs, GET("persistence/bookieAffinity"), {}, Print::Json},
    {"delete-bookie-affinity-group", kNs, REMOVE("persistence/bookieAffinity")},
    {"unload",
     "namespace -b,--bundle:text -d,--destinationBroker:text",
     {},
     {},
     Print::Nothing,
     "Unloads a namespace, or one of its bundles",
     unload},
    {"split-bundle",
     "namespace -b,--bundle:text -bt,--bundle-type:upper -u,--unload "
     "-san,--split-algorithm-name:text -sb,--split-boundaries:list",
     {},
     {},
     Print::Nothing,
     "Splits a bundle",
     split},
    {"get-topic-positions",
     "namespace -b,--bundle:text! -tl,--topic-list:list",
     GET("{bundle}/topicHashPositions?topics={topic-list}"),
     {},
     Print::Json,
     "Shows where topics lie in a bundle's hash range"},
    {"set-dispatch-rate", kRate, SET("dispatchRate"), kRateBody},
    {"remove-dispatch-rate", kNs, REMOVE("dispatchRate")},
    {"get-dispatch-rate", kNs, GET("dispatchRate"), {}, Print::Json},
    {"set-subscribe-rate",
     "namespace -sr,--subscribe-rate:int=-1 -st,--subscribe-rate-period:int=30",
     SET("subscribeRate"), kSubscribeRateBody},
    {"get-subscribe-rate", kNs, GET("subscribeRate"), {}, Print::Json},
    {"remove-subscribe-rate", kNs, REMOVE("subscribeRate")},
    {"set-subscription-dispatch-rate", kRate, SET("subscriptionDispatchRate"), kRateBody},
    {"get-subscription-dispatch-rate", kNs, GET("subscriptionDispatchRate"), {}, Print::Json},
    {"remove-subscription-dispatch-rate", kNs, REMOVE("subscriptionDispatchRate")},
    {"set-publish-rate", "namespace -m,--msg-publish-rate:int=-1 -b,--byte-publish-rate:int=-1",
     SET("publishRate"), kPublishRateBody},
    {"get-publish-rate", kNs, GET("publishRate"), {}, Print::Json},
    {"remove-publish-rate", kNs, REMOVE("publishRate")},
    {"set-replicator-dispatch-rate",
     "namespace -md,--msg-dispatch-rate:int=-1 -bd,--byte-dispatch-rate:int=-1 "
     "-dt,--dispatch-rate-period:int=1",
     SET("replicatorDispatchRate"),
     R"({"dispatchThrottlingRateInMsg":"$msg-dispatch-rate","dispatchThrottlingRateInByte":"$byte-dispatch-rate","relativeToPublishRate":false,"ratePeriodInSecond":"$dispatch-rate-period"})"},
    {"get-replicator-dispatch-rate", kNs, GET("replicatorDispatchRate"), {}, Print::Json},
    {"remove-replicator-dispatch-rate", kNs, REMOVE("replicatorDispatchRate")},
    {"clear-backlog",
     "namespace -s,--sub:text -b,--bundle:text -force,--force",
     {},
     {},
     Print::Nothing,
     "Acknowledges everything in a namespace",
     [](Call& call) {
       if (!call.values.at("force").as_bool()) {
         GM_RETURN_IF_ERROR(
             confirm("Are you sure you want to clear the backlog?", "--force asks no question"));
       }
       return clear(call, "clearBacklog");
     }},
    {"unsubscribe",
     "namespace -s,--sub:text! -b,--bundle:text",
     {},
     {},
     Print::Nothing,
     "Deletes a subscription from all topics of a namespace",
     [](Call& call) { return clear(call, "unsubscribe"); }},
    {"set-encryption-required", kOnOff, SET("encryptionRequired"), R"("$on")"},
    {"get-encryption-required", kNs, GET("encryptionRequired"), {}, Print::Json},
    {"set-subscription-auth-mode", "namespace -m,--subscription-auth-mode:text!",
     SET("subscriptionAuthMode"), R"("$subscription-auth-mode")"},
    {"get-subscription-auth-mode", kNs, GET("subscriptionAuthMode"), {}, Print::Json},
    {"set-delayed-delivery",
     "namespace -e,--enable@on=true -d,--disable@on=false -t,--time:ms=1s -md,--maxDelay:ms=0",
     SET("delayedDelivery"), kDelayedBody},
    {"get-delayed-delivery", kNs, GET("delayedDelivery"), {}, Print::Json},
    {"remove-delayed-delivery", kNs, REMOVE("delayedDelivery")},
    {"get-inactive-topic-policies", kNs, GET("inactiveTopicPolicies"), {}, Print::Json},
    {"set-inactive-topic-policies",
     "namespace -e,--enable-delete-while-inactive@on=true "
     "-d,--disable-delete-while-inactive@on=false -t,--max-inactive-duration:sec! "
     "-m,--delete-mode:text!",
     SET("inactiveTopicPolicies"), kInactiveBody},
    {"remove-inactive-topic-policies", kNs, REMOVE("inactiveTopicPolicies")},
    {"get-max-producers-per-topic", kNs, GET("maxProducersPerTopic"), {}, Print::Json},
    {"set-max-producers-per-topic", "namespace -p,--max-producers-per-topic:int!",
     SET("maxProducersPerTopic"), R"("$max-producers-per-topic")"},
    {"remove-max-producers-per-topic", kNs, REMOVE("maxProducersPerTopic")},
    {"get-max-consumers-per-topic", kNs, GET("maxConsumersPerTopic"), {}, Print::Json},
    {"set-max-consumers-per-topic", "namespace -c,--max-consumers-per-topic:int!",
     SET("maxConsumersPerTopic"), R"("$max-consumers-per-topic")"},
    {"remove-max-consumers-per-topic", kNs, REMOVE("maxConsumersPerTopic")},
    {"get-max-consumers-per-subscription",
     kNs,
     GET("maxConsumersPerSubscription"),
     {},
     Print::Json},
    {"set-max-consumers-per-subscription", "namespace -c,--max-consumers-per-subscription:int!",
     SET("maxConsumersPerSubscription"), R"("$max-consumers-per-subscription")"},
    {"remove-max-consumers-per-subscription", kNs, REMOVE("maxConsumersPerSubscription")},
    {"get-max-unacked-messages-per-subscription",
     kNs,
     GET("maxUnackedMessagesPerSubscription"),
     {},
     Print::Json},
    {"set-max-unacked-messages-per-subscription",
     "namespace -c,--max-unacked-messages-per-subscription:int!",
     SET("maxUnackedMessagesPerSubscription"), R"("$max-unacked-messages-per-subscription")"},
    {"remove-max-unacked-messages-per-subscription", kNs,
     REMOVE("maxUnackedMessagesPerSubscription")},
    {"get-max-unacked-messages-per-consumer",
     kNs,
     GET("maxUnackedMessagesPerConsumer"),
     {},
     Print::Json},
    {"set-max-unacked-messages-per-consumer", "namespace -c,--max-unacked-messages-per-topic:int!",
     SET("maxUnackedMessagesPerConsumer"), R"("$max-unacked-messages-per-topic")"},
    {"remove-max-unacked-messages-per-consumer", kNs, REMOVE("maxUnackedMessagesPerConsumer")},
    {"get-compaction-threshold", kNs, GET("compactionThreshold"), {}, Print::Json},
    {"set-compaction-threshold", "namespace -t,--threshold:size!",
     "PUT " NS("/compactionThreshold"), R"("$threshold")"},
    {"remove-compaction-threshold", kNs, REMOVE("compactionThreshold")},
    {"get-offload-threshold", kNs, {}, {}, Print::Nothing, {}, show_offload_threshold},
    {"set-offload-threshold",
     "namespace -s,--size:size! -t,--time:sec=-1",
     {},
     {},
     Print::Nothing,
     {},
     set_offload_threshold},
    {"get-offload-deletion-lag", kNs, {}, {}, Print::Nothing, {}, show_offload_lag},
    {"set-offload-deletion-lag", "namespace -l,--lag:ms!", "PUT " NS("/offloadDeletionLagMs"),
     R"("$lag")"},
    {"clear-offload-deletion-lag",
     kNs,
     REMOVE("offloadDeletionLagMs"),
     {},
     Print::Nothing,
     "Removes the offload deletion lag of a namespace"},
    {"get-schema-autoupdate-strategy",
     kNs,
     GET("schemaAutoUpdateCompatibilityStrategy"),
     {},
     Print::Plain},
    {"set-schema-autoupdate-strategy",
     "namespace -c,--compatibility:text -d,--disabled",
     {},
     {},
     Print::Nothing,
     {},
     [](Call& call) {
       const json::value* strategy = call.values.if_contains("compatibility");
       const json::value off("AutoUpdateDisabled");
       const bool disabled = call.values.at("disabled").as_bool();
       if (strategy == nullptr && !disabled)
         return Status::InvalidArgument("missing: --compatibility or --disabled");
       return call.client
           .must("PUT",
                 make_target("/admin/v2/namespaces/{namespace}/"
                             "schemaAutoUpdateCompatibilityStrategy",
                             call.values),
                 to_json(disabled ? off : *strategy))
           .status();
     }},
    {"get-schema-compatibility-strategy",
     kNs,
     GET("schemaCompatibilityStrategy"),
     {},
     Print::Plain},
    {"set-schema-compatibility-strategy", "namespace -c,--compatibility:upper!",
     "PUT " NS("/schemaCompatibilityStrategy"), R"("$compatibility")"},
    {"get-is-allow-auto-update-schema", kNs, GET("isAllowAutoUpdateSchema"), {}, Print::Json},
    {"set-is-allow-auto-update-schema", kOnOff, SET("isAllowAutoUpdateSchema"), R"("$on")"},
    {"get-schema-validation-enforce",
     "namespace -ap,--applied",
     GET("schemaValidationEnforced?applied={applied}"),
     {},
     Print::Json},
    {"set-schema-validation-enforce", kOnOff, SET("schemaValidationEnforced"), R"("$on")"},
    {"set-offload-policies",
     "namespace -d,--driver:text! -r,--region:text -b,--bucket:text -e,--endpoint:text "
     "-i,--aws-id:text -s,--aws-secret:text -ro,--s3-role:text "
     "-rsn,--s3-role-session-name:text=pulsar-s3-offload -mbs,--maxBlockSize:size=64M "
     "-rbs,--readBufferSize:size=1M "
     "-oae,--offloadAfterElapsed:ms -oat,--offloadAfterThreshold:size "
     "-oats,--offloadAfterThresholdInSeconds:sec -orp,--offloadedReadPriority:enum",
     {},
     {},
     Print::Nothing,
     {},
     [](Call& call) {
       json::object values = call.values;
       const auto rename = [&](const char* from, const char* to) {
         if (const json::value* value = call.values.if_contains(from)) values[to] = *value;
       };
       rename("maxBlockSize", "maxBlockSizeInBytes");
       rename("readBufferSize", "readBufferSizeInBytes");
       rename("offloadAfterElapsed", "offloadDeletionLagInMillis");
       rename("offloadAfterThreshold", "offloadThresholdInBytes");
       rename("offloadAfterThresholdInSeconds", "offloadThresholdInSeconds");
       const Command row{
           {}, {}, "POST /admin/v2/namespaces/{namespace}/offloadPolicies", kOffloadBody};
       const Request request = make_request(row, values);
       return call.client.must(request.method, request.target, request.body).status();
     }},
    {"remove-offload-policies", kNs, REMOVE("removeOffloadPolicies")},
    {"get-offload-policies", kNs, GET("offloadPolicies"), {}, Print::Json},
    {"set-max-topics-per-namespace", "namespace -t,--max-topics-per-namespace:int!",
     SET("maxTopicsPerNamespace"), R"("$max-topics-per-namespace")"},
    {"get-max-topics-per-namespace", kNs, GET("maxTopicsPerNamespace"), {}, Print::Json},
    {"remove-max-topics-per-namespace", kNs, REMOVE("maxTopicsPerNamespace")},
    {"set-property", "namespace -k,--key:text! -v,--value:text!",
     "PUT " NS("/property/{key}/{value}")},
    {"get-property", "namespace -k,--key:text!", GET("property/{key}"), {}, Print::Plain},
    {"remove-property", "namespace -k,--key:text!", REMOVE("property/{key}"), {}, Print::Text},
    {"set-properties", "namespace -p,--properties:map!", "PUT " NS("/properties"),
     R"("$properties")"},
    {"get-properties", kNs, GET("properties"), {}, Print::Json},
    {"clear-properties",
     kNs,
     REMOVE("properties"),
     {},
     Print::Nothing,
     "Removes all properties of a namespace"},
    {"get-resource-group", kNs, GET("resourcegroup"), {}, Print::Text},
    {"set-resource-group", "namespace -rgn,--resource-group-name:text!",
     SET("resourcegroup/{resource-group-name}")},
    {"remove-resource-group", kNs, REMOVE("resourcegroup")},
    {"get-entry-filters", kNs, GET("entryFilters"), {}, Print::Json},
    {"set-entry-filters", "namespace -efn,--entry-filters-name:text!", SET("entryFilters"),
     R"({"entryFilterNames":"$entry-filters-name"})"},
    {"remove-entry-filters", kNs, REMOVE("entryFilters")},
    {"update-migration-state", "namespace --migrated", SET("migration"), R"("$migrated")",
     Print::Nothing, "Says whether a namespace has moved to another cluster"},
    {"set-dispatcher-pause-on-ack-state-persistent", kNs,
     SET("dispatcherPauseOnAckStatePersistent")},
    {"get-dispatcher-pause-on-ack-state-persistent",
     kNs,
     GET("dispatcherPauseOnAckStatePersistent"),
     {},
     Print::Json},
    {"remove-dispatcher-pause-on-ack-state-persistent", kNs,
     REMOVE("dispatcherPauseOnAckStatePersistent")},
};

#undef NS
#undef GET
#undef SET
#undef REMOVE

}  // namespace

Group namespaces_group() { return {"namespaces", "Namespaces and their policies", kCommands}; }

}  // namespace geminga::admin_cli
