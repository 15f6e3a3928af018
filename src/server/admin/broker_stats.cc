// Statistics of all topics, by namespace and bundle.
#include "server/admin/broker_stats.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <map>

#include "server/admin/bundles.h"
#include "server/admin/documents.h"
#include "server/json_text.h"

namespace geminga {

namespace json = boost::json;

namespace {

double sum(const TopicStats& stats, double SubscriptionNumbers::*field) {
  double total = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) total += sub.*field;
  return total;
}
std::int64_t sum(const TopicStats& stats, std::int64_t SubscriptionNumbers::*field) {
  std::int64_t total = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) total += sub.*field;
  return total;
}
json::object texts(const std::map<std::string, std::string>& from) {
  json::object out;
  for (const auto& [key, value] : from) out[key] = value;
  return out;
}

json::object publisher_json(const ProducerStats& stats) {
  json::object out;
  out["msgRateIn"] = stats.msg_rate_in;
  out["msgThroughputIn"] = stats.msg_throughput_in;
  out["averageMsgSize"] = stats.average_msg_size;
  out["address"] = stats.address;
  out["producerId"] = static_cast<std::int64_t>(stats.producer_id);
  out["producerName"] = stats.name;
  out["connectedSince"] = stats.connected_since;
  if (!stats.client_version.empty()) out["clientVersion"] = stats.client_version;
  out["metadata"] = texts(stats.metadata);
  return out;
}

json::object consumer_json(const ConsumerStats& stats, bool shared) {
  json::object out;
  out["address"] = stats.address;
  out["consumerName"] = stats.consumer_name;
  out["availablePermits"] = stats.available_permits;
  out["connectedSince"] = stats.connected_since;
  out["msgRateOut"] = stats.msg_rate_out;
  out["msgThroughputOut"] = stats.msg_throughput_out;
  out["msgRateRedeliver"] = stats.msg_rate_redeliver;
  out["avgMessagesPerEntry"] = static_cast<std::int64_t>(stats.avg_messages_per_entry);
  out["messageAckRate"] = stats.message_ack_rate;
  if (shared) {
    out["unackedMessages"] = stats.unacked_messages;
    out["blockedConsumerOnUnackedMsgs"] = stats.blocked_on_unacked;
  }
  if (!stats.client_version.empty()) out["clientVersion"] = stats.client_version;
  out["metadata"] = texts(stats.metadata);
  return out;
}

json::object subscription_json(const SubscriptionStats& stats, bool persistent) {
  const bool shared =
      stats.type == SubscriptionType::Shared || stats.type == SubscriptionType::KeyShared;
  json::object out;
  json::array list;
  for (const ConsumerStats& consumer : stats.consumers)
    list.push_back(consumer_json(consumer, shared));
  out["consumers"] = std::move(list);
  out["msgBacklog"] = stats.msg_backlog;
  out["msgRateExpired"] = 0.0;
  out["msgRateOut"] = stats.msg_rate_out;
  out["messageAckRate"] = stats.message_ack_rate;
  out["msgThroughputOut"] = stats.msg_throughput_out;
  out["msgRateRedeliver"] = stats.msg_rate_redeliver;
  if (persistent) {
    out["numberOfEntriesSinceFirstNotAckedMessage"] = stats.msg_backlog;
    out["totalNonContiguousDeletedMessagesRange"] = stats.non_contiguous_ranges;
  }
  out["type"] = stats.type ? to_string(*stats.type) : std::string_view("None");
  if (persistent && shared) {
    out["blockedSubscriptionOnUnackedMsgs"] = stats.blocked_on_unacked;
    out["unackedMessages"] = stats.unacked_messages;
  }
  if (!persistent) out["msgDropRate"] = 0.0;
  return out;
}

json::object topic_json(const TopicStats& stats, bool persistent) {
  json::object out;
  json::array publishers;
  for (const ProducerStats& producer : stats.publishers)
    publishers.push_back(publisher_json(producer));
  out["publishers"] = std::move(publishers);
  out["replication"] = json::object();
  json::object subscriptions;
  for (const SubscriptionStats& sub : stats.subscriptions)
    subscriptions[sub.name] = subscription_json(sub, persistent);
  out["subscriptions"] = std::move(subscriptions);
  out["producerCount"] = static_cast<std::int64_t>(stats.publishers.size());
  out["averageMsgSize"] = stats.average_msg_size;
  out["msgRateIn"] = stats.msg_rate_in;
  out["msgRateOut"] = sum(stats, &SubscriptionStats::msg_rate_out);
  out["msgInCount"] = stats.msg_in_counter;
  out["bytesInCount"] = stats.bytes_in_counter;
  out["msgOutCount"] = sum(stats, &SubscriptionStats::msg_out);
  out["bytesOutCount"] = sum(stats, &SubscriptionStats::bytes_out);
  out["msgThroughputIn"] = stats.msg_throughput_in;
  out["msgThroughputOut"] = sum(stats, &SubscriptionStats::msg_throughput_out);
  if (persistent) {
    out["storageSize"] = stats.storage_size;
    out["backlogSize"] = stats.backlog_size;
    out["pendingAddEntriesCount"] = 0;
    out["filteredEntriesCount"] = 0;
  }
  return out;
}

// {namespace: {bundle: {domain: {topic: {...}}}}}, a namespace a piece.
class TopicsStream final : public BodyStream {
 public:
  TopicsStream(std::vector<TopicSnapshot> topics, TopicsByBundle placed)
      : topics_(std::move(topics)), placed_(std::move(placed)), at_(placed_.begin()) {}

  Task<bool> next(std::string& piece) override {
    piece = at_ == placed_.begin() ? "{" : ",";
    if (at_ == placed_.end()) {
      piece = placed_.empty() ? "{}" : "";
      co_return false;
    }
    append_json_string(piece, at_->first);
    piece += ':';
    append_json(piece, bundles(at_->second));
    if (++at_ == placed_.end()) piece += '}';
    co_return at_ != placed_.end();
  }

 private:
  static json::object bundles(const std::map<std::string, std::vector<PlacedTopic>>& of) {
    json::object out;
    for (const auto& [range, topics] : of) {
      json::object domains;
      for (const PlacedTopic& topic : topics) {
        json::value& domain = domains[to_string(topic.name.domain())];
        if (!domain.is_object()) domain = json::object();
        domain.get_object()[topic.snapshot->name] =
            topic_json(topic.snapshot->stats, topic.name.persistent());
      }
      out[range] = std::move(domains);
    }
    return out;
  }

  const std::vector<TopicSnapshot> topics_;
  const TopicsByBundle placed_;
  TopicsByBundle::const_iterator at_;
};

Answer topics(Admin& admin, HttpRequest&) {
  std::vector<TopicSnapshot> snapshots = co_await topic_snapshots(admin.broker);
  auto placed = co_await by_bundle(admin, snapshots);
  if (!placed) co_return placed.status();
  HttpResponse response;
  response.status = 200;
  response.content_type = "application/json";
  response.stream = std::make_unique<TopicsStream>(std::move(snapshots), std::move(*placed));
  co_return response;
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/v2/broker-stats/topics", "Statistics of all topics that are loaded",
     topics},
};

}  // namespace

Task<Result<TopicsByBundle>> by_bundle(Admin& admin, const std::vector<TopicSnapshot>& topics) {
  TopicsByBundle placed;
  std::map<std::string, json::object> policies;
  for (const TopicSnapshot& topic : topics) {
    auto name = TopicName::parse(topic.name);
    if (!name) continue;
    const std::string ns(name->ns());
    if (!policies.contains(ns)) {
      auto read = co_await read_document(admin.metadata(), policies_path(name->namespace_name()));
      if (!read) co_return read.status();
      policies[ns] = read->has_value() ? std::move(**read) : json::object();
    }
    const std::string bundle = bundle_of(policies[ns], name->bundle_hash());
    placed[ns][bundle].push_back({&topic, std::move(*name)});
  }
  co_return placed;
}

void add_broker_stats_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

Task<std::vector<TopicSnapshot>> topic_snapshots(Broker& broker) {
  std::vector<TopicSnapshot> found;
  // One shard after the other, each on its own thread while this waits.
  std::function<void(const Topic&)> visit = [&found](const Topic& topic) {
    found.push_back({topic.name().full(), topic.stats()});
  };
  co_await broker.visit_topics(std::move(visit));
  co_return found;
}

}  // namespace geminga
