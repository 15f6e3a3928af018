#include "broker/policy_parts.h"

#include <algorithm>
#include <boost/json/object.hpp>

namespace geminga {

namespace json = boost::json;

namespace {

const json::object* object_at(const json::value* value) {
  return value != nullptr ? value->if_object() : nullptr;
}

std::optional<std::int64_t> number_at(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  boost::system::error_code error;
  const auto number = value->to_number<std::int64_t>(error);
  if (error) return std::nullopt;
  return number;
}

std::string_view text_at(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return value->get_string();
}

void take_quota(const json::object& map, std::string_view type, std::string_view limit,
                std::optional<BacklogQuota>& into) {
  const json::object* quota = object_at(map.if_contains(type));
  if (quota == nullptr) return;
  BacklogQuota read;
  read.limit = number_at(*quota, limit).value_or(-1);
  read.policy = quota_policy(text_at(*quota, "policy")).value_or(QuotaPolicy::Hold);
  into = read;
}

}  // namespace

std::optional<QuotaPolicy> quota_policy(std::string_view name) {
  if (name == "producer_request_hold") return QuotaPolicy::Hold;
  if (name == "producer_exception") return QuotaPolicy::Exception;
  if (name == "consumer_backlog_eviction") return QuotaPolicy::Evict;
  return std::nullopt;
}

void take_backlog_quotas(const json::value* map, NamespacePolicies& into) {
  const json::object* quotas = object_at(map);
  if (quotas == nullptr) return;
  take_quota(*quotas, "destination_storage", "limitSize", into.backlog_size);
  take_quota(*quotas, "message_age", "limitTime", into.backlog_age);
}

std::optional<Rate> dispatch_rate(const json::value* value) {
  const json::object* stored = object_at(value);
  if (stored == nullptr) return std::nullopt;
  Rate rate;
  // Rates are given for a period.
  rate.period_s = static_cast<double>(
      std::clamp<std::int64_t>(number_at(*stored, "ratePeriodInSecond").value_or(1), 1, 86'400));
  rate.messages =
      static_cast<double>(number_at(*stored, "dispatchThrottlingRateInMsg").value_or(0)) /
      rate.period_s;
  rate.bytes = static_cast<double>(number_at(*stored, "dispatchThrottlingRateInByte").value_or(0)) /
               rate.period_s;
  const json::value* relative = stored->if_contains("relativeToPublishRate");
  rate.relative_to_publish_rate =
      relative != nullptr && relative->is_bool() && relative->get_bool();
  return rate;
}

std::optional<Rate> publish_rate(const json::value* value) {
  const json::object* stored = object_at(value);
  if (stored == nullptr) return std::nullopt;
  Rate rate;
  rate.messages = static_cast<double>(number_at(*stored, "publishThrottlingRateInMsg").value_or(0));
  rate.bytes = static_cast<double>(number_at(*stored, "publishThrottlingRateInByte").value_or(0));
  return rate;
}

std::optional<NamespacePolicies::SubscribeRate> subscribe_rate(const json::value* value) {
  const json::object* stored = object_at(value);
  if (stored == nullptr) return std::nullopt;
  NamespacePolicies::SubscribeRate rate;
  rate.most = number_at(*stored, "subscribeThrottlingRatePerConsumer").value_or(0);
  rate.period_seconds =
      std::clamp<std::int64_t>(number_at(*stored, "ratePeriodInSecond").value_or(30), 1, 86'400);
  return rate;
}

std::optional<double> mark_delete_rate(const json::value* value) {
  const json::object* stored = object_at(value);
  const json::value* rate =
      stored != nullptr ? stored->if_contains("managedLedgerMaxMarkDeleteRate") : nullptr;
  if (rate == nullptr || !rate->is_number()) return std::nullopt;
  boost::system::error_code error;
  const double number = rate->to_number<double>(error);
  if (error || !(number >= 0)) return std::nullopt;
  return number;
}

void take_inactive_topics(const json::value* value, NamespacePolicies& into) {
  const json::object* stored = object_at(value);
  if (stored == nullptr) return;
  NamespacePolicies::InactiveTopics read;
  if (const json::value* remove = stored->if_contains("deleteWhileInactive");
      remove != nullptr && remove->is_bool()) {
    read.remove = remove->get_bool();
  }
  read.caught_up_is_enough =
      text_at(*stored, "inactiveTopicDeleteMode") == "delete_when_subscriptions_caught_up";
  read.seconds = number_at(*stored, "maxInactiveDurationSeconds").value_or(60);
  into.inactive_topics = read;
}

}  // namespace geminga
