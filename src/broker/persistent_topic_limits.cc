// What policies limit of a persistent topic: rates, and the size of messages.
#include <fmt/format.h>

#include "base/clock.h"
#include "broker/persistent_topic.h"

namespace geminga {

void PersistentTopic::apply_rates() {
  if (settings_.publish_rate.limited() && pacer_ == nullptr) {
    pacer_ = std::make_unique<PublishPacer>(
        env_.shard, [this](std::vector<PublishItem>& items) { publish_now(items); });
  }
  if (pacer_ != nullptr) pacer_->limit(settings_.publish_rate);
  dispatch_rate_.set(settings_.dispatch_rate, monotonic_ns());
  subscribe_rate_.set(settings_.subscribe_rate, settings_.subscribe_period_seconds);
  for (const auto& [name, subscription] : subscriptions_)
    subscription->limit_dispatch(dispatch_rate_of(name));
}

const Rate& PersistentTopic::dispatch_rate_of(const std::string& subscription) const {
  for (const auto& [name, rate] : settings_.dispatch_rates) {
    if (name == subscription) return rate;
  }
  return settings_.subscription_dispatch_rate;
}

Rate PersistentTopic::incoming() const {
  const std::int64_t now = monotonic_ns();
  Rate rate;
  rate.messages = message_rate_.per_second(now);
  rate.bytes = byte_rate_.per_second(now);
  return rate;
}

void PersistentTopic::refuse_too_large(PublishItem& item) const {
  if (!item.refused.is_ok() || item.is_marker ||
      static_cast<std::int64_t>(item.entry.size()) <= settings_.max_message_size) {
    return;
  }
  item.refused =
      Status::NotAllowed(fmt::format("Exceed maximum message size: {} bytes, the topic takes {}",
                                     item.entry.size(), settings_.max_message_size));
}

}  // namespace geminga
