// The settings that subscriptions and dispatchers use, taken from the broker's configuration in one
// place. Names are those of Pulsar's keys where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace geminga {

struct BrokerConfig;

struct DispatcherConfig {
  std::size_t max_read_batch_size = 100;           // dispatcherMaxReadBatchSize
  std::size_t max_read_size_bytes = 1 << 20;       // dispatcherMaxReadSizeBytes
  std::int64_t max_round_robin_batch_size = 20;    // dispatcherMaxRoundRobinBatchSize
  std::int64_t max_unacked_per_consumer = 50'000;  // maxUnackedMessagesPerConsumer, 0: no limit
  std::int64_t max_unacked_per_subscription =
      200'000;                                // maxUnackedMessagesPerSubscription, 0: no limit
  bool batch_index_ack = true;                // acknowledgmentAtBatchIndexLevelEnabled
  Millis failover_delay{1000};                // activeConsumerFailoverDelayTimeMillis
  bool failover_consistent_hashing = false;   // activeConsumerFailoverConsistentHashing
  bool key_shared_consistent_hashing = true;  // subscriptionKeySharedUseConsistentHashing
  std::uint32_t key_shared_points = 100;      // subscriptionKeySharedConsistentHashingReplicaPoints
  std::size_t look_ahead_per_consumer = 2'000;  // keySharedLookAheadMsgInReplayThresholdPerConsumer
  std::size_t look_ahead_per_subscription = 20'000;  // ...PerSubscription
  Millis liveness_timeout{5000};                     // connectionLivenessCheckTimeoutMillis
  std::size_t max_consumers_per_subscription = 0;    // maxConsumersPerSubscription, 0: no limit

  // Ours. A dispatcher gives the shard back after so much in one turn, so that topics share it
  // fairly.
  std::size_t turn_entries = 512;
  std::size_t turn_bytes = 4 << 20;
  Millis read_retry_min{100};
  Millis read_retry_max{10'000};
  Millis watch_interval{10'000};  // rates and the stall watchdog, while consumers are connected
};

DispatcherConfig dispatcher_config(const BrokerConfig& config);

}  // namespace geminga
