#include "wire/message_metadata.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>

#include "base/crc32c.h"
#include "base/endian.h"
#include "wire/base64.h"
#include "wire/protobuf_fields.h"

namespace geminga {

namespace {

constexpr std::uint16_t kMagicChecksum = 0x0e01;
constexpr std::uint16_t kMagicBrokerMetadata = 0x0e02;

Status malformed(std::string_view what, std::size_t size) {
  return Status::Protocol(fmt::format("entry of {} bytes: {}", size, what));
}

// Which required fields were seen.
enum Required : unsigned { kProducerName = 1, kSequenceId = 2, kPublishTime = 4, kAll = 7 };

bool parse_broker_metadata(EntryBytes bytes, EntryMetadata& out) {
  FieldReader fields(bytes);
  while (fields.next()) {
    if (fields.tag() == varint_tag(1)) out.broker_timestamp = fields.signed_value();
    if (fields.tag() == varint_tag(2)) out.index = fields.signed_value();
  }
  return fields.ok();
}

bool parse_metadata(EntryBytes bytes, EntryMetadata& out) {
  unsigned seen = 0;
  TxnId txn;
  unsigned txn_halves = 0;
  FieldReader fields(bytes);
  while (fields.next()) {
    switch (fields.tag()) {
      case bytes_tag(1):
        out.producer_name = fields.bytes();
        seen |= kProducerName;
        break;
      case varint_tag(2):
        out.sequence_id = fields.signed_value();
        seen |= kSequenceId;
        break;
      case varint_tag(3):
        out.publish_time = fields.signed_value();
        seen |= kPublishTime;
        break;
      case bytes_tag(4): ++out.properties; break;
      case bytes_tag(5): out.replicated_from = fields.bytes(); break;
      case bytes_tag(6): out.partition_key = fields.bytes(); break;
      case varint_tag(8): out.compression = fields.int32(); break;
      case varint_tag(9): out.uncompressed_size = static_cast<std::uint32_t>(fields.value()); break;
      case varint_tag(11):
        out.num_messages = fields.int32();
        out.is_batch = true;
        break;
      case varint_tag(12): out.event_time = fields.signed_value(); break;
      case bytes_tag(13): ++out.encryption_keys; break;
      case bytes_tag(16):
        out.schema_version = fields.bytes();
        out.has_schema_version = true;
        break;
      case varint_tag(17): out.partition_key_b64_encoded = fields.boolean(); break;
      case bytes_tag(18): out.ordering_key = fields.bytes(); break;
      case varint_tag(19): out.deliver_at_time = fields.signed_value(); break;
      case varint_tag(20): out.marker_type = fields.int32(); break;
      case varint_tag(22):
        txn.least_bits = fields.value();
        txn_halves |= 1;
        break;
      case varint_tag(23):
        txn.most_bits = fields.value();
        txn_halves |= 2;
        break;
      case varint_tag(24): out.highest_sequence_id = fields.signed_value(); break;
      case varint_tag(25): out.null_value = fields.boolean(); break;
      case bytes_tag(26): out.uuid = fields.bytes(); break;
      case varint_tag(27): out.num_chunks = fields.int32(); break;
      case varint_tag(28): out.total_chunk_size = fields.int32(); break;
      case varint_tag(29): out.chunk_id = fields.int32(); break;
      default: break;
    }
  }
  if (txn_halves == 3) out.txn = txn;
  return fields.ok() && seen == kAll;
}

}  // namespace

Result<EntryParts> split_entry(EntryBytes entry) {
  EntryParts parts;
  std::size_t at = 0;
  if (entry.size() >= 2 && load_be16(entry.data()) == kMagicBrokerMetadata) {
    if (entry.size() < 6) return malformed("broker metadata cut short", entry.size());
    const std::size_t size = load_be32(entry.data() + 2);
    if (size > entry.size() - 6)
      return malformed("broker metadata longer than the entry", entry.size());
    parts.broker_metadata = entry.subspan(6, size);
    at = 6 + size;
  }
  parts.checksum_offset = at;
  if (entry.size() - at >= 2 && load_be16(entry.data() + at) == kMagicChecksum) {
    if (entry.size() - at < 6) return malformed("checksum cut short", entry.size());
    parts.checksum = load_be32(entry.data() + at + 2);
    at += 6;
  }
  parts.checked_offset = at;
  if (entry.size() - at < 4) return malformed("no metadata", entry.size());
  const std::size_t size = load_be32(entry.data() + at);
  if (size > entry.size() - at - 4)
    return malformed("metadata longer than the entry", entry.size());
  parts.metadata = entry.subspan(at + 4, size);
  parts.payload = entry.subspan(at + 4 + size);
  return parts;
}

ChecksumVerdict verify_checksum(EntryBytes entry, const EntryParts& parts) {
  if (!parts.checksum) return ChecksumVerdict::Absent;
  return crc32c(entry.subspan(parts.checked_offset)) == *parts.checksum ? ChecksumVerdict::Ok
                                                                        : ChecksumVerdict::Mismatch;
}

ChecksumVerdict verify_checksum(EntryBytes entry) {
  const auto parts = split_entry(entry);
  return parts ? verify_checksum(entry, *parts) : ChecksumVerdict::Mismatch;
}

Result<EntryMetadata> parse_entry_metadata(EntryBytes entry, const EntryParts& parts) {
  EntryMetadata metadata;
  if (!parts.broker_metadata.empty() && !parse_broker_metadata(parts.broker_metadata, metadata)) {
    return malformed("broker metadata does not parse", entry.size());
  }
  if (!parse_metadata(parts.metadata, metadata)) {
    return malformed("message metadata does not parse", entry.size());
  }
  metadata.payload_offset = static_cast<std::uint32_t>(parts.payload.data() - entry.data());
  metadata.payload_size = static_cast<std::uint32_t>(parts.payload.size());
  return metadata;
}

Result<EntryMetadata> parse_entry_metadata(EntryBytes entry) {
  const auto parts = split_entry(entry);
  if (!parts) return parts.status();
  return parse_entry_metadata(entry, *parts);
}

std::optional<std::string_view> find_property(EntryBytes entry, std::string_view key) {
  const auto parts = split_entry(entry);
  if (!parts) return std::nullopt;
  FieldReader fields(parts->metadata);
  while (fields.next()) {
    if (fields.tag() != bytes_tag(4)) continue;
    std::string_view name;
    std::string_view value;
    FieldReader pair(fields.bytes());
    while (pair.next()) {
      if (pair.tag() == bytes_tag(1)) name = pair.bytes();
      if (pair.tag() == bytes_tag(2)) value = pair.bytes();
    }
    if (pair.ok() && name == key) return value;
  }
  return std::nullopt;
}

std::string_view sticky_key(const EntryMetadata& metadata, std::string& scratch) {
  if (metadata.has_ordering_key()) return metadata.ordering_key;
  if (metadata.has_partition_key()) {
    if (!metadata.partition_key_b64_encoded) return metadata.partition_key;
    // A key that is not base64 although it says so is taken as it is.
    if (decode_base64(metadata.partition_key, scratch)) return scratch;
    return metadata.partition_key;
  }
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, metadata.sequence_id).ptr;
  scratch.assign(metadata.producer_name);
  scratch.push_back('-');
  scratch.append(digits, end);
  return scratch;
}

std::uint32_t sticky_key_hash(std::string_view key) {
  constexpr std::uint32_t c1 = 0xcc9e2d51;
  constexpr std::uint32_t c2 = 0x1b873593;
  std::uint32_t hash = 0;
  const char* at = key.data();
  const char* const blocks_end = at + (key.size() & ~std::size_t{3});
  for (; at != blocks_end; at += 4) {
    hash ^= std::rotl(load_le32(at) * c1, 15) * c2;
    hash = std::rotl(hash, 13) * 5 + 0xe6546b64;
  }
  std::uint32_t tail = 0;
  for (std::size_t i = key.size() & 3; i > 0; --i) {
    tail = tail << 8 | static_cast<std::uint8_t>(at[i - 1]);
  }
  hash ^= std::rotl(tail * c1, 15) * c2;
  hash ^= static_cast<std::uint32_t>(key.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return (hash ^ hash >> 16) & 0x7fffffff;
}

}  // namespace geminga
