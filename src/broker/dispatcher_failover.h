// Failover: one of the connected consumers is active and gets everything, in order; the others
// wait.
//
// The active one is chosen among those of the best priority, sorted by name: by partition number,
// or by a consistent hash of the topic's name for a topic without partitions. When it changes,
// delivery rests for a moment (activeConsumerFailoverDelayTimeMillis), so that acknowledgements of
// the last one arrive, then starts from the first unacknowledged entry; only then the consumers are
// told.
#pragma once

#include <memory>
#include <optional>

#include "broker/dispatcher_exclusive.h"
#include "broker/topic_name.h"

namespace geminga {

class DispatcherFailover final : public DispatcherExclusive {
 public:
  explicit DispatcherFailover(const DispatcherEnv& env)
      : DispatcherExclusive(env, SubscriptionType::Failover) {}

  Status admit(const SubscribeRequest& request) const override;
  Status add(std::shared_ptr<Consumer> consumer) override;
  void remove(Consumer& consumer) override;
  void stop() override;
  const Consumer* active_consumer() const override { return active_; }

 protected:
  Consumer* receiver() const override { return changing_ ? nullptr : active_; }

 private:
  // True: another one is active from now on.
  bool choose_active();
  void begin_change();
  void finish_change();
  void tell(Consumer& consumer);

  Consumer* active_ = nullptr;
  bool changing_ = false;  // the timer runs
  std::optional<asio::steady_timer> timer_;
};

// Sorts the consumers by priority and name; which of them is to be active. Not empty.
std::size_t choose_failover_active(const TopicName& topic, bool always_by_hash,
                                   std::vector<std::shared_ptr<Consumer>>& consumers);
// Which of `names` a topic without partitions prefers.
std::size_t failover_ring_choice(std::string_view topic, std::span<const std::string_view> names);

}  // namespace geminga
