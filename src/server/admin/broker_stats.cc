// Statistics of all topics, by namespace and bundle.
#include "server/admin/broker_stats.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <tuple>

#include "server/admin/bundles.h"
#include "server/admin/documents.h"
#include "server/json_text.h"

namespace geminga {

namespace json = boost::json;

namespace {

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
  out["msgRateExpired"] = stats.msg_rate_expired;
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
  if (!persistent) out["msgDropRate"] = stats.msg_drop_rate;
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

// {namespace: {bundle: {domain: {topic: {...}}}}}, so many topics a piece. One that goes meanwhile
// is left out.
class TopicsStream final : public BodyStream {
 public:
  struct Place {
    std::string ns, bundle, domain;
    TopicName name;
  };
  TopicsStream(Broker& broker, std::vector<Place> places)
      : broker_(broker), places_(std::move(places)) {}

  Task<bool> next(std::string& piece) override {
    constexpr std::size_t kPerPiece = 64;
    const std::size_t end = std::min(at_ + kPerPiece, places_.size());
    if (at_ == 0) piece += '{';
    for (; at_ < end; ++at_) {
      const Place& place = places_[at_];
      const auto stats = co_await stats_of(place.name);
      if (stats) add(piece, place, *stats);
    }
    if (at_ < places_.size()) co_return true;
    piece += last_ == nullptr ? "}" : "}}}}";
    co_return false;
  }

 private:
  Task<std::optional<TopicStats>> stats_of(TopicName name) {
    Broker& broker = broker_;
    auto there = [&broker, name]() -> Task<std::optional<TopicStats>> {
      const auto topic = broker.loaded_topic(name);
      co_return topic ? std::optional<TopicStats>(topic->stats()) : std::nullopt;
    };
    co_return co_await on_shard(broker.shard_of(name), std::move(there));
  }

  // Closes what the last topic had open and this one is not in, and opens what is new.
  void add(std::string& piece, const Place& place, const TopicStats& stats) {
    int same = 0;  // levels
    if (last_ != nullptr && last_->ns == place.ns) {
      same = last_->bundle != place.bundle ? 1 : last_->domain != place.domain ? 2 : 3;
    }
    if (last_ != nullptr) piece.append(static_cast<std::size_t>(3 - same), '}').append(",");
    const std::string* const levels[] = {&place.ns, &place.bundle, &place.domain};
    for (int level = same; level < 3; ++level) {
      append_json_string(piece, *levels[level]);
      piece += ":{";
    }
    append_json_string(piece, place.name.full());
    piece += ':';
    append_json(piece, topic_json(stats, place.name.persistent()));
    last_ = &place;
  }

  Broker& broker_;
  const std::vector<Place> places_;  // sorted
  std::size_t at_ = 0;
  const Place* last_ = nullptr;  // that is in the answer
};

Answer topics(Admin& admin, HttpRequest&) {
  std::vector<TopicName> names = co_await admin.broker.loaded_topics();
  auto bundles = co_await Bundles::of(admin, names);
  if (!bundles) co_return bundles.status();
  std::vector<TopicsStream::Place> places;
  places.reserve(names.size());
  for (TopicName& name : names) {
    std::string bundle = bundles->bundle(name);
    places.push_back({std::string(name.ns()), std::move(bundle),
                      std::string(to_string(name.domain())), std::move(name)});
  }
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return std::tie(a.ns, a.bundle, a.domain, a.name.full()) <
           std::tie(b.ns, b.bundle, b.domain, b.name.full());
  });
  HttpResponse response;
  response.status = 200;
  response.content_type = "application/json";
  response.stream = std::make_unique<TopicsStream>(admin.broker, std::move(places));
  co_return response;
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/v2/broker-stats/topics", "Statistics of all topics that are loaded",
     topics},
};

}  // namespace

Task<Result<Bundles>> Bundles::of(Admin& admin, const std::vector<TopicName>& topics) {
  Bundles bundles;
  for (const TopicName& topic : topics) {
    if (bundles.policies_.contains(topic.ns())) continue;
    auto read = co_await read_document(admin.metadata(), policies_path(topic.namespace_name()));
    if (!read) co_return read.status();
    bundles.policies_[std::string(topic.ns())] =
        read->has_value() ? std::move(**read) : json::object();
  }
  co_return std::move(bundles);
}

std::string Bundles::bundle(const TopicName& topic) const {
  static const json::object kNone;
  const auto at = policies_.find(topic.ns());
  return bundle_of(at == policies_.end() ? kNone : at->second, topic.bundle_hash());
}

void add_broker_stats_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
