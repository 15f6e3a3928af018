#include "broker/latest_by_key.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace geminga {

namespace {
constexpr std::size_t kFirstSlots = 1024;
constexpr std::size_t kLeastSlots = 8;
}  // namespace

LatestByKey::LatestByKey(std::size_t max_bytes)
    : max_slots_(std::bit_floor(std::max(max_bytes / kSlotBytes, kLeastSlots))) {}

void LatestByKey::begin(std::uint64_t from) {
  from_ = from;
  to_ = kLast;
  slots_.assign(std::min(kFirstSlots, max_slots_), Slot());
  used_ = 0;
}

std::optional<std::uint64_t> LatestByKey::put(const Hash128& key,
                                              std::optional<std::uint64_t> message) {
  if (key.high < from_ || key.high > to_) return std::nullopt;
  Slot* slot = &find(key);
  if (slot->message == kFree) {
    if (!message) return std::nullopt;
    if ((used_ + 1) * 8 > slots_.size() * 7) {
      make_room();
      if (key.high > to_) return std::nullopt;
      slot = &find(key);
    }
    slot->key = key;
    ++used_;
  }
  const std::uint64_t before = std::exchange(slot->message, message.value_or(kForgotten));
  return before < kForgotten ? std::optional(before) : std::nullopt;
}

LatestByKey::Slot& LatestByKey::find(const Hash128& key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(key.low) & mask;
  while (slots_[at].message != kFree && slots_[at].key != key) at = (at + 1) & mask;
  return slots_[at];
}

void LatestByKey::make_room() {
  if (slots_.size() < max_slots_) {
    rebuild(slots_.size() * 2);
    return;
  }
  while ((used_ + 1) * 8 > slots_.size() * 7 && to_ > from_) {
    to_ = from_ + (to_ - from_) / 2;
    rebuild(slots_.size());
  }
}

void LatestByKey::rebuild(std::size_t slots) {
  std::vector<Slot> before(slots);
  before.swap(slots_);
  used_ = 0;
  for (const Slot& slot : before) {
    if (slot.message >= kForgotten || slot.key.high > to_) continue;
    find(slot.key) = slot;
    ++used_;
  }
}

}  // namespace geminga
