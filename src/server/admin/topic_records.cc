// What is stored of a topic: its metadata, and its backlog as the log's own numbers tell it.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/config.h"
#include "base/iso_time.h"
#include "server/admin/admin.h"
#include "server/admin/message_id_json.h"

namespace geminga {

namespace json = boost::json;

namespace {

json::object stamped(const std::optional<MetadataValue>& node) {
  json::object out;
  out["version"] = node ? node->stat.version : 0;
  out["creationDate"] = iso_time(node ? node->stat.created_ms : 0);
  out["modificationDate"] = iso_time(node ? node->stat.modified_ms : 0);
  return out;
}

json::object position_json(Position position) {
  return {{"ledgerId", position.ledger}, {"entryId", position.entry}};
}

// {version, creationDate, modificationDate, ledgers, cursors} of one log.
Task<Result<json::object>> record_of(Admin& admin, TopicName name) {
  const std::string path = "/managed-ledgers/" + name.managed_ledger_name();
  auto node = co_await admin.metadata().get(path);
  if (!node) co_return node.status();
  json::object out = stamped(*node);
  json::object cursors;
  json::array ledgers;
  TopicWork work = [&ledgers, &cursors](std::shared_ptr<Topic> topic) -> Answer {
    const ManagedLedger* log = topic->managed_ledger();
    if (log == nullptr)
      co_return Status::NotAllowed("a topic that is not persistent has nothing stored");
    for (const LedgerSummary& ledger : log->ledgers()) {
      json::object one;
      one["ledgerId"] = ledger.id;
      if (ledger.closed_ms != 0) {
        one["entries"] = ledger.entries;
        one["size"] = ledger.bytes;
      }
      one["timestamp"] = ledger.closed_ms;
      one["isOffloaded"] = false;
      ledgers.push_back(std::move(one));
    }
    for (const auto& cursor : log->cursors()) {
      json::object one;
      one["cursorsLedgerId"] = -1;  // cursors are kept in the metadata store
      one["markDelete"] = position_json(cursor->mark_delete());
      cursors[cursor->name()] = std::move(one);
    }
    co_return no_content();
  };
  auto answer = co_await with_topic(admin, name, std::move(work));
  if (!answer) co_return answer.status();
  out["ledgers"] = std::move(ledgers);
  json::object dated;
  for (auto& cursor : cursors) {
    auto own = co_await admin.metadata().get(path + '/' + std::string(cursor.key()));
    if (!own) co_return own.status();
    json::object one = stamped(*own);
    for (auto& field : cursor.value().get_object()) one[field.key()] = field.value();
    dated[cursor.key()] = std::move(one);
  }
  out["cursors"] = std::move(dated);
  co_return out;
}

Answer internal_info(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count == 0 || name->is_partition()) {
    auto record = co_await record_of(admin, *name);
    if (!record) co_return record.status();
    co_return json_answer(*record);
  }
  json::object partitions;
  for (std::int32_t i = 0; i < *count; ++i) {
    const TopicName part = name->partition(i);
    auto record = co_await record_of(admin, part);
    if (record.is(ErrorCode::NotFound)) continue;  // not created yet
    if (!record) co_return record.status();
    partitions[part.full()] = std::move(*record);
  }
  json::object out;
  out["version"] = 0;
  out["partitions"] = std::move(partitions);
  co_return json_answer(out);
}

// The log's index counts messages: nothing is read for it, however long the topic.
Answer offline_backlog(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  const std::string broker = admin.config().advertised_address;
  TopicWork work = [broker](std::shared_ptr<Topic> topic) -> Answer {
    const ManagedLedger* log = topic->managed_ledger();
    if (log == nullptr)
      co_return Status::NotAllowed("a topic that is not persistent has no stored backlog");
    json::object out;
    out["storageSize"] = log->total_bytes();
    out["totalMessages"] = log->total_messages();
    json::object cursors;
    std::int64_t backlog = 0;
    for (const auto& cursor : log->cursors()) {
      if (topic->subscription(cursor->name()) == nullptr) continue;  // the broker's own
      backlog += cursor->backlog_messages();
      cursors[cursor->name()] = {{"cursorBacklog", cursor->backlog_messages()},
                                 {"cursorLedgerId", -1}};
    }
    out["messageBacklog"] = backlog;
    out["brokerName"] = broker;
    out["topicName"] = log->name();
    json::array ledgers;
    for (const LedgerSummary& ledger : log->ledgers()) {
      ledgers.push_back({{"entries", ledger.entries},
                         {"timestamp", ledger.closed_ms},
                         {"size", ledger.bytes},
                         {"ledgerId", ledger.id}});
    }
    out["dataLedgerDetails"] = std::move(ledgers);
    out["cursorDetails"] = std::move(cursors);
    out["statGeneratedAt"] = now_ms();
    co_return json_answer(out);
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

// There is nowhere to offload to. The original says so later, when its status is asked for.
Answer offload(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto id = read_message_id(body.value);
  if (!id) co_return refusal_of(id.status());
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await with_topic(admin, *name, [](std::shared_ptr<Topic>) -> Answer {
    co_return Status::Unsupported(
        "no offload driver is available: ledgers stay on this machine, and retention decides how "
        "long");
  });
}

#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TOPIC "/internal-info", "Stored metadata of a topic", internal_info},
    {HttpMethod::Get, GM_TOPIC "/backlog", "Backlog of a topic as it is stored", offline_backlog},
    {HttpMethod::Put, GM_TOPIC "/offload", "Offload ledgers of a topic", offload},
};

}  // namespace

void add_topic_record_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
