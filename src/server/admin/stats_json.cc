#include "server/admin/stats_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <ctime>

namespace geminga {

namespace json = boost::json;

namespace {

constexpr const char* kAccessModes[] = {"Shared", "Exclusive", "WaitForExclusive",
                                        "ExclusiveWithFencing"};

// Where a document stands: the sums of partitioned topics leave out what has no sum.
enum class Form { Single, Sum };

json::object text_map(const std::map<std::string, std::string>& from) {
  json::object out;
  for (const auto& [key, value] : from) out[key] = value;
  return out;
}

void add_draining(json::object& out, std::int64_t hashes, std::int64_t cleared,
                  std::int64_t unacked) {
  out["drainingHashesCount"] = hashes;
  out["drainingHashesClearedTotal"] = cleared;
  out["drainingHashesUnackedMessages"] = unacked;
}

std::int64_t unacked_in(const std::vector<DrainingHash>& hashes) {
  std::int64_t unacked = 0;
  for (const DrainingHash& hash : hashes) unacked += hash.unacked;
  return unacked;
}

json::object publisher_json(const ProducerStats& stats, Form form, bool by_name, bool persistent) {
  json::object out;
  if (form == Form::Single)
    out["accessMode"] = kAccessModes[static_cast<std::size_t>(stats.access_mode)];
  out["msgRateIn"] = stats.msg_rate_in;
  out["msgThroughputIn"] = stats.msg_throughput_in;
  out["averageMsgSize"] = stats.average_msg_size;
  out["chunkedMessageRate"] = stats.chunked_message_rate;
  out["producerId"] = form == Form::Single ? static_cast<std::int64_t>(stats.producer_id) : 0;
  out["supportsPartialProducer"] = by_name;
  if (form == Form::Single || by_name) out["producerName"] = stats.name;
  if (form == Form::Single) {
    out["address"] = stats.address;
    out["connectedSince"] = stats.connected_since;
    if (!stats.client_version.empty()) out["clientVersion"] = stats.client_version;
    out["metadata"] = text_map(stats.metadata);
  }
  if (!persistent) out["msgDropRate"] = 0.0;
  return out;
}

// "[0, 16383]" or "0-16383".
json::array range_json(const std::string& text) {
  json::array range;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at != end && range.size() < 2;) {
    std::int64_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error == std::errc()) {
      // The dash of "0-16383" is no sign.
      range.push_back(number < 0 ? -number : number);
      at = after;
    } else {
      ++at;
    }
  }
  return range;
}

json::object consumer_json(const ConsumerStats& stats, bool key_shared, bool auto_split,
                           Form form) {
  json::object out;
  out["msgRateOut"] = stats.msg_rate_out;
  out["msgThroughputOut"] = stats.msg_throughput_out;
  out["bytesOutCounter"] = stats.bytes_out;
  out["msgOutCounter"] = stats.msg_out;
  out["msgRateRedeliver"] = stats.msg_rate_redeliver;
  out["messageAckRate"] = stats.message_ack_rate;
  out["chunkedMessageRate"] = 0.0;
  out["consumerName"] = stats.consumer_name;
  out["availablePermits"] = stats.available_permits;
  out["unackedMessages"] = stats.unacked_messages;
  out["avgMessagesPerEntry"] = static_cast<std::int64_t>(stats.avg_messages_per_entry);
  out["blockedConsumerOnUnackedMsgs"] = stats.blocked_on_unacked;
  add_draining(out, static_cast<std::int64_t>(stats.draining_hashes.size()), 0,
               unacked_in(stats.draining_hashes));
  if (form == Form::Single) {
    if (key_shared && auto_split) {
      json::array draining;
      for (const DrainingHash& hash : stats.draining_hashes) {
        draining.push_back(
            {{"hash", hash.hash}, {"unackMsgs", hash.unacked}, {"blockedAttempts", hash.blocked}});
      }
      out["drainingHashes"] = std::move(draining);
    }
    out["address"] = stats.address;
    out["connectedSince"] = stats.connected_since;
    if (!stats.client_version.empty()) out["clientVersion"] = stats.client_version;
  }
  out["lastAckedTimestamp"] = stats.last_acked_ms;
  out["lastConsumedTimestamp"] = stats.last_consumed_ms;
  out["lastConsumedFlowTimestamp"] = stats.last_consumed_flow_ms;
  if (form == Form::Single) {
    if (key_shared) {
      json::array ranges;
      for (const std::string& range : stats.key_hash_ranges) ranges.push_back(range_json(range));
      out["keyHashRangeArrays"] = std::move(ranges);
    }
    out["metadata"] = text_map(stats.metadata);
  }
  out["lastAckedTime"] = iso_time(stats.last_acked_ms);
  out["lastConsumedTime"] = iso_time(stats.last_consumed_ms);
  return out;
}

json::object subscription_json(const SubscriptionStats& stats, const TopicContext& context,
                               const StatsQuery& query, Form form) {
  json::object out;
  out["msgRateOut"] = stats.msg_rate_out;
  out["msgThroughputOut"] = stats.msg_throughput_out;
  out["bytesOutCounter"] = stats.bytes_out;
  out["msgOutCounter"] = stats.msg_out;
  out["msgRateRedeliver"] = stats.msg_rate_redeliver;
  out["messageAckRate"] = stats.message_ack_rate;
  out["chunkedMessageRate"] = 0.0;
  out["msgBacklog"] = stats.msg_backlog;
  out["backlogSize"] =
      !context.persistent || query.subscription_backlog_size ? stats.backlog_size : -1;
  const auto earliest = context.earliest_in_backlog.find(stats.name);
  out["earliestMsgPublishTimeInBacklog"] =
      earliest == context.earliest_in_backlog.end() ? 0 : earliest->second;
  out["msgBacklogNoDelayed"] = stats.msg_backlog - stats.msg_delayed;
  out["blockedSubscriptionOnUnackedMsgs"] = stats.blocked_on_unacked;
  out["msgDelayed"] = stats.msg_delayed;
  out["msgInReplay"] = stats.msg_in_replay;
  const bool shares =
      stats.type == SubscriptionType::Shared || stats.type == SubscriptionType::KeyShared;
  const bool key_shared = stats.type == SubscriptionType::KeyShared;
  out["unackedMessages"] = shares ? stats.unacked_messages : 0;
  out["type"] = stats.type ? json::string(to_string(*stats.type)) : json::string("None");
  // The one consumer of an Exclusive subscription is active.
  std::string active = stats.active_consumer_name;
  if (active.empty() && stats.type == SubscriptionType::Exclusive && !stats.consumers.empty()) {
    active = stats.consumers.front().consumer_name;
  }
  if (!active.empty() && context.persistent && form == Form::Single)
    out["activeConsumerName"] = active;
  out["msgRateExpired"] = stats.msg_rate_expired;
  out["totalMsgExpired"] = stats.msg_expired;
  out["lastExpireTimestamp"] = stats.last_expire_ms;
  out["lastConsumedFlowTimestamp"] = stats.last_consumed_flow_ms;
  out["lastConsumedTimestamp"] = stats.last_consumed_ms;
  out["lastAckedTimestamp"] = stats.last_acked_ms;
  out["lastMarkDeleteAdvancedTimestamp"] = stats.last_mark_delete_ms;
  json::array consumers;
  if (!query.exclude_consumers) {
    for (const ConsumerStats& consumer : stats.consumers) {
      consumers.push_back(
          consumer_json(consumer, key_shared, stats.key_shared_mode == "AUTO_SPLIT", form));
    }
  }
  out["consumers"] = std::move(consumers);
  out["isDurable"] = stats.durable;
  out["isReplicated"] = stats.replicated;
  out["allowOutOfOrderDelivery"] = stats.allow_out_of_order;
  if (key_shared && !stats.key_shared_mode.empty()) out["keySharedMode"] = stats.key_shared_mode;
  out["consumersAfterMarkDeletePosition"] = json::object();
  add_draining(out, stats.draining_hashes, stats.draining_hashes_cleared,
               stats.draining_hashes_unacked);
  out["nonContiguousDeletedMessagesRanges"] = stats.non_contiguous_ranges;
  out["nonContiguousDeletedMessagesRangesSerializedSize"] = 0;
  out["delayedMessageIndexSizeInBytes"] = stats.delayed_index_bytes;
  out["subscriptionProperties"] = text_map(stats.properties);
  for (const char* counter :
       {"filterProcessedMsgCount", "filterAcceptedMsgCount", "filterRejectedMsgCount",
        "filterRescheduledMsgCount", "dispatchThrottledMsgEventsBySubscriptionLimit",
        "dispatchThrottledBytesEventsBySubscriptionLimit", "dispatchThrottledMsgEventsByTopicLimit",
        "dispatchThrottledBytesEventsByTopicLimit", "dispatchThrottledMsgEventsByBrokerLimit",
        "dispatchThrottledBytesEventsByBrokerLimit"}) {
    out[counter] = 0;
  }
  if (!context.persistent) out["msgDropRate"] = stats.msg_drop_rate;
  out["durable"] = stats.durable;
  out["replicated"] = stats.replicated;
  return out;
}

json::object document(const TopicStats& stats, const TopicContext& context, const StatsQuery& query,
                      Form form, bool publishers_by_name) {
  json::object out;
  double rate_out = 0;
  double throughput_out = 0;
  double drop_rate = 0;
  std::int64_t msg_out = 0;
  std::int64_t bytes_out = 0;
  std::int64_t ranges = 0;
  std::int64_t earliest = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) {
    rate_out += sub.msg_rate_out;
    throughput_out += sub.msg_throughput_out;
    drop_rate += sub.msg_drop_rate;
    msg_out += sub.msg_out;
    bytes_out += sub.bytes_out;
    ranges += sub.non_contiguous_ranges;
  }
  for (const auto& [name, time] : context.earliest_in_backlog) {
    if (time > 0) earliest = earliest == 0 ? time : std::min(earliest, time);
  }
  out["msgRateIn"] = stats.msg_rate_in;
  out["msgThroughputIn"] = stats.msg_throughput_in;
  out["msgRateOut"] = rate_out;
  out["msgThroughputOut"] = throughput_out;
  out["bytesInCounter"] = stats.bytes_in_counter;
  out["msgInCounter"] = stats.msg_in_counter;
  out["systemTopicBytesInCounter"] = context.system ? stats.bytes_in_counter : 0;
  out["bytesOutCounter"] = bytes_out;
  out["msgOutCounter"] = msg_out;
  out["bytesOutInternalCounter"] = 0;
  out["averageMsgSize"] = stats.average_msg_size;
  out["msgChunkPublished"] = false;
  out["storageSize"] = stats.storage_size;
  out["backlogSize"] = stats.backlog_size;
  out["backlogQuotaLimitSize"] = context.persistent ? context.backlog_quota_size : 0;
  out["backlogQuotaLimitTime"] = context.persistent ? context.backlog_quota_time : 0;
  out["oldestBacklogMessageAgeSeconds"] =
      context.persistent && form == Form::Single ? stats.oldest_backlog_seconds : 0;
  out["publishRateLimitedTimes"] = stats.publish_rate_limited;
  out["earliestMsgPublishTimeInBacklogs"] = earliest;
  for (const char* counter : {"offloadedStorageSize", "lastOffloadLedgerId",
                              "lastOffloadSuccessTimeStamp", "lastOffloadFailureTimeStamp"}) {
    out[counter] = 0;
  }
  out["ongoingTxnCount"] = stats.ongoing_txns;
  out["abortedTxnCount"] = stats.aborted_txns;
  out["committedTxnCount"] = stats.committed_txns;
  json::array publishers;
  if (!query.exclude_publishers) {
    for (const ProducerStats& producer : stats.publishers) {
      publishers.push_back(publisher_json(producer, form, publishers_by_name, context.persistent));
    }
  }
  json::object subscriptions;
  for (const SubscriptionStats& sub : stats.subscriptions) {
    subscriptions[sub.name] = subscription_json(sub, context, query, form);
  }
  if (context.persistent) out["publishers"] = std::move(publishers);
  out["waitingPublishers"] = 0;
  if (context.persistent) {
    out["subscriptions"] = std::move(subscriptions);
    out["replication"] = json::object();
    if (form == Form::Single) {
      out["deduplicationStatus"] = stats.dedup_status;
      if (stats.topic_epoch) out["topicEpoch"] = static_cast<std::int64_t>(*stats.topic_epoch);
    }
  }
  out["nonContiguousDeletedMessagesRanges"] = ranges;
  out["nonContiguousDeletedMessagesRangesSerializedSize"] = 0;
  out["delayedMessageIndexSizeInBytes"] = stats.delayed_index_bytes;
  json::object compaction;
  compaction["lastCompactionRemovedEventCount"] = stats.compaction.last_removed_messages;
  compaction["lastCompactionSucceedTimestamp"] = stats.compaction.last_succeeded_ms;
  compaction["lastCompactionFailedTimestamp"] = stats.compaction.last_failed_ms;
  compaction["lastCompactionDurationTimeInMills"] = stats.compaction.last_duration_ms;
  out["compaction"] = std::move(compaction);
  if (form == Form::Single) out["ownerBroker"] = context.owner;
  if (!context.persistent) {
    out["msgDropRate"] = drop_rate;
    out["publishers"] = std::move(publishers);
    out["subscriptions"] = std::move(subscriptions);
    out["replication"] = json::object();
  }
  return out;
}

void add(ProducerStats& to, const ProducerStats& from) {
  to.msg_rate_in += from.msg_rate_in;
  to.msg_throughput_in += from.msg_throughput_in;
  to.average_msg_size = (to.average_msg_size + from.average_msg_size) / 2;
  to.chunked_message_rate += from.chunked_message_rate;
}

void add(ConsumerStats& to, const ConsumerStats& from) {
  if (to.consumer_name.empty()) to.consumer_name = from.consumer_name;
  to.msg_rate_out += from.msg_rate_out;
  to.msg_throughput_out += from.msg_throughput_out;
  to.msg_rate_redeliver += from.msg_rate_redeliver;
  to.message_ack_rate += from.message_ack_rate;
  to.bytes_out += from.bytes_out;
  to.msg_out += from.msg_out;
  to.available_permits += from.available_permits;
  to.unacked_messages += from.unacked_messages;
  to.blocked_on_unacked |= from.blocked_on_unacked;
}

void add(SubscriptionStats& to, const SubscriptionStats& from) {
  if (!to.type) to.type = from.type;
  if (to.key_shared_mode.empty()) to.key_shared_mode = from.key_shared_mode;
  to.durable &= from.durable;
  to.replicated |= from.replicated;
  to.blocked_on_unacked |= from.blocked_on_unacked;
  to.allow_out_of_order |= from.allow_out_of_order;
  to.msg_rate_out += from.msg_rate_out;
  to.msg_throughput_out += from.msg_throughput_out;
  to.msg_rate_redeliver += from.msg_rate_redeliver;
  to.message_ack_rate += from.message_ack_rate;
  to.bytes_out += from.bytes_out;
  to.msg_out += from.msg_out;
  to.msg_backlog += from.msg_backlog;
  to.messages_backlog += from.messages_backlog;
  to.backlog_size += from.backlog_size;
  to.unacked_messages += from.unacked_messages;
  to.msg_delayed += from.msg_delayed;
  to.msg_in_replay += from.msg_in_replay;
  to.draining_hashes += from.draining_hashes;
  to.draining_hashes_cleared += from.draining_hashes_cleared;
  to.draining_hashes_unacked += from.draining_hashes_unacked;
  to.non_contiguous_ranges += from.non_contiguous_ranges;
  to.msg_drop += from.msg_drop;
  to.msg_drop_rate += from.msg_drop_rate;
  to.msg_expired += from.msg_expired;
  to.msg_rate_expired += from.msg_rate_expired;
  to.delayed_index_bytes += from.delayed_index_bytes;
  for (const auto& [key, value] : from.properties) to.properties.emplace(key, value);
  for (std::size_t i = 0; i < from.consumers.size(); ++i) {
    if (i == to.consumers.size()) to.consumers.emplace_back();
    add(to.consumers[i], from.consumers[i]);
  }
}

}  // namespace

json::object topic_stats_json(const TopicStats& stats, const TopicContext& context,
                              const StatsQuery& query) {
  return document(stats, context, query, Form::Single, false);
}

TopicStats sum_of_partitions(const std::vector<TopicStats>& partitions) {
  TopicStats sum;
  std::size_t with_messages = 0;
  for (const TopicStats& part : partitions) {
    sum.msg_rate_in += part.msg_rate_in;
    sum.msg_throughput_in += part.msg_throughput_in;
    sum.average_msg_size += part.average_msg_size;
    with_messages += part.average_msg_size > 0 ? 1 : 0;
    sum.msg_in_counter += part.msg_in_counter;
    sum.bytes_in_counter += part.bytes_in_counter;
    sum.storage_size += part.storage_size;
    sum.delayed_index_bytes += part.delayed_index_bytes;
    sum.backlog_size += part.backlog_size;
    sum.publish_rate_limited += part.publish_rate_limited;
    for (std::size_t i = 0; i < part.publishers.size(); ++i) {
      if (i == sum.publishers.size()) {
        sum.publishers.push_back(part.publishers[i]);
      } else {
        add(sum.publishers[i], part.publishers[i]);
      }
    }
    for (const SubscriptionStats& sub : part.subscriptions) {
      auto found = std::find_if(sum.subscriptions.begin(), sum.subscriptions.end(),
                                [&](const SubscriptionStats& s) { return s.name == sub.name; });
      if (found == sum.subscriptions.end()) {
        sum.subscriptions.emplace_back().name = sub.name;
        found = sum.subscriptions.end() - 1;
      }
      add(*found, sub);
    }
  }
  if (with_messages != 0) sum.average_msg_size /= static_cast<double>(with_messages);
  return sum;
}

json::object partitioned_stats_json(const std::vector<TopicStats>& partitions,
                                    const TopicContext& context, const StatsQuery& query) {
  return document(sum_of_partitions(partitions), context, query, Form::Sum, false);
}

}  // namespace geminga
