// An entry as compaction sees it: the messages in it with their keys, and the entry without some of
// them.
//
// A batch that cannot be looked into (encrypted, a codec or form that is not known) is Opaque and
// kept as it is, like an entry without readable metadata: what is not understood is not dropped.
// What is left of a batch has all its places: a message taken out leaves a SingleMessageMetadata
// with compacted_out and no payload, so that batch indexes stay what they were. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "wire/message_metadata.h"

namespace geminga {

class CompactionEntry {
 public:
  enum class Kind : std::uint8_t { Marker, Opaque, Single, Chunk, Batch };

  struct Message {
    std::string_view key;  // data() == nullptr: it has none
    bool empty = false;    // no value: its key is to be forgotten
    bool compacted_out = false;
    std::span<const std::byte> slot;  // of a batch: all of it

    bool has_key() const { return key.data() != nullptr; }
  };

  // Largest batch, uncompressed, that is looked into.
  static constexpr std::size_t kMaxBatchBytes = std::size_t{64} << 20;

  // `entry` outlives what is read from it here, until the next read().
  void read(std::span<const std::byte> entry);

  Kind kind() const { return kind_; }
  // Of a Single, Chunk or Batch: at least one. Else none.
  const std::vector<Message>& messages() const { return messages_; }
  // Meaningful unless Opaque.
  const EntryMetadata& metadata() const { return metadata_; }
  // How many messages the entry counts for in a log.
  std::uint32_t count() const;
  // Of a batch: the index of its last message that is not compacted out, -1 if all are; of an
  // opaque batch, of its last message. -1 also for what is no batch.
  std::int32_t last_batch_index() const;

  // The batch without the messages for which `keep` is false. Its metadata list those that are left
  // (compacted_batch_indexes, as Pulsar does from 4.1 on).
  Result<Buffer> rewritten(const std::vector<bool>& keep) const;

 private:
  void read_batch();

  std::span<const std::byte> entry_;
  EntryParts parts_;
  EntryMetadata metadata_;
  Kind kind_ = Kind::Opaque;
  Buffer payload_;  // of a batch, uncompressed
  std::vector<Message> messages_;
};

// The messages that are left of a batch that was rewritten, as bits; false, and none, if the entry
// is no such batch.
bool retained_of_batch(std::span<const std::byte> entry, std::vector<std::uint64_t>& retained);

}  // namespace geminga
