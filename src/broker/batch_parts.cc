#include "broker/batch_parts.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "PulsarApi.pb.h"
#include "base/endian.h"
#include "wire/base64.h"
#include "wire/batch.h"
#include "wire/compression.h"
#include "wire/message_encoding.h"

namespace geminga {

namespace {

// Of an uncompressed batch, whatever its metadata claims.
constexpr std::size_t kMaxPayload = 64 << 20;
// Larger parts of a compressed batch are compressed again: a frame has a limit.
constexpr std::size_t kMaxPlainPart = 1 << 20;

Status no_batch(const EntryMetadata& metadata) {
  return Status::Corruption(
      fmt::format("not a batch of {} messages, as its metadata says", metadata.num_messages));
}

std::string_view key_of(const SingleMessage& message, std::string& scratch) {
  if (message.ordering_key.data() != nullptr) return message.ordering_key;
  if (message.partition_key_b64_encoded && decode_base64(message.partition_key, scratch)) {
    return scratch;
  }
  return message.partition_key;
}

}  // namespace

AckSet all_bits(std::size_t n) {
  AckSet set(n / 64, ~std::uint64_t{0});
  if (n % 64 != 0) set.push_back((std::uint64_t{1} << (n % 64)) - 1);
  return set;
}

bool is_open_batch(const EntryMetadata& metadata) {
  return metadata.is_batch && metadata.num_messages > 0 && !metadata.is_encrypted() &&
         metadata.compression >= 0 && metadata.compression <= static_cast<int>(Codec::Snappy);
}

Result<Buffer> batch_payload(const Buffer& entry, const EntryMetadata& metadata) {
  Buffer payload = entry.slice(metadata.payload_offset, metadata.payload_size);
  if (metadata.compression == 0) return payload;
  return decompress(static_cast<Codec>(metadata.compression), payload.span(),
                    metadata.uncompressed_size, kMaxPayload);
}

Status hashes_of_batch(const Buffer& payload, const EntryMetadata& metadata,
                       std::vector<std::uint32_t>& hashes) {
  hashes.clear();
  std::string scratch;
  std::uint32_t without_key = 0;
  bool without_key_known = false;
  BatchReader reader(payload.span(), metadata.num_messages);
  while (const auto message = reader.next()) {
    if (message->ordering_key.data() != nullptr || message->partition_key.data() != nullptr) {
      hashes.push_back(sticky_key_hash(key_of(*message, scratch)));
      continue;
    }
    if (!without_key_known) {
      EntryMetadata whole = metadata;
      whole.ordering_key = {};
      whole.partition_key = {};
      without_key = sticky_key_hash(sticky_key(whole, scratch));
      without_key_known = true;
    }
    hashes.push_back(without_key);
  }
  if (!reader.ok() || hashes.size() != static_cast<std::size_t>(metadata.num_messages)) {
    return no_batch(metadata);
  }
  return Status::ok();
}

Result<Buffer> pick_messages(const Buffer& entry, const EntryMetadata& metadata,
                             const Buffer& payload, std::span<const std::uint64_t> picked) {
  GM_ASSIGN_OR_RETURN(const EntryParts parts, split_entry(entry.span()));
  pulsar::proto::MessageMetadata head;
  if (!head.ParseFromArray(parts.metadata.data(), static_cast<int>(parts.metadata.size()))) {
    return Status::Corruption("its metadata cannot be read");
  }
  std::string messages;
  std::int32_t count = 0;
  std::size_t index = 0;
  BatchReader reader(payload.span(), metadata.num_messages);
  for (; const auto message = reader.next(); ++index) {
    if (!has_bit(picked, index)) continue;
    messages.append(reinterpret_cast<const char*>(message->slot.data()), message->slot.size());
    ++count;
  }
  if (!reader.ok()) return no_batch(metadata);
  head.set_num_messages_in_batch(count);
  Buffer body = Buffer::copy_of(messages);
  if (metadata.compression != 0 && body.size() > kMaxPlainPart) {
    head.set_uncompressed_size(static_cast<std::uint32_t>(body.size()));
    GM_ASSIGN_OR_RETURN(body, compress(static_cast<Codec>(metadata.compression), body.span()));
  } else {
    head.clear_compression();
    head.clear_uncompressed_size();
  }
  const std::size_t front = parts.checksum_offset;  // what the broker put before it
  const std::size_t head_size = head.ByteSizeLong();
  std::string out(front + kEntryHeadSize + head_size + body.size(), '\0');
  std::memcpy(out.data(), entry.data(), front);
  auto* const at = reinterpret_cast<std::byte*>(out.data()) + front;
  head.SerializeToArray(at + kEntryHeadSize, static_cast<int>(head_size));
  std::memcpy(at + kEntryHeadSize + head_size, body.data(), body.size());
  seal_entry({at, out.size() - front}, head_size);
  return Buffer::copy_of(out);
}

}  // namespace geminga
