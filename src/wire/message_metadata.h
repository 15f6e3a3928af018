// An entry: what a producer sends after the SEND command, what is stored, and what follows MESSAGE.
//
//   [0e02 | BE32 size | BrokerEntryMetadata]   only when the broker is configured to add it
//   [0e01 | BE32 crc32c]                       of everything behind these four bytes
//   BE32 size | MessageMetadata | payload
//
// The bytes are opaque and pass unchanged; EntryMetadata is what the broker itself needs of them,
// decoded once. Its strings are views into the entry and die with it. A string that the metadata
// does not have is a null view (data() == nullptr), one that is there but empty is not. Values; any
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/command.h"

namespace geminga {

using EntryBytes = std::span<const std::byte>;

// Where the parts of an entry are; offsets from its start.
struct EntryParts {
  EntryBytes broker_metadata;  // empty if there is none
  std::optional<std::uint32_t> checksum;
  std::size_t checksum_offset = 0;  // of the 0e01 marker, or of the metadata's size without a
                                    // checksum: what a producer sent starts here
  std::size_t checked_offset = 0;   // where the bytes that the checksum covers start
  EntryBytes metadata;
  EntryBytes payload;
};
// Fails with Protocol when the lengths do not fit.
Result<EntryParts> split_entry(EntryBytes entry);

enum class ChecksumVerdict : std::uint8_t { Absent, Ok, Mismatch };
// Malformed entries count as Mismatch.
ChecksumVerdict verify_checksum(EntryBytes entry);
ChecksumVerdict verify_checksum(EntryBytes entry, const EntryParts& parts);

// The sequence id of the last of `messages` messages, the first of which has `first`. The C++
// client (and those on top of it) does not tell it; it numbers them one after the other.
inline std::int64_t last_in_batch(std::int64_t first, std::int64_t messages) {
  const bool possible =
      messages > 1 && first <= std::numeric_limits<std::int64_t>::max() - messages;
  return possible ? first + messages - 1 : first;
}

struct EntryMetadata {
  std::string_view producer_name;
  std::int64_t sequence_id = 0;
  std::int64_t publish_time = 0;
  std::optional<std::int64_t> highest_sequence_id;
  std::int32_t num_messages = 1;
  bool is_batch = false;  // num_messages_in_batch is present, even if 1
  bool partition_key_b64_encoded = false;
  bool null_value = false;
  bool has_schema_version = false;
  std::string_view partition_key;
  std::string_view ordering_key;
  std::string_view replicated_from;
  std::string_view schema_version;
  std::int64_t deliver_at_time = 0;  // 0: at once
  std::int64_t event_time = 0;
  std::uint32_t encryption_keys = 0;
  std::uint32_t properties = 0;
  std::int32_t marker_type = 0;  // 0: a message
  std::optional<TxnId> txn;
  int compression = 0;  // pulsar::proto::CompressionType; numbers unknown to us are kept
  std::uint32_t uncompressed_size = 0;
  // Chunks: uuid is null for a message that is not one.
  std::string_view uuid;
  std::int32_t chunk_id = -1;
  std::int32_t num_chunks = 0;
  std::int32_t total_chunk_size = 0;
  // From BrokerEntryMetadata.
  std::optional<std::int64_t> broker_timestamp;
  std::optional<std::int64_t> index;
  std::uint32_t payload_offset = 0;  // in the entry
  std::uint32_t payload_size = 0;

  bool has_partition_key() const { return partition_key.data() != nullptr; }
  bool has_ordering_key() const { return ordering_key.data() != nullptr; }
  bool is_chunk() const { return uuid.data() != nullptr && num_chunks > 1; }
  bool is_last_chunk() const { return chunk_id == num_chunks - 1; }
  bool is_marker() const { return marker_type != 0; }
  bool is_encrypted() const { return encryption_keys > 0; }
  // What seek by time and expiry compare with.
  std::int64_t timestamp() const { return broker_timestamp.value_or(publish_time); }
  std::int64_t last_sequence_id() const {
    return std::max(highest_sequence_id.value_or(sequence_id),
                    is_batch ? last_in_batch(sequence_id, num_messages) : sequence_id);
  }
};
// Fails with Protocol when the entry is malformed or lacks producer name, sequence id or publish
// time.
Result<EntryMetadata> parse_entry_metadata(EntryBytes entry);
Result<EntryMetadata> parse_entry_metadata(EntryBytes entry, const EntryParts& parts);

// The property `key` of the message, if it has it. Walks the metadata; not for every message.
std::optional<std::string_view> find_property(EntryBytes entry, std::string_view key);

// The key by which Key_Shared spreads entries: ordering key, else partition key (decoded), else
// "<producer>-<sequence id>". A view into the entry or into `scratch`, which is overwritten.
std::string_view sticky_key(const EntryMetadata& metadata, std::string& scratch);
// Murmur3 (32 bits, seed 0) of the key without its top bit.
std::uint32_t sticky_key_hash(std::string_view key);

}  // namespace geminga
