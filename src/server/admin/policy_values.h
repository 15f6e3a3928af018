// The values that policies take, for namespaces and topics alike: how a request body becomes what
// is stored, with the checks and texts of the oracle. Values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

// Who asks, for texts.
struct PolicyTarget {
  std::string_view policy{};  // its name in the path, "maxProducersPerTopic"
  bool of_topic = false;
  std::string name_space{};
};

// Turns a body into the stored value (fields in Pulsar's order, defaults filled in, unknown fields
// dropped). Errors: Protocol = not of the wanted JSON type (shown as bare text), InvalidArgument
// 400, PreconditionFailed 412.
using PolicyReader = Result<boost::json::value> (*)(const boost::json::value& body,
                                                    const PolicyTarget& target);

Result<boost::json::value> read_boolean(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_text(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_text_list(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_number(const boost::json::value&,
                                       const PolicyTarget&);  // any integer
Result<boost::json::value> read_limit(const boost::json::value&, const PolicyTarget&);  // 0 or more
Result<boost::json::value> read_ttl(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_expiration(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_interval(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_retention(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_persistence(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_dispatch_rate(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_subscribe_rate(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_publish_rate(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_backlog_quota(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_auto_topic_creation(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_auto_subscription_creation(const boost::json::value&,
                                                           const PolicyTarget&);
Result<boost::json::value> read_inactive_topics(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_delayed_delivery(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_subscription_types(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_schema_strategy(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_schema_auto_update(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_entry_filters(const boost::json::value&, const PolicyTarget&);
Result<boost::json::value> read_offload(const boost::json::value&, const PolicyTarget&);

// Offload policies with nothing set, as Pulsar fills them in.
boost::json::object default_offload_policies();

// Does the retention leave room for the quota (PreconditionFailed if not)? Both as stored, null if
// unset.
Status check_quota_against_retention(const boost::json::value& quota,
                                     const boost::json::value& retention);

}  // namespace geminga
