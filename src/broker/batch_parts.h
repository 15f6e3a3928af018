// The messages of a batch apart: which keys they have, and an entry of only some of them. What
// Key_Shared needs when the keys of one batch belong to several consumers. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "managed_ledger/managed_cursor.h"
#include "wire/message_metadata.h"

namespace geminga {

// Bit sets of a batch's messages.
inline bool has_bit(std::span<const std::uint64_t> set, std::size_t i) {
  return i / 64 < set.size() && (set[i / 64] >> (i % 64) & 1) != 0;
}
inline void put_bit(AckSet& set, std::size_t i) { set[i / 64] |= std::uint64_t{1} << (i % 64); }
inline void drop_bit(AckSet& set, std::size_t i) { set[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
inline AckSet no_bits(std::size_t n) { return AckSet((n + 63) / 64); }
AckSet all_bits(std::size_t n);

// A batch (of one message, too) that the broker can read.
bool is_open_batch(const EntryMetadata& metadata);

// The messages of an open batch, uncompressed. A view into the entry, or memory of its own.
Result<Buffer> batch_payload(const Buffer& entry, const EntryMetadata& metadata);

// sticky_key_hash() of each message: of its ordering key, else its partition key, else of the
// batch's producer and sequence id (so those without a key stay together). Overwrites `hashes`.
// Corruption if it is no batch of so many messages.
Status hashes_of_batch(const Buffer& payload, const EntryMetadata& metadata,
                       std::vector<std::uint32_t>& hashes);

// An entry of the same metadata with the messages of `picked` only, numbered anew from 0 in their
// order; uncompressed, unless that would be large and the batch was compressed.
Result<Buffer> pick_messages(const Buffer& entry, const EntryMetadata& metadata,
                             const Buffer& payload, std::span<const std::uint64_t> picked);

}  // namespace geminga
