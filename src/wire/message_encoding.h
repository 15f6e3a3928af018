// Writing entries: the metadata of a message or batch, of a message inside a batch, and the
// checksum.
//
// Same bargain as in command.h: encoded_size() bytes of the caller's memory, encode() gives back
// their end. Strings that are null views are left out. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/status.h"
#include "wire/command.h"

namespace geminga {

using Property = std::pair<std::string_view, std::string_view>;

// MessageMetadata.
struct OutgoingMetadata {
  std::string_view producer_name;
  std::int64_t sequence_id = 0;
  std::int64_t publish_time = 0;
  std::span<const Property> properties;
  std::string_view replicated_from;
  std::string_view partition_key;
  int compression = 0;
  std::uint32_t uncompressed_size = 0;     // written with a compression
  std::int32_t num_messages_in_batch = 0;  // 0: not a batch
  std::int64_t event_time = 0;             // 0: none
  std::string_view schema_version;
  bool partition_key_b64_encoded = false;
  std::string_view ordering_key;
  std::int64_t deliver_at_time = 0;  // 0: none
  std::int32_t marker_type = 0;      // 0: a message
  std::optional<TxnId> txn;
  std::optional<std::int64_t> highest_sequence_id;
};
std::size_t encoded_size(const OutgoingMetadata& metadata);
std::byte* encode(const OutgoingMetadata& metadata, std::byte* to);

// SingleMessageMetadata with its size in front; `payload_size` bytes must follow.
struct OutgoingSingle {
  std::span<const Property> properties;
  std::string_view partition_key;
  std::size_t payload_size = 0;
  std::int64_t event_time = 0;
  bool partition_key_b64_encoded = false;
  std::string_view ordering_key;
  std::optional<std::int64_t> sequence_id;
};
std::size_t encoded_size(const OutgoingSingle& single);
std::byte* encode(const OutgoingSingle& single, std::byte* to);

// What stands before the metadata of an entry with a checksum: 0e01, checksum, size of the
// metadata.
inline constexpr std::size_t kEntryHeadSize = 10;
// The entry with `txn` in its metadata, which has none: clients written in Go name the transaction
// in SEND only. Protocol if the entry is malformed.
Result<Buffer> entry_with_txn(std::span<const std::byte> entry, const TxnId& txn);
// Writes it at the start of `entry`, whose metadata and payload are in place.
void seal_entry(std::span<std::byte> entry, std::size_t metadata_size);

}  // namespace geminga
