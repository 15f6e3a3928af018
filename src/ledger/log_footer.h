// The index at the end of a sealed segment (docs/format/log.md, "Footer"): which ledgers have which
// entries in it, in which write blocks, and what happened to ledgers there. Values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ledger/log_format.h"

namespace geminga {

// Consecutive entries of one ledger within one write block.
struct IndexPoint {
  LedgerId ledger = -1;
  EntryId first = -1;
  std::uint32_t block = 0;
  std::uint32_t count = 0;
};

// The blocks and points of one segment: what a cold read needs. Loaded on demand.
struct SegmentIndex {
  std::vector<std::uint32_t> blocks;  // where each write block starts, in sectors
  std::vector<IndexPoint> points;     // by ledger, then first entry
  std::uint64_t data_end = 0;

  // The block that holds the entry, if any does.
  std::optional<std::uint32_t> find(LedgerId ledger, EntryId entry) const;
  std::uint64_t block_begin(std::uint32_t block) const {
    return blocks[block] * log_format::kSector;
  }
  std::uint64_t block_end(std::uint32_t block) const {
    return block + 1 < blocks.size() ? block_begin(block + 1) : data_end;
  }
  std::size_t memory() const {
    return sizeof *this + blocks.capacity() * sizeof(std::uint32_t) +
           points.capacity() * sizeof(IndexPoint);
  }
};

// Consecutive entries of one ledger within one segment.
struct SegmentExtent {
  LedgerId ledger = -1;
  EntryId first = -1;
  EntryId last = -1;
  std::uint64_t payload_bytes = 0;
  std::uint64_t record_bytes = 0;
  std::int64_t messages_through = 0;
  bool moved = false;
};
struct CreatedLedger {
  LedgerId ledger = -1;
  std::uint32_t record_bytes = 0;
  bool moved = false;
  bool reserve = false;
};
struct SealedLedger {
  LedgerId ledger = -1;
  EntryId last = -1;
};

// What recovery needs of a segment.
struct SegmentSummary {
  std::uint64_t data_end = 0;
  log_format::SegmentStart start;
  LedgerId last_id = -1;
  std::vector<SegmentExtent> extents;  // by ledger, then first entry
  std::vector<CreatedLedger> created;
  std::vector<SealedLedger> sealed;
  std::vector<LedgerId> deleted;
};

namespace log_format {

// Sizes, to know when a segment is full.
std::uint64_t footer_bytes(std::size_t blocks, std::size_t points, std::size_t extents,
                           std::size_t events);
// The footer's bytes; they go to the end of the segment. Zeros are put in front to make a multiple
// of 4096.
std::vector<std::byte> encode_footer(const SegmentHeader& header, const SegmentSummary& summary,
                                     const SegmentIndex& index);

struct Trailer {
  std::uint64_t data_end = 0;
  std::uint64_t points_bytes = 0;
  std::uint64_t extents_bytes = 0;
  std::uint32_t points_crc = 0;
  std::uint32_t extents_crc = 0;
  std::uint32_t blocks = 0;
  std::uint32_t points = 0;
  std::uint32_t extents = 0;
  std::uint32_t created = 0;
  std::uint32_t sealed = 0;
  std::uint32_t deleted = 0;
  SegmentStart start;
  LedgerId last_id = -1;
};
// Empty if it is not the valid trailer of this use of the segment.
std::optional<Trailer> decode_trailer(std::span<const std::byte> bytes,
                                      const SegmentHeader& header);
// The parts, checked against the checksums of the trailer; Corruption if they do not match.
Result<SegmentSummary> decode_extents(const Trailer& trailer, std::span<const std::byte> bytes);
Result<SegmentIndex> decode_points(const Trailer& trailer, std::span<const std::byte> bytes);

}  // namespace log_format
}  // namespace geminga
