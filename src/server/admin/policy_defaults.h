// What holds for a topic where neither it nor its namespace has a policy: the broker's settings, in
// the form of the policy's value. Any shard.
#pragma once

#include <boost/json/value.hpp>

#include "server/admin/admin.h"

namespace geminga {

using BrokerDefault = boost::json::value (*)(const Admin&);

boost::json::value no_rate(const Admin& admin);
boost::json::value default_dispatch_rate(const Admin& admin);
boost::json::value default_subscription_rate(const Admin& admin);
boost::json::value nothing(const Admin& admin);
boost::json::value default_retention(const Admin& admin);
boost::json::value default_compaction_threshold(const Admin& admin);
boost::json::value default_ttl(const Admin& admin);
boost::json::value default_max_producers(const Admin& admin);
boost::json::value default_max_consumers(const Admin& admin);
boost::json::value default_unacked_consumer(const Admin& admin);
boost::json::value default_unacked_subscription(const Admin& admin);
boost::json::value default_subscribe_rate(const Admin& admin);
boost::json::value default_delayed(const Admin& admin);
boost::json::value default_inactive(const Admin& admin);
boost::json::value default_persistence(const Admin& admin);
boost::json::value default_deduplication(const Admin& admin);
boost::json::value default_schema_strategy(const Admin& admin);
boost::json::value default_schema_validation(const Admin& admin);
boost::json::value default_filters(const Admin& admin);
boost::json::value default_auto_subscription(const Admin& admin);
boost::json::value default_clusters(const Admin& admin);

}  // namespace geminga
