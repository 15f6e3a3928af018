// For tests of compaction: keyed messages and batches as clients make them, and what is left of
// them, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "broker/compaction_entry.h"
#include "wire/compression.h"
#include "wire/message_encoding.h"

namespace geminga::testing {

struct Keyed {
  std::string key;  // empty: none
  std::string value;
};

inline Buffer entry_of(OutgoingMetadata metadata, const Buffer& payload) {
  metadata.producer_name = "p";
  if (metadata.publish_time == 0) metadata.publish_time = 1'700'000'000'000;
  const std::size_t size = encoded_size(metadata);
  Block* block = Block::allocate(kEntryHeadSize + size + payload.size());
  std::byte* end = encode(metadata, block->data() + kEntryHeadSize);
  std::memcpy(end, payload.data(), payload.size());
  seal_entry({block->data(), block->capacity()}, size);
  return Buffer::adopt(block, 0, block->capacity());
}

inline Buffer keyed_entry(const Keyed& message, std::int64_t publish_time = 0) {
  OutgoingMetadata metadata;
  if (!message.key.empty()) metadata.partition_key = message.key;
  metadata.publish_time = publish_time;
  return entry_of(metadata, Buffer::copy_of(message.value));
}

inline Buffer keyed_batch(const std::vector<Keyed>& messages, Codec codec = Codec::None) {
  std::string payload;
  for (const Keyed& message : messages) {
    OutgoingSingle single;
    if (!message.key.empty()) single.partition_key = message.key;
    single.payload_size = message.value.size();
    std::string slot(encoded_size(single), '\0');
    encode(single, reinterpret_cast<std::byte*>(slot.data()));
    payload += slot + message.value;
  }
  OutgoingMetadata metadata;
  metadata.num_messages_in_batch = static_cast<std::int32_t>(messages.size());
  metadata.compression = static_cast<int>(codec);
  metadata.uncompressed_size = static_cast<std::uint32_t>(payload.size());
  Buffer bytes = Buffer::copy_of(payload);
  if (codec != Codec::None) bytes = compress(codec, bytes.span()).value();
  return entry_of(metadata, bytes);
}

inline Buffer chunk_entry(const std::string& uuid, std::int32_t id, std::int32_t chunks,
                          const std::string& key, const std::string& part) {
  // Fields of chunks are not among those that brokers and our client write.
  const Buffer plain = keyed_entry({key, part});
  const auto parts = split_entry(plain.span()).value();
  std::string metadata(reinterpret_cast<const char*>(parts.metadata.data()), parts.metadata.size());
  const auto put = [&metadata](std::uint32_t tag, std::uint64_t value) {
    metadata += static_cast<char>((tag & 0x7f) | 0x80);
    metadata += static_cast<char>(tag >> 7);
    metadata += static_cast<char>(value);
  };
  put(26 << 3 | 2, uuid.size());
  metadata += uuid;
  put(27 << 3, static_cast<std::uint64_t>(chunks));
  put(29 << 3, static_cast<std::uint64_t>(id));
  std::string whole(kEntryHeadSize, '\0');
  whole += metadata + part;
  seal_entry(std::as_writable_bytes(std::span(whole)), metadata.size());
  return Buffer::copy_of(whole);
}

// "k1=a", "=v" without a key; "-" for a place that is compacted out; "?" for what is opaque.
inline std::vector<std::string> contents_of(const Buffer& entry) {
  CompactionEntry content;
  content.read(entry.span());
  std::vector<std::string> texts;
  if (content.kind() == CompactionEntry::Kind::Opaque) return {"?"};
  const auto parts = split_entry(entry.span()).value();
  for (const auto& message : content.messages()) {
    if (message.compacted_out) {
      texts.emplace_back("-");
      continue;
    }
    std::string value(reinterpret_cast<const char*>(parts.payload.data()), parts.payload.size());
    if (content.kind() == CompactionEntry::Kind::Batch) {
      const std::size_t head = 4 + load_be32(message.slot.data());
      value.assign(reinterpret_cast<const char*>(message.slot.data()) + head,
                   message.slot.size() - head);
    }
    texts.push_back(std::string(message.key) + "=" + value);
  }
  return texts;
}

}  // namespace geminga::testing
