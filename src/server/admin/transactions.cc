// Transactions: coordinators, what is open, and what topics and subscriptions know of it.
#include "broker/transactions.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>

#include "broker/persistent_subscription.h"
#include "broker/persistent_topic.h"
#include "server/admin/admin.h"
#include "server/admin/ledger_json.h"

namespace geminga {

namespace json = boost::json;

namespace {

using Info = TransactionCoordinator::Info;

HttpResponse no_content() {
  HttpResponse response;
  response.status = 204;
  return response;
}

Result<std::uint64_t> number_of(const HttpRequest& request, std::string_view name) {
  const std::string& text = request.param(name);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Status::NotFound(fmt::format("{} '{}' is no number", name, text));
  }
  return value;
}

Result<TxnId> txn_of(const HttpRequest& request) {
  GM_ASSIGN_OR_RETURN(const std::uint64_t most, number_of(request, "mostSigBits"));
  GM_ASSIGN_OR_RETURN(const std::uint64_t least, number_of(request, "leastSigBits"));
  return TxnId{most, least};
}

// These routes have no domain: transactions are a matter of persistent topics.
Result<TopicName> persistent_topic_of(const HttpRequest& request) {
  GM_ASSIGN_OR_RETURN(const NamespaceName ns, namespace_of(request));
  const auto name = TopicName::of(TopicDomain::Persistent, ns, request.param("topic"));
  if (!name) return Status::PreconditionFailed("Topic name is not valid");
  return *name;
}

const TransactionBuffer* buffer_of(const Topic& topic) {
  const auto* persistent = dynamic_cast<const PersistentTopic*>(&topic);
  return persistent == nullptr ? nullptr : persistent->transactions();
}

const SubscriptionTransactions* acks_of(const Topic& topic, const std::string& subscription) {
  const auto found = topic.subscription(subscription);
  const auto* persistent = dynamic_cast<const PersistentSubscription*>(found.get());
  return persistent == nullptr ? nullptr : &persistent->transactions();
}

json::object in_buffer(const Topic& topic, const TxnId& txn) {
  json::object out;
  const TransactionBuffer* buffer = buffer_of(topic);
  if (buffer == nullptr) return out;
  if (const auto first = buffer->first_message(txn)) out["startPosition"] = first->to_string();
  out["aborted"] = buffer->is_aborted(txn);
  return out;
}

json::object in_pending_acks(const Topic& topic, const std::string& subscription,
                             const TxnId& txn) {
  json::object out;
  const SubscriptionTransactions* transactions = acks_of(topic, subscription);
  if (transactions == nullptr) return out;
  if (const auto position = transactions->acks().cumulative_of(txn)) {
    out["cumulativeAckPosition"] = position->to_string();
  }
  return out;
}

// The transaction with what each topic and subscription knows of it.
Task<json::object> metadata_of(Admin& admin, Info info) {
  json::object out;
  out["txnId"] = info.txn.to_string();
  out["status"] = to_string(info.status);
  out["openTimestamp"] = info.opened_ms;
  out["timeoutAt"] = info.timeout_ms;
  json::object produced;
  for (const std::string& topic : info.topics) {
    json::object part;
    TopicWork work = [&part, txn = info.txn](std::shared_ptr<Topic> loaded) -> Answer {
      part = in_buffer(*loaded, txn);
      co_return no_content();
    };
    // A topic that is gone has nothing to tell.
    if (const auto name = TopicName::parse(topic)) {
      (void)co_await with_topic(admin, *name, std::move(work));
    }
    produced[topic] = std::move(part);
  }
  json::object acked;
  for (const TxnSubscription& subscription : info.subscriptions) {
    json::object part;
    TopicWork work = [&part, txn = info.txn,
                      name = subscription.subscription](std::shared_ptr<Topic> loaded) -> Answer {
      part = in_pending_acks(*loaded, name, txn);
      co_return no_content();
    };
    if (const auto name = TopicName::parse(subscription.topic)) {
      (void)co_await with_topic(admin, *name, std::move(work));
    }
    json::value& of_topic = acked[subscription.topic];
    if (!of_topic.is_object()) of_topic = json::object();
    of_topic.get_object()[subscription.subscription] = std::move(part);
  }
  out["producedPartitions"] = std::move(produced);
  out["ackedPartitions"] = std::move(acked);
  co_return out;
}

json::object stats_json(const TransactionCoordinator::Stats& stats) {
  return {{"state", "Ready"},
          {"leastSigBits", stats.least_bits},
          {"lowWaterMark", stats.low_watermark},
          {"ongoingTxnSize", stats.ongoing},
          {"recoverStartTime", stats.recover_start_ms},
          {"recoverEndTime", stats.recover_end_ms}};
}

Answer coordinators(Admin& admin, HttpRequest&) {
  const auto count = co_await admin.broker.transactions().coordinator_count();
  if (!count) co_return count.status();
  json::array out;
  for (std::int32_t i = 0; i < *count; ++i) {
    out.push_back(
        json::object{{"id", i}, {"brokerServiceUrl", admin.broker.addresses().service_url}});
  }
  co_return json_answer(out);
}

Answer coordinator_stats(Admin& admin, HttpRequest& request) {
  Transactions& transactions = admin.broker.transactions();
  if (const auto id = request.query_number("coordinatorId")) {
    const auto stats = co_await transactions.stats(static_cast<std::uint64_t>(*id));
    if (!stats) co_return stats.status();
    co_return json_answer(stats_json(*stats));
  }
  const auto count = co_await transactions.coordinator_count();
  if (!count) co_return count.status();
  json::object out;
  for (std::int32_t i = 0; i < *count; ++i) {
    const auto stats = co_await transactions.stats(static_cast<std::uint64_t>(i));
    if (!stats) co_return stats.status();
    out[std::to_string(i)] = stats_json(*stats);
  }
  co_return json_answer(out);
}

Answer transaction_metadata(Admin& admin, HttpRequest& request) {
  const auto txn = txn_of(request);
  if (!txn) co_return txn.status();
  const auto info = co_await admin.broker.transactions().info(*txn);
  if (!info) co_return info.status();
  const json::object out = co_await metadata_of(admin, *info);
  co_return json_answer(out);
}

Answer slow_transactions(Admin& admin, HttpRequest& request) {
  const auto timeout = number_of(request, "timeout");
  if (!timeout) co_return timeout.status();
  Transactions& transactions = admin.broker.transactions();
  const auto count = co_await transactions.coordinator_count();
  if (!count) co_return count.status();
  const auto only = request.query_number("coordinatorId");
  json::object out;
  for (std::int32_t i = 0; i < *count; ++i) {
    if (only && *only != i) continue;
    const auto slow = co_await transactions.slow(static_cast<std::uint64_t>(i),
                                                 static_cast<std::int64_t>(*timeout));
    if (!slow) co_return slow.status();
    for (const Info& info : *slow) {
      json::object one = co_await metadata_of(admin, info);
      out[info.txn.to_string()] = std::move(one);
    }
  }
  co_return json_answer(out);
}

Answer abort_transaction(Admin& admin, HttpRequest& request) {
  const auto txn = txn_of(request);
  if (!txn) co_return txn.status();
  const Status aborted = co_await admin.broker.transactions().end(*txn, false);
  if (!aborted) co_return aborted;
  co_return no_content();
}

Answer scale(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_int64() || body.value.get_int64() > 100'000) {
    co_return Status::InvalidArgument("the number of coordinators is an integer up to 100000");
  }
  const Status scaled =
      co_await admin.broker.transactions().scale(static_cast<std::int32_t>(body.value.get_int64()));
  if (scaled.is(ErrorCode::PreconditionFailed)) {
    const json::object reason{{"reason", scaled.message()}};
    co_return json_answer(reason, 406);
  }
  if (!scaled) co_return scaled;
  co_return no_content();
}

Answer buffer_stats(Admin& admin, HttpRequest& request) {
  const auto name = persistent_topic_of(request);
  if (!name) co_return name.status();
  const bool low_watermarks = request.query_flag("lowWaterMarks", false);
  TopicWork work = [low_watermarks](std::shared_ptr<Topic> topic) -> Answer {
    const TransactionBuffer* buffer = buffer_of(*topic);
    json::object out;
    // Pulsar's name of a buffer that no transaction has needed.
    out["state"] = buffer == nullptr ? "NoSnapshot" : "Ready";
    const Position last =
        topic->managed_ledger() == nullptr ? Position() : topic->managed_ledger()->last_confirmed();
    out["maxReadPosition"] = (buffer == nullptr ? last : buffer->last_readable()).to_string();
    out["lastSnapshotTimestamps"] = buffer == nullptr ? 0 : buffer->last_snapshot_ms();
    if (low_watermarks) {
      json::object marks;
      if (buffer != nullptr) {
        for (const auto& [id, mark] : buffer->low_watermarks()) marks[std::to_string(id)] = mark;
      }
      out["lowWaterMarks"] = std::move(marks);
    }
    out["ongoingTxnSize"] = buffer == nullptr ? 0 : buffer->open_count();
    out["recoverStartTime"] = buffer == nullptr ? 0 : buffer->recover_start_ms();
    out["recoverEndTime"] = buffer == nullptr ? 0 : buffer->recover_end_ms();
    out["totalAbortedTransactions"] = buffer == nullptr ? 0 : buffer->aborted_count();
    out["snapshotType"] = "Single";
    co_return json_answer(out);
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

Answer in_buffer_stats(Admin& admin, HttpRequest& request) {
  const auto name = persistent_topic_of(request);
  if (!name) co_return name.status();
  const auto txn = txn_of(request);
  if (!txn) co_return txn.status();
  TopicWork work = [txn = *txn](std::shared_ptr<Topic> topic) -> Answer {
    const json::object out = in_buffer(*topic, txn);
    co_return json_answer(out);
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

// What is asked of a subscription's pending acknowledgements; 404 if there is no such subscription.
using AcksWork = std::function<json::object(const Topic&, const SubscriptionTransactions&)>;
Answer of_pending_acks(Admin& admin, HttpRequest& request, AcksWork ask) {
  const auto name = persistent_topic_of(request);
  if (!name) co_return name.status();
  TopicWork work = [subscription = request.param("subName"),
                    ask = std::move(ask)](std::shared_ptr<Topic> topic) -> Answer {
    const SubscriptionTransactions* transactions = acks_of(*topic, subscription);
    if (transactions == nullptr) {
      co_return Status::NotFound(fmt::format("Subscription {} not found for topic {}", subscription,
                                             topic->name().full()));
    }
    const json::object out = ask(*topic, *transactions);
    co_return json_answer(out);
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

Answer pending_ack_stats(Admin& admin, HttpRequest& request) {
  AcksWork ask = [](const Topic&, const SubscriptionTransactions& transactions) -> json::object {
    return {{"state", transactions.ready() ? "Ready" : "None"},
            {"ongoingTxnSize", transactions.acks().transactions()},
            {"recoverStartTime", transactions.recover_start_ms()},
            {"recoverEndTime", transactions.recover_end_ms()}};
  };
  co_return co_await of_pending_acks(admin, request, std::move(ask));
}

Answer in_pending_ack_stats(Admin& admin, HttpRequest& request) {
  const auto txn = txn_of(request);
  if (!txn) co_return txn.status();
  AcksWork ask = [txn = *txn, name = request.param("subName")](
                     const Topic& topic, const SubscriptionTransactions&) -> json::object {
    return in_pending_acks(topic, name, txn);
  };
  co_return co_await of_pending_acks(admin, request, std::move(ask));
}

Answer position_stats(Admin& admin, HttpRequest& request) {
  const auto ledger = number_of(request, "ledgerId");
  if (!ledger) co_return ledger.status();
  const auto entry = number_of(request, "entryId");
  if (!entry) co_return entry.status();
  const Position position{static_cast<LedgerId>(*ledger), static_cast<EntryId>(*entry)};
  const auto batch_index =
      static_cast<std::int32_t>(request.query_number("batchIndex").value_or(-1));
  AcksWork ask = [position, batch_index, name = request.param("subName")](
                     const Topic& topic,
                     const SubscriptionTransactions& transactions) -> json::object {
    const ManagedCursor* cursor = topic.subscription(name)->cursor();
    const char* state = "NotInPendingAck";
    if (cursor != nullptr && cursor->is_acked(position)) {
      state = "MarkDelete";
    } else if (topic.managed_ledger() != nullptr && !topic.managed_ledger()->exists(position)) {
      state = "InvalidPosition";
    } else if (transactions.acks().is_pending(position, batch_index)) {
      state = "PendingAck";
    }
    return {{"state", state}};
  };
  co_return co_await of_pending_acks(admin, request, std::move(ask));
}

// --- where they keep it ---

json::object log_json(const ManagedLedger& log) {
  json::object out;
  out["managedLedgerName"] = log.name();
  json::object stats = managed_ledger_json(log);
  stats["cursors"] = cursors_json(log);
  out["managedLedgerInternalStats"] = std::move(stats);
  return out;
}

Answer coordinator_internal(Admin& admin, HttpRequest& request) {
  const auto id = number_of(request, "coordinatorId");
  if (!id) co_return id.status();
  const auto count = co_await admin.broker.transactions().coordinator_count();
  if (!count) co_return count.status();
  if (*id >= static_cast<std::uint64_t>(std::max(*count, 0))) {
    co_return Status::NotFound(
        fmt::format("Transaction coordinator not found! coordinator id : {}", *id));
  }
  json::object out;
  std::function<void(const ManagedLedger&)> look = [&out](const ManagedLedger& log) {
    out["transactionLogStats"] = log_json(log);
  };
  const Status looked = co_await admin.broker.transactions().look_at_log(*id, std::move(look));
  if (!looked) co_return looked;
  co_return json_answer(out);
}

Answer pending_ack_internal(Admin& admin, HttpRequest& request) {
  AcksWork ask = [](const Topic&, const SubscriptionTransactions& transactions) -> json::object {
    json::object out;
    if (const ManagedLedger* log = transactions.ledger())
      out["pendingAckLogStats"] = log_json(*log);
    return out;
  };
  co_return co_await of_pending_acks(admin, request, std::move(ask));
}

// The snapshot of what was aborted is kept in a cursor of the topic's own log.
Answer buffer_internal(Admin& admin, HttpRequest& request) {
  const auto name = persistent_topic_of(request);
  if (!name) co_return name.status();
  TopicWork work = [](std::shared_ptr<Topic> topic) -> Answer {
    json::object out;
    out["snapshotType"] = "Single";
    if (const ManagedLedger* log = topic->managed_ledger())
      out["singleSnapshotSystemTopicInternalStats"] = log_json(*log);
    co_return json_answer(out);
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

#define GM_TXN "/admin/v3/transactions"
#define GM_TXN_TOPIC "/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TXN "/coordinators", "Transaction coordinators", coordinators},
    {HttpMethod::Get, GM_TXN "/coordinatorStats", "State of transaction coordinators",
     coordinator_stats},
    {HttpMethod::Get, GM_TXN "/transactionMetadata/{mostSigBits}/{leastSigBits}",
     "A transaction that is open, and who takes part", transaction_metadata},
    {HttpMethod::Get, GM_TXN "/slowTransactions/{timeout}",
     "Transactions open for longer than so many milliseconds", slow_transactions},
    {HttpMethod::Post, GM_TXN "/abortTransaction/{mostSigBits}/{leastSigBits}",
     "Abort a transaction", abort_transaction},
    {HttpMethod::Post, GM_TXN "/transactionCoordinator/replicas",
     "Have more transaction coordinators", scale},
    {HttpMethod::Get, GM_TXN "/transactionBufferStats" GM_TXN_TOPIC,
     "What a topic knows of transactions", buffer_stats},
    {HttpMethod::Get,
     GM_TXN "/transactionInBufferStats" GM_TXN_TOPIC "/{mostSigBits}/{leastSigBits}",
     "What a topic knows of a transaction", in_buffer_stats},
    {HttpMethod::Get, GM_TXN "/pendingAckStats" GM_TXN_TOPIC "/{subName}",
     "What transactions have acknowledged in a subscription", pending_ack_stats},
    {HttpMethod::Get,
     GM_TXN "/transactionInPendingAckStats" GM_TXN_TOPIC "/{subName}/{mostSigBits}/{leastSigBits}",
     "What a transaction has acknowledged in a subscription", in_pending_ack_stats},
    {HttpMethod::Get,
     GM_TXN "/positionStatsInPendingAck" GM_TXN_TOPIC "/{subName}/{ledgerId}/{entryId}",
     "Whether a transaction has acknowledged a message", position_stats},
    {HttpMethod::Get, GM_TXN "/coordinatorInternalStats/{coordinatorId}",
     "The log of a transaction coordinator", coordinator_internal},
    {HttpMethod::Get, GM_TXN "/pendingAckInternalStats" GM_TXN_TOPIC "/{subName}",
     "The log of what transactions have acknowledged in a subscription", pending_ack_internal},
    {HttpMethod::Get, GM_TXN "/transactionBufferInternalStats" GM_TXN_TOPIC,
     "Where a topic keeps what it knows of transactions", buffer_internal},
};

}  // namespace

void add_transaction_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
