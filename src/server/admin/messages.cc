// Messages over HTTP: peek, by id, examine, last id, id at a time, and what lies between positions.
#include <PulsarApi.pb.h>
#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "base/config.h"
#include "server/admin/admin.h"
#include "server/admin/message_id_json.h"
#include "server/admin/stats_json.h"
#include "server/json_text.h"
#include "wire/base64.h"
#include "wire/compression.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace json = boost::json;
namespace proto = pulsar::proto;

namespace {

constexpr std::size_t kMaxEntryBytes = 64 << 20;
constexpr std::int64_t kMaxPeek = 100'000;
// Entries that a scan reads before it gives up and says so.
constexpr std::int64_t kMaxScan = 10'000;

std::string_view compression_name(proto::CompressionType type) {
  switch (type) {
    case proto::LZ4: return "LZ4";
    case proto::ZLIB: return "ZLIB";
    case proto::ZSTD: return "ZSTD";
    case proto::SNAPPY: return "SNAPPY";
    case proto::NONE: break;
  }
  return "NONE";
}

class Headers {
 public:
  explicit Headers(HttpResponse& response) : response_(response) {}
  void add(std::string_view name, std::string value) {
    response_.headers.emplace_back("X-Pulsar-" + std::string(name), std::move(value));
  }
  void add(std::string_view name, std::int64_t value) { add(name, std::to_string(value)); }
  void flag(std::string_view name, bool value) { add(name, std::string(value ? "true" : "false")); }

 private:
  HttpResponse& response_;
};

void add_metadata(Headers& headers, const proto::MessageMetadata& metadata) {
  std::string properties = "{";
  for (const auto& property : metadata.properties()) {
    if (properties.size() > 1) properties += ',';
    append_json_string(properties, property.key());
    properties += ':';
    append_json_string(properties, property.value());
  }
  headers.add("PROPERTY", properties + '}');
  headers.add("publish-time", iso_time(static_cast<std::int64_t>(metadata.publish_time())));
  if (metadata.event_time() != 0)
    headers.add("event-time", iso_time(static_cast<std::int64_t>(metadata.event_time())));
  if (metadata.deliver_at_time() != 0)
    headers.add("deliver-at-time", iso_time(metadata.deliver_at_time()));
}

// What became of the transaction that sent it.
struct TxnFate {
  bool aborted = false;
  bool uncommitted = false;
};

void add_rest(Headers& headers, const proto::MessageMetadata& metadata, TxnFate fate) {
  headers.flag("Is-Encrypted", metadata.encryption_keys_size() > 0);
  if (metadata.encryption_keys_size() > 0) {
    headers.add("Base64-encryption-keys", encode_base64(metadata.encryption_keys(0).value()));
  }
  if (metadata.has_encryption_param()) {
    headers.add("Base64-encryption-param", encode_base64(metadata.encryption_param()));
  }
  if (metadata.has_encryption_algo()) headers.add("encryption-algo", metadata.encryption_algo());
  headers.add("producer-name", metadata.producer_name());
  headers.add("sequence-id", static_cast<std::int64_t>(metadata.sequence_id()));
  if (metadata.has_highest_sequence_id()) {
    headers.add("highest-sequence-id", static_cast<std::int64_t>(metadata.highest_sequence_id()));
  }
  if (metadata.has_partition_key()) headers.add("partition-key", metadata.partition_key());
  if (metadata.has_partition_key_b64_encoded()) {
    headers.flag("partition-key-b64-encoded", metadata.partition_key_b64_encoded());
  }
  if (metadata.has_null_partition_key())
    headers.flag("null-partition-key", metadata.null_partition_key());
  if (metadata.has_ordering_key())
    headers.add("Base64-ordering-key", encode_base64(metadata.ordering_key()));
  if (metadata.has_schema_version())
    headers.add("Base64-schema-version", encode_base64(metadata.schema_version()));
  if (metadata.has_compression())
    headers.add("compression", std::string(compression_name(metadata.compression())));
  if (metadata.has_uncompressed_size())
    headers.add("uncompressed-size", metadata.uncompressed_size());
  if (metadata.has_null_value()) headers.flag("null-value", metadata.null_value());
  if (metadata.has_replicated_from()) headers.add("replicated-from", metadata.replicated_from());
  for (const std::string& cluster : metadata.replicate_to()) headers.add("replicated-to", cluster);
  if (metadata.has_marker_type()) headers.add("marker-type", metadata.marker_type());
  if (metadata.has_txnid_least_bits()) {
    headers.add("txnid-least-bits", static_cast<std::int64_t>(metadata.txnid_least_bits()));
    headers.add("txnid-most-bits", static_cast<std::int64_t>(metadata.txnid_most_bits()));
    headers.flag("txn-aborted", fate.aborted);
  }
  headers.flag("txn-uncommitted", fate.uncommitted);
  if (metadata.has_uuid()) {
    headers.add("uuid", metadata.uuid());
    headers.add("chunk-id", metadata.chunk_id());
    headers.add("num-chunks-from-msg", metadata.num_chunks_from_msg());
    headers.add("total-chunk-msg-size", metadata.total_chunk_msg_size());
    headers.add("PROPERTY-CHUNK-ID", metadata.chunk_id());
    headers.add("PROPERTY-TOTAL-CHUNKS", metadata.num_chunks_from_msg());
  }
}

// An entry as an answer: the payload (decompressed) as the body, all else as headers.
Result<HttpResponse> message_answer(const Topic& topic, const Entry& entry, std::size_t max_size) {
  GM_ASSIGN_OR_RETURN(const EntryParts parts, split_entry(entry.data.span()));
  proto::MessageMetadata metadata;
  if (!metadata.ParseFromArray(parts.metadata.data(), static_cast<int>(parts.metadata.size()))) {
    return Status::Corruption("the metadata of message " + entry.position.to_string() +
                              " cannot be read");
  }
  HttpResponse response;
  response.status = 200;
  response.content_type = "application/json";  // whatever it is
  Headers headers(response);
  headers.add("Message-ID", entry.position.to_string());
  add_metadata(headers, metadata);
  if (!parts.broker_metadata.empty()) {
    proto::BrokerEntryMetadata broker;
    if (broker.ParseFromArray(parts.broker_metadata.data(),
                              static_cast<int>(parts.broker_metadata.size()))) {
      if (broker.has_broker_timestamp()) {
        headers.add("Broker-Entry-METADATA-timestamp",
                    iso_time(static_cast<std::int64_t>(broker.broker_timestamp())));
      }
      if (broker.has_index())
        headers.add("Broker-Entry-METADATA-index", static_cast<std::int64_t>(broker.index()));
    }
  }
  if (metadata.has_num_messages_in_batch()) {
    headers.add("num-batch-message", metadata.num_messages_in_batch());
    headers.add("batch-size", static_cast<std::int64_t>(entry.data.size() - parts.metadata.size()));
  }
  TxnFate fate;
  fate.uncommitted = entry.position > topic.max_read_position();
  fate.aborted = metadata.has_txnid_least_bits() &&
                 topic.is_aborted({metadata.txnid_most_bits(), metadata.txnid_least_bits()});
  add_rest(headers, metadata, fate);
  if (metadata.encryption_keys_size() == 0 && metadata.compression() != proto::NONE) {
    GM_ASSIGN_OR_RETURN(const Buffer plain,
                        decompress(static_cast<Codec>(metadata.compression()), parts.payload,
                                   metadata.uncompressed_size(), max_size));
    response.body = plain.view();
  } else {
    response.body.assign(reinterpret_cast<const char*>(parts.payload.data()), parts.payload.size());
  }
  return response;
}

Answer read_message(std::shared_ptr<Topic> topic, Position position, std::size_t max_size,
                    std::string missing) {
  ManagedLedger& log = *topic->managed_ledger();
  if (!log.exists(position)) co_return Status::NotFound(missing);
  auto entries = co_await log.read(position, 1, kMaxEntryBytes);
  if (!entries) co_return entries.status();
  if (entries->empty() || entries->front().position != position)
    co_return Status::NotFound(missing);
  co_return message_answer(*topic, entries->front(), max_size);
}

std::optional<std::int64_t> number_of(const HttpRequest& request, std::string_view name) {
  HttpRequest reader;
  reader.query.emplace_back("n", request.param(name));
  return reader.query_number("n");
}

// On the topic's log; refused for partitioned (405 with `refusal`) and non-persistent topics.
using LogWork = std::function<Answer(std::shared_ptr<Topic>, ManagedLedger&)>;
Answer with_log(Admin& admin, HttpRequest& request, std::string refusal, LogWork work) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  if (!refusal.empty() && !name->is_partition()) {
    auto count = co_await admin.broker.partition_count(*name);
    if (!count) co_return count.status();
    if (*count > 0) co_return Status::NotAllowed(refusal);
  }
  auto work2 = [work](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->managed_ledger() == nullptr) {
      co_return Status::NotAllowed("This operation on a non-persistent topic is not allowed");
    }
    co_return co_await work(topic, *topic->managed_ledger());
  };
  co_return co_await with_topic(admin, *name, std::move(work2));
}

std::size_t max_payload(const Admin& admin) {
  return static_cast<std::size_t>(admin.live()->max_message_size) * 8;
}

Answer peek(Admin& admin, HttpRequest& request) {
  const auto nth = number_of(request, "position");
  if (!nth) co_return server_page(request, 404);
  if (*nth < 1 || *nth > kMaxPeek) {
    co_return Status::PreconditionFailed(
        fmt::format("the message position is from 1 to {}", kMaxPeek));
  }
  const std::string name = request.param("subscription");
  const std::size_t limit = max_payload(admin);
  auto work = [nth, name, limit](std::shared_ptr<Topic> topic, ManagedLedger& log) -> Answer {
    if (!topic->subscription(name)) {  // Pulsar makes it, at the beginning
      const Status made = co_await topic->create_subscription(name, Position::earliest(), {});
      if (!made && !made.is(ErrorCode::AlreadyExists)) co_return made;
    }
    auto subscription = topic->subscription(name);
    if (!subscription) {  // unsubscribed meanwhile
      co_return Status::SubscriptionNotFound(
          fmt::format("Subscription {} not found for topic {}", name, topic->name().full()));
    }
    const ManagedCursor& cursor = *subscription->cursor();
    Position position = cursor.first_unacked();
    for (std::int64_t i = 1; i < *nth && log.exists(position); ++i) {
      position = cursor.next_unacked(log.next(position));
    }
    co_return co_await read_message(topic, position, limit, "Message not found");
  };
  co_return co_await with_log(admin, request, "Peek messages on a partitioned topic is not allowed",
                              std::move(work));
}

Answer by_id(Admin& admin, HttpRequest& request) {
  const auto ledger = number_of(request, "ledger");
  const auto entry = number_of(request, "entry");
  if (!ledger || !entry) co_return server_page(request, 404);
  const Position position{*ledger, *entry};
  const std::size_t limit = max_payload(admin);
  auto work = [position, limit](std::shared_ptr<Topic> topic, ManagedLedger&) -> Answer {
    co_return co_await read_message(topic, position, limit, "Message id not found");
  };
  co_return co_await with_log(admin, request, "GetMessageById is not allowed on partitioned-topic",
                              std::move(work));
}

// The n-th entry from the start or the end; the last or first if there are fewer.
Answer examine(Admin& admin, HttpRequest& request) {
  const std::string from(request.query_value("initialPosition").value_or("latest"));
  if (from != "latest" && from != "earliest") {
    co_return Status::PreconditionFailed(
        "initialPosition invalid, must be either 'earliest' or 'latest'");
  }
  const std::int64_t nth =
      std::max<std::int64_t>(1, request.query_number("messagePosition").value_or(1));
  const bool earliest = from == "earliest";
  const std::size_t limit = max_payload(admin);
  auto work = [earliest, nth, limit](std::shared_ptr<Topic> topic, ManagedLedger& log) -> Answer {
    const std::int64_t total = log.total_entries();
    if (total == 0) {
      co_return Status::PreconditionFailed(
          "Could not examine messages due to the total message is zero");
    }
    std::int64_t steps = std::min(nth, total) - 1;
    Position position = earliest ? log.normalize(log.first_position()) : log.last_confirmed();
    for (const LedgerSummary& ledger : log.ledgers()) {  // whole ledgers at once, from the front
      if (!earliest || steps < ledger.entries || ledger.id != position.ledger) break;
      steps -= ledger.entries;
      position = log.next({ledger.id, ledger.entries - 1});
    }
    for (; steps > 0; --steps) position = earliest ? log.next(position) : log.previous(position);
    co_return co_await read_message(topic, position, limit, "Message not found");
  };
  co_return co_await with_log(
      admin, request,
      "Examine messages on a partitioned topic is not allowed, please try examine message on "
      "specific "
      "topic partition",
      std::move(work));
}

Answer last_id(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  const std::int32_t partition = name->partition_index();
  auto work = [partition](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->managed_ledger() == nullptr) {
      co_return Status::NotAllowed("GetLastMessageId on a non-persistent topic is not allowed");
    }
    auto last = co_await topic->last_message_id();
    if (!last) co_return last.status();
    json::object out = message_id_json(last->position, partition);
    if (last->batch_index >= 0) {
      out["batchIndex"] = last->batch_index;
      out["outstandingAcksInSameBatch"] = 0;
      out["originalBatchSize"] = 0;
    }
    co_return json_answer(out);
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

Answer id_at_time(Admin& admin, HttpRequest& request) {
  const auto time = number_of(request, "timestamp");
  if (!time) co_return server_page(request, 404);
  auto name = topic_of(request);
  if (!name) co_return name.status();
  const std::int32_t partition = name->partition_index();
  auto work = [time, partition](std::shared_ptr<Topic>, ManagedLedger& log) -> Answer {
    const std::int64_t wanted = *time;
    auto found = co_await log.find_first([&wanted](const Entry& entry) {
      auto metadata = parse_entry_metadata(entry.data.span());
      return metadata && metadata->timestamp() >= wanted;
    });
    if (!found) co_return found.status();
    co_return json_answer(message_id_json(*found, partition));
  };
  co_return co_await with_log(
      admin, request,
      "Get message ID by timestamp on a partitioned topic is not allowed, please try do it on "
      "specific "
      "topic partition",
      std::move(work));
}

// An estimate by the mean size of an entry.
Answer backlog_size(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto id = read_message_id(body.value);
  if (!id) co_return refusal_of(id.status());
  const Position from = id->position;
  auto work = [from](std::shared_ptr<Topic>, ManagedLedger& log) -> Answer {
    const std::int64_t total = log.total_entries();
    if (total == 0 || from == Position::latest()) co_return json_text("0");
    // What comes after the given message.
    const Position before = from == Position::earliest() ? Position{-1, -1} : from;
    const std::int64_t entries = log.entries_between(before, log.last_confirmed());
    const double mean = static_cast<double>(log.total_bytes()) / static_cast<double>(total);
    co_return json_text(
        std::to_string(static_cast<std::int64_t>(mean * static_cast<double>(entries))));
  };
  co_return co_await with_log(admin, request, std::string(), std::move(work));
}

Answer scan_backlog(std::shared_ptr<Topic> topic, ManagedLedger& log, std::string name,
                    std::optional<Position> start) {
  auto subscription = topic->subscription(name);
  if (!subscription) {
    co_return Status::SubscriptionNotFound(
        fmt::format("Subscription {} not found for topic {}", name, topic->name().full()));
  }
  Position position = start ? log.normalize(*start) : subscription->cursor()->first_unacked();
  position = subscription->cursor()->next_unacked(position);
  std::int64_t entries = 0;
  std::int64_t messages = 0;
  Position first;
  Position last;
  while (entries < kMaxScan && position <= log.last_confirmed()) {
    auto read = co_await log.read(position, 100, 1 << 20);
    if (!read) co_return read.status();
    if (read->empty()) break;
    for (const Entry& entry : *read) {
      if (subscription->cursor()->is_acked(entry.position)) continue;
      if (entries == 0) first = entry.position;
      last = entry.position;
      ++entries;
      messages += entry.messages;
    }
    position = log.next(read->back().position);
  }
  json::object out;
  out["entries"] = entries;
  out["messages"] = messages;
  out["filterRejectedEntries"] = 0;
  out["filterAcceptedEntries"] = entries;
  out["filterRescheduledEntries"] = 0;
  out["filterRejectedMessages"] = 0;
  out["filterAcceptedMessages"] = messages;
  out["filterRescheduledMessages"] = 0;
  out["aborted"] = position <= log.last_confirmed() && entries >= kMaxScan;
  if (entries > 0) {
    out["firstMessageId"] = first.to_string();
    out["lastMessageId"] = last.to_string();
  }
  co_return json_answer(out);
}

Answer analyze(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  std::optional<Position> start;
  if (!body.value.is_null()) {
    auto id = read_message_id(body.value);
    if (!id) co_return refusal_of(id.status());
    start = id->position;
  }
  const std::string name = request.param("subscription");
  auto work = [name, start](std::shared_ptr<Topic> topic, ManagedLedger& log) -> Answer {
    co_return co_await scan_backlog(topic, log, name, start);
  };
  co_return co_await with_log(
      admin, request, "Analyze backlog on a partitioned topic is not allowed", std::move(work));
}

#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TOPIC "/subscription/{subscription}/position/{position}",
     "The n-th message that a subscription has not acknowledged", peek},
    {HttpMethod::Get, GM_TOPIC "/ledger/{ledger}/entry/{entry}", "A message by its id", by_id},
    {HttpMethod::Get, GM_TOPIC "/examinemessage", "The n-th message from the start or the end",
     examine},
    {HttpMethod::Get, GM_TOPIC "/lastMessageId", "Id of the last message", last_id},
    {HttpMethod::Get, GM_TOPIC "/messageid/{timestamp}",
     "Id of the first message at or after a time", id_at_time},
    {HttpMethod::Put, GM_TOPIC "/backlogSize", "Bytes from a message to the end", backlog_size},
    {HttpMethod::Post, GM_TOPIC "/subscription/{subscription}/analyzeBacklog",
     "Count a subscription's backlog", analyze},
};

}  // namespace

void add_message_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
