// A subscription of a non-persistent topic: who is connected now gets what is published now;
// nothing is stored, acknowledged or sent again. An entry that no consumer can take at once (no
// permits, or its client does not read) is dropped and counted. Key_Shared shares out the messages
// of a batch by their own keys. Called by the topic, on its shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/buffer.h"
#include "broker/subscription.h"

namespace geminga {

struct BrokerConfig;
class Topic;

class NonPersistentSubscription : public Subscription {
 public:
  // One published entry of `messages` messages, as it would be stored.
  virtual void deliver(const Buffer& entry, std::uint32_t messages) = 0;
};

std::shared_ptr<NonPersistentSubscription> make_non_persistent_subscription(
    Topic& topic, std::string name, const BrokerConfig& config);

}  // namespace geminga
