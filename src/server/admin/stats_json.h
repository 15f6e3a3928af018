// Statistics as the admin API shows them: field names, order and the values of an idle oracle
// (reference: stats-fields). Values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/iso_time.h"
#include "broker/topic.h"

namespace geminga {

struct StatsQuery {
  bool subscription_backlog_size = true;
  bool exclude_publishers = false;
  bool exclude_consumers = false;
};

// What the topic's document has beyond TopicStats.
struct TopicContext {
  bool persistent = true;
  bool system = false;
  std::string owner{};  // "localhost:8080"
  std::int64_t backlog_quota_size = -1;
  std::int64_t backlog_quota_time = -1;
  // Publish time of the first unacknowledged message by subscription, if it was asked for (-1: no
  // backlog).
  std::map<std::string, std::int64_t> earliest_in_backlog{};
};
boost::json::object topic_stats_json(const TopicStats& stats, const TopicContext& context,
                                     const StatsQuery& query);

// The sum of a partitioned topic: rates, counters and sizes added; publishers and consumers added
// by position (by name where all publishers support partial producers). `metadata` and `partitions`
// are the caller's to add.
TopicStats sum_of_partitions(const std::vector<TopicStats>& partitions);
boost::json::object partitioned_stats_json(const std::vector<TopicStats>& partitions,
                                           const TopicContext& context, const StatsQuery& query);

}  // namespace geminga
