// Statistics of topics: stats, partitioned-stats, internalStats.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/config.h"
#include "base/url_encoding.h"
#include "broker/topic_compaction.h"
#include "schema/schema_registry.h"
#include "server/admin/admin.h"
#include "server/admin/documents.h"
#include "server/admin/ledger_json.h"
#include "server/admin/namespace_document.h"
#include "server/admin/stats_json.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace json = boost::json;

namespace {

StatsQuery query_of(const HttpRequest& request) {
  StatsQuery query;
  query.subscription_backlog_size = request.query_flag("subscriptionBacklogSize", true);
  query.exclude_publishers = request.query_flag("excludePublishers", false);
  query.exclude_consumers = request.query_flag("excludeConsumers", false);
  return query;
}

std::int64_t number_in(const json::value* object, const char* field) {
  const json::value* value =
      object != nullptr && object->is_object() ? object->get_object().if_contains(field) : nullptr;
  return value != nullptr && value->is_int64() ? value->get_int64() : -1;
}

const json::value* member(const json::value* object, const char* field) {
  return object != nullptr && object->is_object() ? object->get_object().if_contains(field)
                                                  : nullptr;
}

// The backlog quotas in force: the topic's, else the namespace's, else the broker's.
Task<Status> read_quotas(Admin& admin, TopicName name, TopicContext& context) {
  context.backlog_quota_size = admin.live()->backlog_quota_default_limit_bytes;
  auto policies = co_await read_document(admin.metadata(), policies_path(name.namespace_name()));
  if (!policies) co_return policies.status();
  auto own = co_await read_document(admin.metadata(), topic_policies_path(name));
  if (!own) co_return own.status();
  const json::value ns = policies->has_value() ? json::value(std::move(**policies)) : json::value();
  const json::value topic = own->has_value() ? json::value(std::move(**own)) : json::value();
  const json::value* of_topic = member(member(&topic, "local"), "backlogQuotaMap");
  const json::value* of_namespace = member(&ns, "backlog_quota_map");
  for (const json::value* quotas : {of_namespace, of_topic}) {
    if (const json::value* size = member(quotas, "destination_storage")) {
      context.backlog_quota_size = number_in(size, "limitSize");
    }
    if (const json::value* age = member(quotas, "message_age")) {
      context.backlog_quota_time = number_in(age, "limitTime");
    }
  }
  co_return Status::ok();
}

Task<Result<TopicContext>> context_of(Admin& admin, TopicName name) {
  TopicContext context;
  context.persistent = name.persistent();
  context.system = name.is_system();
  context.owner = admin.broker_id();
  Status read = co_await read_quotas(admin, name, context);
  if (!read) co_return read;
  co_return context;
}

// Publish time of the first unacknowledged message of each subscription; -1 without backlog.
Task<void> find_earliest(std::shared_ptr<Topic> topic, std::map<std::string, std::int64_t>& out) {
  ManagedLedger* log = topic->managed_ledger();
  if (log == nullptr) co_return;
  for (const std::string& name : topic->subscription_names()) {
    auto subscription = topic->subscription(name);
    if (!subscription || subscription->cursor() == nullptr) continue;
    std::int64_t& time = out[name];
    time = -1;
    if (subscription->cursor()->backlog_entries() <= 0) continue;
    auto entries = co_await log->read(subscription->cursor()->first_unacked(), 1, 1 << 20);
    if (!entries || entries->empty()) continue;
    auto metadata = parse_entry_metadata(entries->front().data.span());
    if (metadata) time = metadata->publish_time;
  }
}

Answer stats(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto context = co_await context_of(admin, *name);
  if (!context) co_return context.status();
  const StatsQuery query = query_of(request);
  const bool earliest = request.query_flag("getEarliestTimeInBacklog", false);
  TopicContext& shown = *context;
  auto work = [&shown, query, earliest](std::shared_ptr<Topic> topic) -> Answer {
    if (earliest) co_await find_earliest(topic, shown.earliest_in_backlog);
    co_return json_answer(topic_stats_json(topic->stats(), shown, query));
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

// {"partitions": n, "deleted": false, "properties"?}
Task<Result<json::object>> partitions_json(Admin& admin, TopicName name, std::int32_t count) {
  const std::string path = "/admin/partitioned-topics/" + std::string(name.ns()) + '/' +
                           std::string(to_string(name.domain())) + '/' + name.encoded_local();
  auto document = co_await read_document(admin.metadata(), path);
  if (!document) co_return document.status();
  json::object out;
  out["partitions"] = count;
  out["deleted"] = false;
  const json::value* properties =
      document->has_value() ? (*document)->if_contains("properties") : nullptr;
  if (properties != nullptr && properties->is_object()) out["properties"] = *properties;
  co_return out;
}

Answer partitioned_stats(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count == 0) {
    Status ns = co_await require_namespace(admin, name->namespace_name());
    if (!ns) co_return ns;
    co_return Status::NotFound("Partitioned Topic " + name->full() + " not found");
  }
  auto context = co_await context_of(admin, *name);
  if (!context) co_return context.status();
  const StatsQuery query = query_of(request);
  const bool each = request.query_flag("perPartition", true);
  std::vector<TopicStats> all;
  json::object partitions;
  for (std::int32_t i = 0; i < *count; ++i) {
    const TopicName part = name->partition(i);
    TopicStats stats;
    auto answer =
        co_await with_topic(admin, part, [&stats](std::shared_ptr<Topic> topic) -> Answer {
          stats = topic->stats();
          co_return no_content();
        });
    if (answer.is(ErrorCode::NotFound)) continue;  // not created yet
    if (!answer) co_return answer;
    if (each) partitions[part.full()] = topic_stats_json(stats, *context, query);
    all.push_back(std::move(stats));
  }
  json::object out = partitioned_stats_json(all, *context, query);
  auto metadata = co_await partitions_json(admin, *name, *count);
  if (!metadata) co_return metadata.status();
  out["metadata"] = std::move(*metadata);
  out["partitions"] = std::move(partitions);
  co_return json_answer(out);
}

json::object persistent_internal(const Topic& topic, const ManagedLedger& log) {
  json::object out = managed_ledger_json(log);
  json::object cursors;
  std::int64_t waiting = 0;
  for (const std::string& name : topic.subscription_names()) {
    const auto subscription = topic.subscription(name);
    if (!subscription || subscription->cursor() == nullptr) continue;
    json::object cursor =
        cursor_json(log, *subscription->cursor(), subscription->consumer_count() > 0);
    if (cursor["waitingReadOp"].as_bool()) ++waiting;
    cursors[url_encode(name)] = std::move(cursor);
  }
  out["waitingCursorsCount"] = waiting;
  out["cursors"] = std::move(cursors);
  out["schemaLedgers"] = json::array();
  const TopicCompaction* compaction = topic.compaction();
  const auto compacted = compaction != nullptr ? compaction->current() : nullptr;
  out["compactedLedger"] =
      compacted != nullptr ? ledger_json(compacted->id(), compacted->entries(), compacted->bytes())
                           : ledger_json(-1, -1, -1);
  return out;
}

json::object non_persistent_internal(const Topic& topic) {
  json::object out;
  out["entriesAddedCounter"] = topic.stats().msg_in_counter;
  for (const char* zero : {"numberOfEntries", "totalSize", "currentLedgerEntries",
                           "currentLedgerSize", "waitingCursorsCount", "pendingAddEntriesCount"}) {
    out[zero] = 0;
  }
  json::object cursors;
  for (const std::string& name : topic.subscription_names()) {
    json::object cursor;
    cursor["waitingReadOp"] = false;
    for (const char* zero :
         {"pendingReadOps", "messagesConsumedCounter", "cursorLedger", "cursorLedgerLastEntry"}) {
      cursor[zero] = 0;
    }
    cursor["active"] = false;
    cursor["numberOfEntriesSinceFirstNotAckedMessage"] = 0;
    cursor["totalNonContiguousDeletedMessagesRange"] = 0;
    cursor["subscriptionHavePendingRead"] = false;
    cursor["subscriptionHavePendingReplayRead"] = false;
    cursors[url_encode(name)] = std::move(cursor);
  }
  out["cursors"] = std::move(cursors);
  return out;
}

// Ledgers of the topic's schemas; their sizes are not known without opening them.
Task<Result<json::array>> schema_ledgers(Admin& admin, TopicName name) {
  const SchemaPlace place = admin.broker.schemas(name);
  auto work = [&registry = place.registry,
               name]() -> Task<Result<std::vector<SchemaRegistry::VersionLedger>>> {
    co_return co_await registry.ledgers(name.schema_id());
  };
  auto ledgers = co_await on_shard(place.shard, std::move(work));
  if (!ledgers) co_return ledgers.status();
  json::array out;
  for (const auto& ledger : *ledgers) out.push_back(ledger_json(ledger.ledger, 1, 0));
  co_return out;
}

Task<Result<json::object>> internal_of(Admin& admin, TopicName name) {
  json::object out;
  auto answer = co_await with_topic(admin, name, [&out](std::shared_ptr<Topic> topic) -> Answer {
    const ManagedLedger* log = topic->managed_ledger();
    out = log != nullptr ? persistent_internal(*topic, *log) : non_persistent_internal(*topic);
    co_return no_content();
  });
  if (!answer) co_return answer.status();
  if (name.persistent()) {
    auto ledgers = co_await schema_ledgers(admin, name);
    if (!ledgers) co_return ledgers.status();
    out["schemaLedgers"] = std::move(*ledgers);
  }
  co_return out;
}

Answer internal_stats(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto document = co_await internal_of(admin, *name);
  if (!document) co_return document.status();
  co_return json_answer(*document);
}

Answer partitioned_internal_stats(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count == 0) co_return Status::NotFound("Partitioned Topic " + name->full() + " not found");
  json::object partitions;
  for (std::int32_t i = 0; i < *count; ++i) {
    const TopicName part = name->partition(i);
    auto document = co_await internal_of(admin, part);
    if (document.is(ErrorCode::NotFound)) continue;
    if (!document) co_return document.status();
    partitions[part.full()] = std::move(*document);
  }
  auto metadata = co_await partitions_json(admin, *name, *count);
  if (!metadata) co_return metadata.status();
  json::object out;
  out["metadata"] = std::move(*metadata);
  out["partitions"] = std::move(partitions);
  co_return json_answer(out);
}

#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TOPIC "/stats", "Statistics of a topic", stats},
    {HttpMethod::Get, GM_TOPIC "/partitioned-stats", "Statistics of a partitioned topic",
     partitioned_stats},
    {HttpMethod::Get, GM_TOPIC "/internalStats", "Ledgers and cursors of a topic", internal_stats},
    {HttpMethod::Get, GM_TOPIC "/partitioned-internalStats",
     "Ledgers and cursors of all partitions", partitioned_internal_stats},
};

}  // namespace

void add_topic_stats_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
