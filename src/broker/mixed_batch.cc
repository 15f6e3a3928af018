#include "broker/mixed_batch.h"

#include <algorithm>

#include "broker/batch_parts.h"

namespace geminga {

std::unique_ptr<MixedBatch> MixedBatch::of(const std::vector<KeySlot>& slots) {
  auto batch = std::make_unique<MixedBatch>();
  std::vector<KeySlot> distinct = slots;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  batch->keys.resize(distinct.size());
  for (std::size_t i = 0; i < distinct.size(); ++i) batch->keys[i].slot = distinct[i];
  batch->key_of.reserve(slots.size());
  for (const KeySlot slot : slots) {
    const auto at = std::lower_bound(distinct.begin(), distinct.end(), slot);
    batch->key_of.push_back(static_cast<std::uint16_t>(at - distinct.begin()));
  }
  return batch;
}

MixedBatch::Part* MixedBatch::find_part(const Consumer& consumer) {
  for (Part& part : parts) {
    if (part.consumer == &consumer) return &part;
  }
  return nullptr;
}

MixedBatch::Part& MixedBatch::part_of(Consumer& consumer) {
  if (Part* part = find_part(consumer)) return *part;
  parts.emplace_back();
  parts.back().consumer = &consumer;
  return parts.back();
}

void MixedBatch::tidy() {
  std::erase_if(parts, [](const Part& part) { return part.shown == 0 && part.waiting == 0; });
}

void MixedBatch::find_alive(const AckSet& left, std::vector<bool>& alive) const {
  alive.assign(keys.size(), false);
  for (std::size_t i = 0; i < key_of.size(); ++i) {
    if (has_bit(left, i)) alive[key_of[i]] = true;
  }
}

AckSet MixedBatch::shown_bits(const Consumer& consumer, const AckSet& left) const {
  AckSet bits = no_bits(key_of.size());
  for (std::size_t i = 0; i < key_of.size(); ++i) {
    const Key& key = keys[key_of[i]];
    if (key.state == State::Shown && key.consumer == &consumer && has_bit(left, i)) {
      put_bit(bits, i);
    }
  }
  return bits;
}

}  // namespace geminga
