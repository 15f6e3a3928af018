#include "wire/message_encoding.h"

#include <cstring>

#include "base/crc32c.h"
#include "base/endian.h"
#include "wire/message_metadata.h"
#include "wire/protobuf_fields.h"

namespace geminga {

namespace {

bool present(std::string_view text) { return text.data() != nullptr; }

std::size_t property_size(const Property& property) {
  return bytes_field_size(property.first.size()) + bytes_field_size(property.second.size());
}

std::size_t properties_size(std::span<const Property> properties) {
  std::size_t size = 0;
  for (const Property& property : properties) size += bytes_field_size(property_size(property));
  return size;
}

std::byte* put_properties(std::byte* to, std::uint32_t field,
                          std::span<const Property> properties) {
  for (const Property& property : properties) {
    to = put_bytes_head(to, field, property_size(property));
    to = put_raw(put_bytes_head(to, 1, property.first.size()), property.first);
    to = put_raw(put_bytes_head(to, 2, property.second.size()), property.second);
  }
  return to;
}

// Fields from 16 on have a tag of two bytes.
std::size_t wide(std::size_t narrow_size) { return narrow_size + 1; }
std::byte* put_wide_varint(std::byte* to, std::uint32_t field, std::int64_t value) {
  return put_varint(put_varint(to, varint_tag(field)), static_cast<std::uint64_t>(value));
}
std::byte* put_wide_bytes(std::byte* to, std::uint32_t field, std::string_view bytes) {
  return put_raw(put_varint(put_varint(to, bytes_tag(field)), bytes.size()), bytes);
}
std::size_t signed_size(std::int64_t value) {
  return varint_field_size(static_cast<std::uint64_t>(value));
}

std::size_t single_size(const OutgoingSingle& single) {
  std::size_t size = properties_size(single.properties) + varint_field_size(single.payload_size);
  if (present(single.partition_key)) size += bytes_field_size(single.partition_key.size());
  if (single.event_time != 0) size += signed_size(single.event_time);
  if (single.partition_key_b64_encoded) size += 2;
  if (present(single.ordering_key)) size += bytes_field_size(single.ordering_key.size());
  if (single.sequence_id) size += signed_size(*single.sequence_id);
  return size;
}

}  // namespace

std::size_t encoded_size(const OutgoingMetadata& m) {
  std::size_t size = bytes_field_size(m.producer_name.size()) + signed_size(m.sequence_id) +
                     signed_size(m.publish_time) + properties_size(m.properties);
  if (present(m.replicated_from)) size += bytes_field_size(m.replicated_from.size());
  if (present(m.partition_key)) size += bytes_field_size(m.partition_key.size());
  if (m.compression != 0) {
    size += varint_field_size(static_cast<std::uint64_t>(m.compression)) +
            varint_field_size(m.uncompressed_size);
  }
  if (m.num_messages_in_batch != 0) size += signed_size(m.num_messages_in_batch);
  if (m.event_time != 0) size += signed_size(m.event_time);
  if (present(m.schema_version)) size += wide(bytes_field_size(m.schema_version.size()));
  if (m.partition_key_b64_encoded) size += wide(2);
  if (present(m.ordering_key)) size += wide(bytes_field_size(m.ordering_key.size()));
  if (m.deliver_at_time != 0) size += wide(signed_size(m.deliver_at_time));
  if (m.marker_type != 0) size += wide(signed_size(m.marker_type));
  if (m.txn) {
    size += wide(varint_field_size(m.txn->least_bits)) + wide(varint_field_size(m.txn->most_bits));
  }
  if (m.highest_sequence_id) size += wide(signed_size(*m.highest_sequence_id));
  return size;
}

std::byte* encode(const OutgoingMetadata& m, std::byte* to) {
  to = put_raw(put_bytes_head(to, 1, m.producer_name.size()), m.producer_name);
  to = put_varint_field(to, 2, static_cast<std::uint64_t>(m.sequence_id));
  to = put_varint_field(to, 3, static_cast<std::uint64_t>(m.publish_time));
  to = put_properties(to, 4, m.properties);
  if (present(m.replicated_from)) {
    to = put_raw(put_bytes_head(to, 5, m.replicated_from.size()), m.replicated_from);
  }
  if (present(m.partition_key)) {
    to = put_raw(put_bytes_head(to, 6, m.partition_key.size()), m.partition_key);
  }
  if (m.compression != 0) {
    to = put_varint_field(to, 8, static_cast<std::uint64_t>(m.compression));
    to = put_varint_field(to, 9, m.uncompressed_size);
  }
  if (m.num_messages_in_batch != 0) {
    to = put_varint_field(to, 11, static_cast<std::uint64_t>(m.num_messages_in_batch));
  }
  if (m.event_time != 0) to = put_varint_field(to, 12, static_cast<std::uint64_t>(m.event_time));
  if (present(m.schema_version)) to = put_wide_bytes(to, 16, m.schema_version);
  if (m.partition_key_b64_encoded) to = put_wide_varint(to, 17, 1);
  if (present(m.ordering_key)) to = put_wide_bytes(to, 18, m.ordering_key);
  if (m.deliver_at_time != 0) to = put_wide_varint(to, 19, m.deliver_at_time);
  if (m.marker_type != 0) to = put_wide_varint(to, 20, m.marker_type);
  if (m.txn) {
    to = put_wide_varint(to, 22, static_cast<std::int64_t>(m.txn->least_bits));
    to = put_wide_varint(to, 23, static_cast<std::int64_t>(m.txn->most_bits));
  }
  if (m.highest_sequence_id) to = put_wide_varint(to, 24, *m.highest_sequence_id);
  return to;
}

std::size_t encoded_size(const OutgoingSingle& single) { return 4 + single_size(single); }

std::byte* encode(const OutgoingSingle& single, std::byte* to) {
  store_be32(to, static_cast<std::uint32_t>(single_size(single)));
  to = put_properties(to + 4, 1, single.properties);
  if (present(single.partition_key)) {
    to = put_raw(put_bytes_head(to, 2, single.partition_key.size()), single.partition_key);
  }
  to = put_varint_field(to, 3, single.payload_size);
  if (single.event_time != 0)
    to = put_varint_field(to, 5, static_cast<std::uint64_t>(single.event_time));
  if (single.partition_key_b64_encoded) to = put_varint_field(to, 6, 1);
  if (present(single.ordering_key)) {
    to = put_raw(put_bytes_head(to, 7, single.ordering_key.size()), single.ordering_key);
  }
  if (single.sequence_id)
    to = put_varint_field(to, 8, static_cast<std::uint64_t>(*single.sequence_id));
  return to;
}

Result<Buffer> entry_with_txn(std::span<const std::byte> entry, const TxnId& txn) {
  const auto parts = split_entry(entry);
  if (!parts) return parts.status();
  const std::size_t metadata_size = parts->metadata.size() +
                                    wide(varint_field_size(txn.least_bits)) +
                                    wide(varint_field_size(txn.most_bits));
  Block* block = Block::allocate(kEntryHeadSize + metadata_size + parts->payload.size());
  std::byte* to = block->data() + kEntryHeadSize;
  std::memcpy(to, parts->metadata.data(), parts->metadata.size());
  to += parts->metadata.size();
  to = put_wide_varint(to, 22, static_cast<std::int64_t>(txn.least_bits));
  to = put_wide_varint(to, 23, static_cast<std::int64_t>(txn.most_bits));
  if (!parts->payload.empty()) {
    std::memcpy(to, parts->payload.data(), parts->payload.size());
  }
  const std::size_t size = kEntryHeadSize + metadata_size + parts->payload.size();
  seal_entry({block->data(), size}, metadata_size);
  return Buffer::adopt(block, 0, size);
}

void seal_entry(std::span<std::byte> entry, std::size_t metadata_size) {
  store_be16(entry.data(), 0x0e01);
  store_be32(entry.data() + 6, static_cast<std::uint32_t>(metadata_size));
  store_be32(entry.data() + 2, crc32c(entry.subspan(6)));
}

}  // namespace geminga
