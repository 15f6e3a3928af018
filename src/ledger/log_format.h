// The bytes of a log: docs/format/log.md. Encoding, decoding and validation; no I/O, no state. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/position.h"
#include "base/status.h"

namespace geminga::log_format {

inline constexpr std::size_t kHeaderCopy = 4096;
inline constexpr std::uint64_t kDataStart = 2 * kHeaderCopy;
inline constexpr std::size_t kRecordHeader = 48;
inline constexpr std::size_t kTrailer = 160;
inline constexpr std::uint64_t kMinSegment = 1 << 20;
inline constexpr std::uint64_t kMaxSegment = 1 << 30;
inline constexpr std::size_t kMaxPayload = 64 << 20;
inline constexpr std::uint64_t kSector = 512;

constexpr std::uint64_t align_up(std::uint64_t n, std::uint64_t to) {
  return (n + to - 1) / to * to;
}
// Space a record takes in the log.
constexpr std::uint64_t record_bytes(std::size_t payload) {
  return align_up(kRecordHeader + payload, 8);
}

struct SegmentHeader {
  std::uint32_t alignment = kSector;
  std::uint64_t sequence = 0;  // 0: the slot is free
  std::uint64_t salt = 0;
  std::uint64_t segment_bytes = 0;
  std::uint32_t log_index = 0;
  std::uint32_t log_count = 1;
  std::int64_t written_ms = 0;
};
// Into the first 64 bytes of `out`, which has kHeaderCopy bytes; the rest is zeroed.
void encode(const SegmentHeader& header, std::span<std::byte> out);
// Empty if invalid.
std::optional<SegmentHeader> decode_segment_header(std::span<const std::byte> copy);

std::uint32_t seed_of_salt(std::uint64_t salt);

enum class Kind : std::uint8_t {
  Entry = 1,
  Created = 2,
  Sealed = 3,
  Deleted = 4,
  Start = 5,
  Checkpoint = 6,
};

struct RecordHeader {
  Kind kind = Kind::Entry;
  // 0, or for a copy made by space reclaim which segment it was copied from: source_of(sequence).
  std::uint16_t source = 0;
  std::uint32_t length = 0;
  std::uint32_t batch = 0;
  std::uint32_t messages = 0;
  LedgerId ledger = -1;
  EntryId entry = -1;
  std::int64_t messages_through = 0;
  std::uint32_t payload_crc = 0;

  bool moved() const { return source != 0; }
  std::uint64_t bytes() const { return record_bytes(length); }
};
constexpr std::uint16_t source_of(std::uint64_t sequence) {
  return static_cast<std::uint16_t>(sequence % 0xffff + 1);
}
// Writes header, payload and the zeros behind it at `out` (record_bytes(payload.size()) bytes), for
// a record that stands at `offset` of the segment whose seed is `seed`. length and payload_crc are
// taken from `payload`.
void encode_record(const RecordHeader& header, std::span<const std::byte> payload,
                   std::uint32_t seed, std::uint64_t offset, std::byte* out);
// The record header at the front of `bytes`; empty if it is not valid there.
std::optional<RecordHeader> decode_record(std::span<const std::byte> bytes, std::uint32_t seed,
                                          std::uint64_t offset);
bool payload_valid(const RecordHeader& header, std::span<const std::byte> payload,
                   std::uint32_t seed, std::uint64_t offset);
// Fields of a header that is known to be valid (in memory since it was written or checked).
RecordHeader load_record(const std::byte* at);
bool all_zero(std::span<const std::byte> bytes);

struct SegmentStart {
  std::uint64_t previous = 0;
  std::uint64_t previous_end = 0;
  LedgerId last_id = -1;
  std::uint64_t checkpoint = 0;
  std::uint32_t checkpoint_parts = 0;
};
inline constexpr std::size_t kSegmentStart = 40;
void encode(const SegmentStart& start, std::span<std::byte> out);
SegmentStart decode_segment_start(std::span<const std::byte> bytes);

struct CheckpointLedger {
  LedgerId id = -1;
  bool sealed = false;
  bool reserve = false;
  EntryId last = -1;
};
// Parts of about `part_bytes`; at least one.
std::vector<std::vector<std::byte>> encode_checkpoint(std::span<const CheckpointLedger> ledgers,
                                                      std::size_t part_bytes);
Status decode_checkpoint(std::span<const std::byte> part, std::vector<CheckpointLedger>& out);

// Corruption if it is not such a map; InvalidArgument on encoding keys or values over 65,535 bytes.
Result<std::vector<std::byte>> encode_metadata(const std::map<std::string, std::string>& metadata);
Result<std::map<std::string, std::string>> decode_metadata(std::span<const std::byte> bytes);

}  // namespace geminga::log_format
