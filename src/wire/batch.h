// The messages inside an entry that is a batch. Its payload, uncompressed and not encrypted, is a
// row of
//
//   BE32 size | SingleMessageMetadata | payload_size bytes
//
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace geminga {

// One message of a batch: views into the batch's payload. A key that is not there is a null view.
struct SingleMessage {
  std::span<const std::byte> slot;      // all of it, its size included
  std::span<const std::byte> metadata;  // SingleMessageMetadata
  std::span<const std::byte> payload;
  std::string_view partition_key;
  std::string_view ordering_key;
  bool partition_key_b64_encoded = false;
  bool compacted_out = false;
  bool null_value = false;
  bool null_partition_key = false;
  std::uint64_t event_time = 0;
  std::optional<std::int64_t> sequence_id;
  std::uint32_t properties = 0;
};

// Walks a batch of `count` messages. next() is empty at the end and when the batch is malformed
// (ok() tells); bytes left over behind the last message also count as malformed.
class BatchReader {
 public:
  BatchReader(std::span<const std::byte> payload, std::int32_t count)
      : left_(payload), messages_left_(count) {}

  std::optional<SingleMessage> next();
  bool ok() const { return ok_; }

 private:
  std::optional<SingleMessage> fail();

  std::span<const std::byte> left_;
  std::int32_t messages_left_;
  bool ok_ = true;
};

}  // namespace geminga
