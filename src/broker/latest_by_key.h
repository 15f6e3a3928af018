// Which message is the latest of each key: the table that a pass of compaction fills.
//
// A key is its 128-bit keyed hash (siphash.h), a message its number in the order of reading: 24
// bytes a slot, at most 7/8 of them in use, so 27 to 55 bytes a key. The table never grows beyond
// the memory it was given (half as much again while it is rebuilt). When it is full it gives up the
// upper half of the range of hashes that it covers and forgets their keys; after the pass
// covered_to() tells how far it came, and the next pass covers what follows. Pure data; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/siphash.h"

namespace geminga {

class LatestByKey {
 public:
  static constexpr std::uint64_t kLast = ~std::uint64_t{0};  // of the hashes' range
  static constexpr std::size_t kSlotBytes = 24;

  explicit LatestByKey(std::size_t max_bytes);

  // Empty, for the keys whose hash (its high half) is `from` or more.
  void begin(std::uint64_t from);
  // `message` is the latest of the key now; nothing, if `message` is empty: the key is forgotten.
  // Gives the message that was the latest before. A key out of the range is ignored.
  std::optional<std::uint64_t> put(const Hash128& key, std::optional<std::uint64_t> message);

  // The highest hash that the table covers.
  std::uint64_t covered_to() const { return to_; }
  template <typename F>
  void for_each_message(F f) const {
    for (const Slot& slot : slots_) {
      if (slot.message < kForgotten) f(slot.message);
    }
  }
  std::size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static constexpr std::uint64_t kForgotten = kFree - 1;
  struct Slot {
    Hash128 key;
    std::uint64_t message = kFree;
  };
  static_assert(sizeof(Slot) == kSlotBytes);

  Slot& find(const Hash128& key);
  void make_room();
  void rebuild(std::size_t slots);

  std::size_t max_slots_;
  std::uint64_t from_ = 0;
  std::uint64_t to_ = kLast;
  std::vector<Slot> slots_;  // a power of two
  std::size_t used_ = 0;
};

}  // namespace geminga
