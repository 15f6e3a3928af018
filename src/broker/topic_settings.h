// What a topic must know of configuration and policies, resolved: the namespace's policy where
// there is one, else the broker's setting. Made by Broker::topic_settings() when a topic is loaded
// and when a policy changes. Values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "broker/token_bucket.h"
#include "managed_ledger/managed_ledger.h"

namespace geminga {

// What happens when a topic's backlog is over its quota.
enum class QuotaPolicy : std::uint8_t {
  Hold,       // producers are refused, their clients wait and try again
  Exception,  // producers are refused, their clients fail what they hold
  Evict       // the oldest messages are taken from the subscriptions that lag most
};
struct BacklogQuota {
  std::int64_t limit = -1;  // bytes (negative: none), or seconds (0 and less: none)
  QuotaPolicy policy = QuotaPolicy::Hold;
};

struct TopicSettings {
  ManagedLedgerConfig ledger;
  bool deduplication = false;
  std::int64_t deduplication_snapshot_seconds = 120;  // 0: not by time
  bool auto_subscription_creation = true;
  bool encryption_required = false;
  std::array<bool, 4> types_allowed{true, true, true,
                                    true};  // of subscriptions, by SubscriptionType
  std::int64_t max_producers = 0;           // 0: no limit, also below
  std::int64_t max_consumers = 0;
  std::int64_t max_subscriptions = 0;
  std::int64_t max_consumers_per_subscription = 0;  // over the broker's own limit
  std::int64_t max_unacked_per_consumer = 50'000;
  std::int64_t max_unacked_per_subscription = 200'000;
  std::int64_t message_ttl_seconds = 0;   // 0: none
  std::int64_t compaction_threshold = 0;  // bytes not compacted; 0: only when asked
  BacklogQuota backlog_size;              // of the subscription that lags most
  BacklogQuota backlog_age;               // of its oldest message that is not acknowledged
  std::int64_t subscription_expiration_minutes = 0;  // 0: never
  // Deletion of a topic that nobody uses.
  bool delete_while_inactive = true;
  bool inactive_if_caught_up = false;  // with subscriptions that have nothing left
  std::int64_t inactive_seconds = 60;
  Rate publish_rate;
  Rate dispatch_rate;                                        // of all subscriptions together
  Rate subscription_dispatch_rate;                           // of each one
  std::vector<std::pair<std::string, Rate>> dispatch_rates;  // of some, by their names
  std::int64_t subscribe_rate = 0;  // of a consumer in a period; 0: no limit
  std::int64_t subscribe_period_seconds = 30;
  std::int64_t max_message_size = 0;       // bytes; 0: only the broker's limit
  bool delayed_delivery = true;            // off: messages are delivered at once
  std::int64_t max_delivery_delay_ms = 0;  // 0: no limit

  // NotAllowed: the topic has as many subscriptions as it may.
  Status room_for_subscription(std::size_t there, const std::string& topic) const {
    if (max_subscriptions <= 0 || there < static_cast<std::size_t>(max_subscriptions))
      return Status::ok();
    return Status::NotAllowed("Exceed the maximum number of subscriptions of the topic: " + topic);
  }
};

}  // namespace geminga
