// Shared: any consumer may get any entry. Round robin among the consumers of the best priority that
// can take more, a few messages each (dispatcherMaxRoundRobinBatchSize); entries to be sent again
// go first.
#pragma once

#include "broker/dispatcher_multiple.h"

namespace geminga {

class DispatcherShared final : public DispatcherMultiple {
 public:
  explicit DispatcherShared(const DispatcherEnv& env)
      : DispatcherMultiple(env, SubscriptionType::Shared) {}
  void remove(Consumer& consumer) override;

 protected:
  void deliver() override;
  Verdict dispatch(const Entry& entry) override;
  std::size_t wanted_from_log() const override;
  void queue_again(Position position, std::uint16_t slot) override {
    replay_.insert(position, slot);
  }

 private:
  // Whose turn it is; nullptr: nobody can take more.
  Consumer* next_ready();

  Consumer* current_ = nullptr;  // whose turn it was last
  std::int64_t quota_ = 0;       // messages left in its turn
};

}  // namespace geminga
