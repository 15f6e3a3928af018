// A batch whose messages belong to different key slots, while something of it is sent or waits: for
// each slot, which consumer has its messages (Shown) or will get them (Waiting), or that nothing is
// decided (Idle: not read yet, given back, without an owner, or acknowledged). All messages of a
// slot go the same way together. Which messages are left is the cursor's knowledge, not repeated
// here. 16 bytes a slot and 2 a message. Used by DispatcherKeyShared only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/position.h"
#include "broker/key_shared_selector.h"
#include "managed_ledger/managed_cursor.h"

namespace geminga {

struct MixedBatch {
  enum class State : std::uint8_t { Idle, Waiting, Shown };
  struct Key {
    KeySlot slot = 0;
    State state = State::Idle;
    // Waiting only because its consumer must first acknowledge what it has of this entry.
    bool deferred = false;
    Consumer* consumer = nullptr;  // unless Idle
  };
  // What one consumer has or will get. An acknowledgement of the whole entry can only mean one
  // delivery, so a consumer is shown the next part when it is done with the one before.
  struct Part {
    Consumer* consumer = nullptr;
    AckSet sent;              // the messages of the delivery that is out; empty: none is
    bool renumbered = false;  // they were sent as a batch of their own
    std::uint32_t shown = 0;  // keys
    std::uint32_t waiting = 0;
  };

  // One key a slot, ascending.
  static std::unique_ptr<MixedBatch> of(const std::vector<KeySlot>& slots);

  std::size_t messages() const { return key_of.size(); }
  Part* find_part(const Consumer& consumer);
  Part& part_of(Consumer& consumer);
  void tidy();  // drops parts without keys
  // For each key: is any of its messages among `left`?
  void find_alive(const AckSet& left, std::vector<bool>& alive) const;
  // Those of `left` whose key is shown to the consumer.
  AckSet shown_bits(const Consumer& consumer, const AckSet& left) const;

  std::vector<std::uint16_t> key_of;  // of each message
  std::vector<Key> keys;
  std::vector<Part> parts;
};

}  // namespace geminga
