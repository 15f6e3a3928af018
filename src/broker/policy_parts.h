// Parts of stored policies that namespaces and topics write in the same form (pulsar-metadata.md).
// What is missing or of a wrong type is left out. Any thread.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string_view>

#include "broker/namespaces.h"

namespace geminga {

std::optional<QuotaPolicy> quota_policy(std::string_view name);
// {"destination_storage": {"limitSize", "policy"}, "message_age": {"limitTime", "policy"}}
void take_backlog_quotas(const boost::json::value* map, NamespacePolicies& into);
// {"inactiveTopicDeleteMode", "maxInactiveDurationSeconds", "deleteWhileInactive"}
void take_inactive_topics(const boost::json::value* value, NamespacePolicies& into);

// {"dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte", "relativeToPublishRate",
// "ratePeriodInSecond"}
std::optional<Rate> dispatch_rate(const boost::json::value* value);
// {"publishThrottlingRateInMsg", "publishThrottlingRateInByte"}
std::optional<Rate> publish_rate(const boost::json::value* value);
// {"subscribeThrottlingRatePerConsumer", "ratePeriodInSecond"}
std::optional<NamespacePolicies::SubscribeRate> subscribe_rate(const boost::json::value* value);
// {"managedLedgerMaxMarkDeleteRate"}
std::optional<double> mark_delete_rate(const boost::json::value* value);

}  // namespace geminga
