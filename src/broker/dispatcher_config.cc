#include "broker/dispatcher_config.h"

#include <algorithm>

#include "base/config.h"

namespace geminga {

DispatcherConfig dispatcher_config(const BrokerConfig& from) {
  DispatcherConfig to;
  to.max_read_batch_size = static_cast<std::size_t>(from.dispatcher_max_read_batch_size);
  // What a read brings is held in memory until it is sent, by each subscription that catches up:
  // with Pulsar's 5 MiB a hundred of them would hold half a gigabyte.
  constexpr std::int64_t kMostAtOnce = 1 << 20;
  to.max_read_size_bytes =
      static_cast<std::size_t>(std::min(from.dispatcher_max_read_size_bytes, kMostAtOnce));
  to.max_round_robin_batch_size = from.dispatcher_max_round_robin_batch_size;
  to.max_unacked_per_consumer = from.max_unacked_messages_per_consumer;
  to.max_unacked_per_subscription = from.max_unacked_messages_per_subscription;
  to.batch_index_ack = from.acknowledgment_at_batch_index_level_enabled;
  to.failover_delay = Millis(from.active_consumer_failover_delay_time_millis);
  to.failover_consistent_hashing = from.active_consumer_failover_consistent_hashing;
  to.key_shared_consistent_hashing = from.subscription_key_shared_use_consistent_hashing;
  to.key_shared_points =
      static_cast<std::uint32_t>(from.subscription_key_shared_consistent_hashing_replica_points);
  to.look_ahead_per_consumer =
      static_cast<std::size_t>(from.key_shared_look_ahead_msg_in_replay_threshold_per_consumer);
  to.look_ahead_per_subscription =
      static_cast<std::size_t>(from.key_shared_look_ahead_msg_in_replay_threshold_per_subscription);
  to.liveness_timeout = Millis(from.connection_liveness_check_timeout_millis);
  to.max_consumers_per_subscription = static_cast<std::size_t>(from.max_consumers_per_subscription);
  return to;
}

}  // namespace geminga
