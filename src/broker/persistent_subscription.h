// Makes the subscription of a persistent topic: a ManagedCursor, the consumers that share it and the dispatcher
// that hands entries out. Called by the topic, on its shard; the topic keeps the result in its table and must await
// Subscription::close() before it lets go of it (reads may be in flight). Everything in the environment outlives
// the subscription.
#pragma once

#include <memory>
#include <string>

#include "broker/subscription.h"

namespace geminga {

struct BrokerConfig;
class ManagedLedger;
class Topic;

struct PersistentSubscriptionEnv {
  Topic& topic;
  ManagedLedger& ledger;
  std::shared_ptr<ManagedCursor> cursor;  // stands at the start position
  std::string name;
  bool durable = true;
  const BrokerConfig& config;
};

std::shared_ptr<Subscription> make_persistent_subscription(PersistentSubscriptionEnv env);

}  // namespace geminga
