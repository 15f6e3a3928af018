// Key_Shared: every key belongs to one consumer at a time, and its messages come in order.
//
// A selector maps key slots to consumers. An entry whose owner cannot take it now is parked for the
// owner while reading goes on for the others, up to a bound; later entries of its slot are parked
// behind it. When consumers come and go and a slot gets a new owner while another still holds
// unacknowledged entries of it, the slot drains: its entries are parked until the holder has
// acknowledged or given back the last one. That is derived from one table, slot to (holder,
// pending, parked), so no membership change needs bookkeeping of its own. With
// allowOutOfOrderDelivery there is no such table; with Sticky ranges nothing drains.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <string>
#include <vector>

#include "broker/dispatcher_multiple.h"
#include "broker/key_shared_selector.h"

namespace geminga {

class DispatcherKeyShared final : public DispatcherMultiple {
 public:
  DispatcherKeyShared(const DispatcherEnv& env, const KeySharedOptions& options);

  Status admit(const SubscribeRequest& request) const override;
  void rewind() override;
  void describe(SubscriptionStats& stats) const override;
  std::vector<std::string> key_ranges(const Consumer& consumer) const override;
  // Slots that one consumer holds unacknowledged entries of and another owns; for stats.
  std::size_t draining_slots() const;

 protected:
  Verdict dispatch(const Entry& entry) override;
  void queue_again(Position position, std::uint16_t slot) override;
  bool must_wait(const ParkedEntry& entry) const override;
  bool replay_waits() const override;
  Status joined(Consumer& consumer) override;
  void left(Consumer& consumer) override;
  void slot_pending(Consumer& consumer, std::uint16_t slot) override;
  void slot_released(std::uint16_t slot) override;
  void slot_parked(std::uint16_t slot) override;
  void slot_unparked(std::uint16_t slot) override;

 private:
  struct SlotUse {
    Consumer* holder = nullptr;  // of the pending ones
    std::uint32_t pending = 0;
    std::uint32_t parked = 0;
  };
  // The slots' owners changed: everything that waits goes to the new ones.
  void share_out_again();
  // Has another consumer than `owner` unacknowledged entries of the slot?
  bool draining(KeySlot slot, const Consumer* owner) const;

  const KeySharedMode mode_;
  const bool in_order_;
  std::unique_ptr<KeySharedSelector> selector_;
  boost::unordered_flat_map<KeySlot, SlotUse> slots_;
  std::string key_scratch_;
};

}  // namespace geminga
