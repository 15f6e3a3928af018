// `topicPolicies`: policies of one topic.
#include "cli/admin/command.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"

namespace geminga::admin_cli {

namespace {

#define GET(path) "GET /admin/v2/{topic}/" path
#define SET(path) "POST /admin/v2/{topic}/" path "?isGlobal={global?}"
#define REMOVE(path) "DELETE /admin/v2/{topic}/" path "?isGlobal={global?}"

constexpr std::string_view kTopic = "topic -g,--global";
constexpr std::string_view kApplied = "topic -ap,--applied -g,--global";
constexpr std::string_view kRate =
    "topic -md,--msg-dispatch-rate:int=-1 -bd,--byte-dispatch-rate:int=-1 "
    "-dt,--dispatch-rate-period:int=1 -rp,--relative-to-publish-rate -g,--global";
constexpr std::string_view kSubscriptionRate =
    "topic -md,--msg-dispatch-rate:int=-1 -bd,--byte-dispatch-rate:int=-1 "
    "-dt,--dispatch-rate-period:int=1 -rp,--relative-to-publish-rate -g,--global "
    "-s,--subscription:text";
constexpr std::string_view kQuotaType = "topic -t,--type:lower=destination_storage -g,--global";

// The rate of one subscription has another path.
Status subscription_rate(Call& call, std::string_view method, const std::string& query,
                         const std::string& body);

constexpr Command kCommands[] = {
    {"delete",
     kTopic,
     "DELETE /admin/v2/{topic}/policies",
     {},
     Print::Nothing,
     "Removes all policies of a topic"},
    {"get-message-ttl",
     kApplied,
     GET("messageTTL?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-message-ttl", "topic -t,--ttl:sec! -g,--global",
     "POST /admin/v2/{topic}/messageTTL?messageTTL={ttl}&isGlobal={global?}"},
    {"remove-message-ttl", kTopic,
     "DELETE /admin/v2/{topic}/messageTTL?messageTTL=0&isGlobal={global?}"},
    {"get-max-unacked-messages-per-consumer|get-max-unacked-messages-on-consumer",
     kApplied,
     GET("maxUnackedMessagesOnConsumer?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-max-unacked-messages-per-consumer|set-max-unacked-messages-on-consumer",
     "topic -m,--maxNum:int! -g,--global", SET("maxUnackedMessagesOnConsumer"), R"("$maxNum")"},
    {"remove-max-unacked-messages-per-consumer|remove-max-unacked-messages-on-consumer", kTopic,
     REMOVE("maxUnackedMessagesOnConsumer")},
    {"get-max-unacked-messages-per-subscription|get-max-unacked-messages-on-subscription",
     kApplied,
     GET("maxUnackedMessagesOnSubscription?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-max-unacked-messages-per-subscription|set-max-unacked-messages-on-subscription",
     "topic -m,--maxNum:int! -g,--global", SET("maxUnackedMessagesOnSubscription"), R"("$maxNum")"},
    {"remove-max-unacked-messages-per-subscription|remove-max-unacked-messages-on-subscription",
     kTopic, REMOVE("maxUnackedMessagesOnSubscription")},
    {"get-max-consumers-per-subscription",
     kTopic,
     GET("maxConsumersPerSubscription?isGlobal={global?}"),
     {},
     Print::Json},
    {"set-max-consumers-per-subscription",
     "topic -c,--max-consumers-per-subscription:int! -g,--global",
     SET("maxConsumersPerSubscription"), R"("$max-consumers-per-subscription")"},
    {"remove-max-consumers-per-subscription", kTopic, REMOVE("maxConsumersPerSubscription")},
    {"set-subscription-types-enabled", "topic -t,--types:list! -g,--global",
     SET("subscriptionTypesEnabled"), R"("$types")"},
    {"get-subscription-types-enabled",
     kTopic,
     GET("subscriptionTypesEnabled?isGlobal={global?}"),
     {},
     Print::Json},
    {"remove-subscription-types-enabled", kTopic, REMOVE("subscriptionTypesEnabled")},
    {"get-retention",
     kApplied,
     GET("retention?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-retention", "topic -t,--time:min! -s,--size:mb! -g,--global", SET("retention"),
     kRetentionBody},
    {"remove-retention", kTopic, REMOVE("retention")},
    {"get-backlog-quota|get-backlog-quotas",
     kApplied,
     {},
     {},
     Print::Nothing,
     {},
     show_topic_backlog_quotas},
    {"set-backlog-quota",
     "topic -l,--limit:size=-1 -lt,--limitTime:sec=-1 -p,--policy:text! "
     "-t,--type:lower=destination_storage -g,--global",
     "POST /admin/v2/{topic}/backlogQuota?backlogQuotaType={type}&isGlobal={global?}", kQuotaBody},
    {"remove-backlog-quota", kQuotaType,
     "DELETE /admin/v2/{topic}/backlogQuota?backlogQuotaType={type}&isGlobal={global?}"},
    {"get-max-producers|get-maxProducers",
     kApplied,
     GET("maxProducers?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-max-producers|set-maxProducers", "topic -p,--max-producers:int! -g,--global",
     SET("maxProducers"), R"("$max-producers")"},
    {"remove-max-producers|remove-maxProducers", kTopic, REMOVE("maxProducers")},
    {"get-max-message-size", kTopic, GET("maxMessageSize?isGlobal={global?}"), {}, Print::Json},
    {"set-max-message-size", "topic -m,--max-message-size:int! -g,--global", SET("maxMessageSize"),
     R"("$max-message-size")"},
    {"remove-max-message-size", kTopic, REMOVE("maxMessageSize")},
    {"set-deduplication", "topic -e,--enable@on=true -d,--disable@on=false -g,--global",
     SET("deduplicationEnabled"), R"("$on")"},
    {"get-deduplication|get-deduplication-enabled",
     kTopic,
     GET("deduplicationEnabled?isGlobal={global?}&applied=false"),
     {},
     Print::Json},
    {"remove-deduplication", kTopic, REMOVE("deduplicationEnabled")},
    {"get-deduplication-snapshot-interval",
     kTopic,
     GET("deduplicationSnapshotInterval?isGlobal={global?}"),
     {},
     Print::Json},
    {"set-deduplication-snapshot-interval", "topic -i,--interval:int! -g,--global",
     SET("deduplicationSnapshotInterval"), R"("$interval")"},
    {"remove-deduplication-snapshot-interval", kTopic, REMOVE("deduplicationSnapshotInterval")},
    {"get-persistence",
     kTopic,
     GET("persistence?isGlobal={global?}&applied=false"),
     {},
     Print::Json},
    {"set-persistence",
     "topic -e,--bookkeeper-ensemble:int=2 -w,--bookkeeper-write-quorum:int=2 "
     "-a,--bookkeeper-ack-quorum:int=2 -r,--ml-mark-delete-max-rate:num=0 "
     "-c,--ml-storage-class:text -g,--global",
     SET("persistence"), kPersistenceBody},
    {"remove-persistence", kTopic, REMOVE("persistence")},
    {"get-subscription-dispatch-rate",
     "topic -ap,--applied -g,--global -s,--subscription:text",
     {},
     {},
     Print::Json,
     {},
     [](Call& call) { return subscription_rate(call, "GET", "&applied={applied}", ""); }},
    {"set-subscription-dispatch-rate",
     kSubscriptionRate,
     {},
     {},
     Print::Nothing,
     {},
     [](Call& call) {
       const Command row{{}, {}, "POST /", kRateBody};
       return subscription_rate(call, "POST", "", make_request(row, call.values).body);
     }},
    {"remove-subscription-dispatch-rate",
     "topic -g,--global -s,--subscription:text",
     {},
     {},
     Print::Nothing,
     {},
     [](Call& call) { return subscription_rate(call, "DELETE", "", ""); }},
    {"get-replicator-dispatch-rate",
     kApplied,
     GET("replicatorDispatchRate?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-replicator-dispatch-rate", kRate, SET("replicatorDispatchRate"), kRateBody},
    {"remove-replicator-dispatch-rate", kTopic, REMOVE("replicatorDispatchRate")},
    {"get-publish-rate", kTopic, GET("publishRate?isGlobal={global?}"), {}, Print::Json},
    {"set-publish-rate",
     "topic -m,--msg-publish-rate:int=-1 -b,--byte-publish-rate:int=-1 -g,--global",
     SET("publishRate"), kPublishRateBody},
    {"remove-publish-rate", kTopic, REMOVE("publishRate")},
    {"get-compaction-threshold",
     kApplied,
     GET("compactionThreshold?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-compaction-threshold", "topic -t,--threshold:size! -g,--global",
     SET("compactionThreshold"), R"("$threshold")"},
    {"remove-compaction-threshold", kTopic, REMOVE("compactionThreshold")},
    {"get-subscribe-rate",
     kApplied,
     GET("subscribeRate?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-subscribe-rate",
     "topic -sr,--subscribe-rate:int=-1 -st,--subscribe-rate-period:int=30 -g,--global",
     SET("subscribeRate"), kSubscribeRateBody},
    {"remove-subscribe-rate", kTopic, REMOVE("subscribeRate")},
    {"get-max-consumers",
     kApplied,
     GET("maxConsumers?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-max-consumers", "topic -c,--max-consumers:int! -g,--global", SET("maxConsumers"),
     R"("$max-consumers")"},
    {"remove-max-consumers", kTopic, REMOVE("maxConsumers")},
    {"get-delayed-delivery",
     kApplied,
     GET("delayedDelivery?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-delayed-delivery",
     "topic -e,--enable@on=true -d,--disable@on=false -t,--time:ms=1s -md,--maxDelay:ms=0 "
     "-g,--global",
     SET("delayedDelivery"), kDelayedBody},
    {"remove-delayed-delivery", kTopic, REMOVE("delayedDelivery")},
    {"get-dispatch-rate",
     kApplied,
     GET("dispatchRate?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-dispatch-rate", kRate, SET("dispatchRate"), kRateBody},
    {"remove-dispatch-rate", kTopic, REMOVE("dispatchRate")},
    {"get-offload-policies",
     kApplied,
     GET("offloadPolicies?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-offload-policies",
     "topic -d,--driver:text! -r,--region:text -b,--bucket:text -e,--endpoint:text "
     "-i,--aws-id:text -s,--aws-secret:text --ro,--s3-role:text "
     "-rsn,--s3-role-session-name:text=pulsar-s3-offload -m,--maxBlockSizeInBytes:size=64M "
     "-rb,--readBufferSizeInBytes:size=1M -t,--offloadThresholdInBytes:size "
     "-ts,--offloadThresholdInSeconds:int -dl,--offloadDeletionLagInMillis:int "
     "-orp,--offloadedReadPriority:enum -g,--global",
     SET("offloadPolicies"), kOffloadBody},
    {"remove-offload-policies", kTopic, REMOVE("offloadPolicies")},
    {"get-inactive-topic-policies",
     kApplied,
     GET("inactiveTopicPolicies?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-inactive-topic-policies",
     "topic -e,--enable-delete-while-inactive@on=true "
     "-d,--disable-delete-while-inactive@on=false -t,--max-inactive-duration:sec! "
     "-m,--delete-mode:text! -g,--global",
     SET("inactiveTopicPolicies"), kInactiveBody},
    {"remove-inactive-topic-policies", kTopic, REMOVE("inactiveTopicPolicies")},
    {"get-max-subscriptions-per-topic|get-max-subscriptions",
     kTopic,
     GET("maxSubscriptionsPerTopic?isGlobal={global?}"),
     {},
     Print::Json},
    {"set-max-subscriptions-per-topic|set-max-subscriptions",
     "topic -s,-m,--max-subscriptions-per-topic:int! -g,--global", SET("maxSubscriptionsPerTopic"),
     R"("$max-subscriptions-per-topic")"},
    {"remove-max-subscriptions-per-topic|remove-max-subscriptions", kTopic,
     REMOVE("maxSubscriptionsPerTopic")},
    {"get-schema-compatibility-strategy",
     "topic -ap,--applied",
     GET("schemaCompatibilityStrategy?applied={applied}"),
     {},
     Print::Plain,
     {}},
    {"set-schema-compatibility-strategy", "topic <strategy>? -s,--strategy:upper",
     "PUT /admin/v2/{topic}/schemaCompatibilityStrategy", R"("$strategy")"},
    {"remove-schema-compatibility-strategy", "topic",
     "DELETE /admin/v2/{topic}/schemaCompatibilityStrategy"},
    {"get-entry-filters-per-topic",
     kApplied,
     GET("entryFilters?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-entry-filters-per-topic", "topic -efn,--entry-filters-name:text! -g,--global",
     SET("entryFilters"), R"({"entryFilterNames":"$entry-filters-name"})"},
    {"remove-entry-filters-per-topic", kTopic, REMOVE("entryFilters")},
    {"set-auto-subscription-creation", "topic -e,--enable -g,--global",
     SET("autoSubscriptionCreation"), R"({"allowAutoSubscriptionCreation":"$enable"})"},
    {"get-auto-subscription-creation",
     "topic -a,--applied -g,--global",
     GET("autoSubscriptionCreation?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"remove-auto-subscription-creation", kTopic, REMOVE("autoSubscriptionCreation")},
    {"set-dispatcher-pause-on-ack-state-persistent", kTopic,
     SET("dispatcherPauseOnAckStatePersistent")},
    {"get-dispatcher-pause-on-ack-state-persistent",
     "topic -a,--applied -g,--global",
     GET("dispatcherPauseOnAckStatePersistent?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"remove-dispatcher-pause-on-ack-state-persistent", kTopic,
     REMOVE("dispatcherPauseOnAckStatePersistent")},
    {"get-replication-clusters",
     kApplied,
     GET("replication?isGlobal={global?}&applied={applied}"),
     {},
     Print::Json},
    {"set-replication-clusters", "topic -c,--clusters:list! -g,--global", SET("replication"),
     R"("$clusters")"},
    {"remove-replication-clusters", kTopic, REMOVE("replication")},
};

#undef GET
#undef SET
#undef REMOVE

Status subscription_rate(Call& call, std::string_view method, const std::string& query,
                         const std::string& body) {
  const std::string path = call.values.contains("subscription")
                               ? "/admin/v2/{topic}/{subscription}/dispatchRate"
                               : "/admin/v2/{topic}/subscriptionDispatchRate";
  const std::string target = make_target(path + "?isGlobal={global?}" + query, call.values);
  GM_ASSIGN_OR_RETURN(const Answer answer, call.client.must(method, target, body));
  if (method == "GET") print_text(render(Print::Json, answer.body, !call.as_json));
  return Status::ok();
}

}  // namespace

Group topic_policies_group() { return {"topicPolicies", "Policies of a topic", kCommands}; }

}  // namespace geminga::admin_cli
