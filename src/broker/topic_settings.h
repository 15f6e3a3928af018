// What a topic must know of configuration and policies, resolved: the namespace's policy where
// there is one, else the broker's setting. Made by Broker::topic_settings() when a topic is loaded
// and when a policy changes. Values.
#pragma once

#include <array>
#include <cstdint>

#include "managed_ledger/managed_ledger.h"

namespace geminga {

struct TopicSettings {
  ManagedLedgerConfig ledger;
  bool deduplication = false;
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
  std::int64_t message_ttl_seconds = 0;  // 0: none
};

}  // namespace geminga
