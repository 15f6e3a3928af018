#include "broker/compaction_entry.h"

#include <algorithm>
#include <array>

#include "PulsarApi.pb.h"
#include "wire/batch.h"
#include "wire/compression.h"
#include "wire/message_encoding.h"
#include "wire/protobuf_fields.h"

namespace geminga {

namespace {

// BE32 4 | SingleMessageMetadata{payload_size 0, compacted_out true}
constexpr std::array<std::byte, 8> kCompactedOut = {std::byte{0},    std::byte{0},    std::byte{0},
                                                    std::byte{4},    std::byte{0x18}, std::byte{0},
                                                    std::byte{0x20}, std::byte{1}};

bool is_none(int compression) { return compression == static_cast<int>(Codec::None); }

}  // namespace

void CompactionEntry::read(std::span<const std::byte> entry) {
  entry_ = entry;
  kind_ = Kind::Opaque;
  metadata_ = EntryMetadata();
  messages_.clear();
  payload_ = Buffer();
  auto parts = split_entry(entry);
  if (!parts) return;
  parts_ = *parts;
  auto metadata = parse_entry_metadata(entry, parts_);
  if (!metadata) return;
  metadata_ = std::move(*metadata);
  if (metadata_.is_marker()) {
    kind_ = Kind::Marker;
  } else if (metadata_.is_batch) {
    read_batch();
  } else {
    kind_ = metadata_.is_chunk() ? Kind::Chunk : Kind::Single;
    Message message;
    message.key = metadata_.partition_key;
    const std::size_t size =
        is_none(metadata_.compression) ? parts_.payload.size() : metadata_.uncompressed_size;
    message.empty = metadata_.null_value || size == 0;
    messages_.push_back(message);
  }
}

void CompactionEntry::read_batch() {
  if (metadata_.is_encrypted() || metadata_.num_messages <= 0) return;
  std::span<const std::byte> payload = parts_.payload;
  if (!is_none(metadata_.compression)) {
    auto bytes = decompress(static_cast<Codec>(metadata_.compression), payload,
                            metadata_.uncompressed_size, kMaxBatchBytes);
    if (!bytes) return;
    payload_ = std::move(*bytes);
    payload = payload_.span();
  }
  BatchReader reader(payload, metadata_.num_messages);
  while (const auto single = reader.next()) {
    Message message;
    if (!single->null_partition_key) message.key = single->partition_key;
    message.empty = single->null_value || single->payload.empty();
    message.compacted_out = single->compacted_out;
    message.slot = single->slot;
    messages_.push_back(message);
  }
  if (reader.ok() && !messages_.empty()) {
    kind_ = Kind::Batch;
  } else {
    messages_.clear();
  }
}

std::uint32_t CompactionEntry::count() const {
  if (!metadata_.is_batch) return 1;
  return static_cast<std::uint32_t>(std::max(metadata_.num_messages, 1));
}

std::int32_t CompactionEntry::last_batch_index() const {
  if (!metadata_.is_batch) return -1;
  if (kind_ != Kind::Batch) return metadata_.num_messages - 1;
  for (std::size_t i = messages_.size(); i > 0; --i) {
    if (!messages_[i - 1].compacted_out) return static_cast<std::int32_t>(i - 1);
  }
  return -1;
}

bool retained_of_batch(std::span<const std::byte> entry, std::vector<std::uint64_t>& retained) {
  constexpr std::uint32_t kCompactedBatchIndexes = 31;
  constexpr std::uint64_t kMost = 1 << 20;  // messages of a batch
  retained.clear();
  const auto parts = split_entry(entry);
  if (!parts) return false;
  FieldReader fields(parts->metadata);
  while (fields.next()) {
    if (fields.tag() != varint_tag(kCompactedBatchIndexes) || fields.value() >= kMost) continue;
    const std::size_t word = static_cast<std::size_t>(fields.value() / 64);
    if (retained.size() <= word) retained.resize(word + 1);
    retained[word] |= std::uint64_t{1} << (fields.value() % 64);
  }
  return !retained.empty();
}

Result<Buffer> CompactionEntry::rewritten(const std::vector<bool>& keep) const {
  std::size_t size = 0;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    size += keep[i] ? messages_[i].slot.size() : kCompactedOut.size();
  }
  Block* block = Block::allocate(size);
  std::byte* to = block->data();
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const std::span<const std::byte> slot = keep[i] ? messages_[i].slot : kCompactedOut;
    to = std::copy(slot.begin(), slot.end(), to);
  }
  Buffer payload = Buffer::adopt(block, 0, size);
  if (!is_none(metadata_.compression)) {
    GM_ASSIGN_OR_RETURN(payload,
                        compress(static_cast<Codec>(metadata_.compression), payload.span()));
  }
  pulsar::proto::MessageMetadata metadata;
  if (!metadata.ParseFromArray(parts_.metadata.data(), static_cast<int>(parts_.metadata.size()))) {
    return Status::Corruption("the metadata of a batch cannot be read to rewrite it");
  }
  metadata.set_uncompressed_size(static_cast<std::uint32_t>(size));
  metadata.clear_compacted_batch_indexes();
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (keep[i] && !messages_[i].compacted_out)
      metadata.add_compacted_batch_indexes(static_cast<std::int32_t>(i));
  }
  const std::size_t metadata_size = metadata.ByteSizeLong();
  // What the broker put before what the producer sent stays in front.
  const std::span<const std::byte> front = entry_.first(parts_.checksum_offset);
  const std::size_t head = front.size() + kEntryHeadSize;
  Block* whole = Block::allocate(head + metadata_size + payload.size());
  Buffer entry = Buffer::adopt(whole, 0, head + metadata_size + payload.size());
  std::copy(front.begin(), front.end(), whole->data());
  metadata.SerializeToArray(whole->data() + head, static_cast<int>(metadata_size));
  std::copy(payload.span().begin(), payload.span().end(), whole->data() + head + metadata_size);
  seal_entry({whole->data() + front.size(), entry.size() - front.size()}, metadata_size);
  return entry;
}

}  // namespace geminga
