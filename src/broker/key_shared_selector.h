// Which consumer of a Key_Shared subscription owns which keys.
//
// Keys are reduced to slots, 0 to 65535 (0 stands for "not known" and no key has it). A selector
// maps every slot to one consumer, or to none. It changes only when consumers come and go. Three
// kinds: a consistent hash ring (the default), ranges split automatically, ranges that the
// consumers ask for (Sticky). Owned by the dispatcher; one shard. Results agree with Pulsar's, for
// tools show the ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "broker/subscription.h"

namespace geminga {

using KeySlot = std::uint16_t;

// The slot of a key's hash (sticky_key_hash) on the ring, and everywhere else.
constexpr KeySlot ring_slot(std::uint32_t hash) { return static_cast<KeySlot>(hash % 65535 + 1); }
constexpr KeySlot range_slot(std::uint32_t hash) {
  const auto slot = static_cast<KeySlot>(hash % 65536);
  return slot == 0 ? KeySlot{1} : slot;
}

struct DispatcherConfig;

class KeySharedSelector {
 public:
  virtual ~KeySharedSelector() = default;
  virtual KeySlot slot_of(std::uint32_t hash) const = 0;
  // ConsumerAssign if it cannot have a part.
  virtual Status add(Consumer& consumer) = 0;
  virtual void remove(Consumer& consumer) = 0;
  // nullptr: nobody has it.
  virtual Consumer* select(KeySlot slot) const = 0;
  // Ascending, without overlap.
  virtual std::vector<std::pair<HashRange, Consumer*>> ranges() const = 0;
};

std::unique_ptr<KeySharedSelector> make_hash_ring_selector(std::uint32_t points_per_consumer);
std::unique_ptr<KeySharedSelector> make_auto_split_selector();
std::unique_ptr<KeySharedSelector> make_sticky_selector();
std::unique_ptr<KeySharedSelector> make_selector(KeySharedMode mode,
                                                 const DispatcherConfig& config);

// The ranges of one consumer as stats show them: "[0, 32767]".
std::vector<std::string> ranges_text(const KeySharedSelector& selector, const Consumer& consumer);

}  // namespace geminga
