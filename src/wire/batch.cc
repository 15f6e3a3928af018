#include "wire/batch.h"

#include "base/endian.h"
#include "wire/protobuf_fields.h"

namespace geminga {

std::optional<SingleMessage> BatchReader::fail() {
  ok_ = false;
  messages_left_ = 0;
  return std::nullopt;
}

std::optional<SingleMessage> BatchReader::next() {
  if (messages_left_ <= 0) {
    if (!left_.empty()) ok_ = false;
    return std::nullopt;
  }
  if (left_.size() < 4) return fail();
  const std::size_t metadata_size = load_be32(left_.data());
  if (metadata_size > left_.size() - 4) return fail();
  SingleMessage message;
  message.metadata = left_.subspan(4, metadata_size);
  std::optional<std::int32_t> payload_size;
  FieldReader fields(message.metadata);
  while (fields.next()) {
    switch (fields.tag()) {
      case bytes_tag(1): ++message.properties; break;
      case bytes_tag(2): message.partition_key = fields.bytes(); break;
      case varint_tag(3): payload_size = fields.int32(); break;
      case varint_tag(4): message.compacted_out = fields.boolean(); break;
      case varint_tag(5): message.event_time = fields.value(); break;
      case varint_tag(6): message.partition_key_b64_encoded = fields.boolean(); break;
      case bytes_tag(7): message.ordering_key = fields.bytes(); break;
      case varint_tag(8): message.sequence_id = fields.signed_value(); break;
      case varint_tag(9): message.null_value = fields.boolean(); break;
      case varint_tag(10): message.null_partition_key = fields.boolean(); break;
      default: break;
    }
  }
  if (!fields.ok() || !payload_size || *payload_size < 0) return fail();
  const auto size = static_cast<std::size_t>(*payload_size);
  if (size > left_.size() - 4 - metadata_size) return fail();
  message.payload = left_.subspan(4 + metadata_size, size);
  message.slot = left_.first(4 + metadata_size + size);
  left_ = left_.subspan(message.slot.size());
  --messages_left_;
  return message;
}

}  // namespace geminga
