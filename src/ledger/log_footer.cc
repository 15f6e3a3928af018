#include "ledger/log_footer.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/crc32c.h"
#include "base/endian.h"

namespace geminga {

std::optional<std::uint32_t> SegmentIndex::find(LedgerId ledger, EntryId entry) const {
  auto after = std::upper_bound(points.begin(), points.end(), std::pair(ledger, entry),
                                [](const auto& key, const IndexPoint& point) {
                                  return key < std::pair(point.ledger, point.first);
                                });
  if (after == points.begin()) return std::nullopt;
  const IndexPoint& point = *std::prev(after);
  if (point.ledger != ledger || entry - point.first >= point.count) return std::nullopt;
  return point.block;
}

namespace log_format {

namespace {

constexpr char kFooterMagic[] = "GMFOOTv1";
constexpr std::size_t kPoint = 24;
constexpr std::size_t kExtent = 56;
constexpr std::size_t kEvent = 16;

std::uint64_t points_part(std::size_t blocks, std::size_t points) {
  return align_up(blocks * 4, 8) + points * kPoint;
}
std::uint64_t extents_part(std::size_t extents, std::size_t created, std::size_t sealed,
                           std::size_t deleted) {
  return extents * kExtent + (created + sealed) * kEvent + deleted * 8;
}
void put64(std::byte*& p, std::uint64_t value) {
  store_le64(p, value);
  p += 8;
}
void put64(std::byte*& p, std::int64_t value) { put64(p, static_cast<std::uint64_t>(value)); }
void put32(std::byte*& p, std::uint32_t value) {
  store_le32(p, value);
  p += 4;
}
std::uint64_t take64(const std::byte*& p) {
  const std::uint64_t value = load_le64(p);
  p += 8;
  return value;
}
std::int64_t take_i64(const std::byte*& p) { return static_cast<std::int64_t>(take64(p)); }
std::uint32_t take32(const std::byte*& p) {
  const std::uint32_t value = load_le32(p);
  p += 4;
  return value;
}

}  // namespace

std::uint64_t footer_bytes(std::size_t blocks, std::size_t points, std::size_t extents,
                           std::size_t events) {
  return align_up(points_part(blocks, points) + extents_part(extents, events, 0, 0) + kTrailer,
                  4096);
}

std::vector<std::byte> encode_footer(const SegmentHeader& header, const SegmentSummary& summary,
                                     const SegmentIndex& index) {
  const std::uint64_t points_bytes = points_part(index.blocks.size(), index.points.size());
  const std::uint64_t extents_bytes = extents_part(summary.extents.size(), summary.created.size(),
                                                   summary.sealed.size(), summary.deleted.size());
  const std::uint64_t total = align_up(points_bytes + extents_bytes + kTrailer, 4096);
  std::vector<std::byte> out(total);

  std::byte* const points = out.data() + (total - kTrailer - extents_bytes - points_bytes);
  std::byte* p = points;
  for (const std::uint32_t block : index.blocks) put32(p, block);
  p = points + align_up(index.blocks.size() * 4, 8);
  for (const IndexPoint& point : index.points) {
    put64(p, point.ledger);
    put64(p, point.first);
    put32(p, point.block);
    put32(p, point.count);
  }
  std::byte* const extents = p;
  for (const SegmentExtent& extent : summary.extents) {
    put64(p, extent.ledger);
    put64(p, extent.first);
    put64(p, extent.last);
    put64(p, extent.payload_bytes);
    put64(p, extent.record_bytes);
    put64(p, extent.messages_through);
    put64(p, std::uint64_t{extent.moved ? 1U : 0U});
  }
  for (const CreatedLedger& created : summary.created) {
    put64(p, created.ledger);
    put32(p, created.record_bytes);
    put32(p, (created.moved ? 1U : 0U) | (created.reserve ? 2U : 0U));
  }
  for (const SealedLedger& sealed : summary.sealed) {
    put64(p, sealed.ledger);
    put64(p, sealed.last);
  }
  for (const LedgerId deleted : summary.deleted) put64(p, deleted);

  std::byte* const trailer = p;
  std::memcpy(p, kFooterMagic, 8);
  p += 12;
  put32(p, crc32c({points, points_bytes}));
  put32(p, crc32c({extents, extents_bytes}));
  put32(p, static_cast<std::uint32_t>(index.blocks.size()));
  put64(p, header.sequence);
  put64(p, header.salt);
  put64(p, index.data_end);
  put64(p, points_bytes);
  put64(p, extents_bytes);
  encode(summary.start, {p, kSegmentStart});
  p += kSegmentStart;
  put64(p, summary.last_id);
  put32(p, static_cast<std::uint32_t>(index.points.size()));
  put32(p, static_cast<std::uint32_t>(summary.extents.size()));
  put32(p, static_cast<std::uint32_t>(summary.created.size()));
  put32(p, static_cast<std::uint32_t>(summary.sealed.size()));
  put32(p, static_cast<std::uint32_t>(summary.deleted.size()));
  store_le32(trailer + 8, crc32c({trailer + 12, kTrailer - 12}));
  return out;
}

std::optional<Trailer> decode_trailer(std::span<const std::byte> bytes,
                                      const SegmentHeader& header) {
  if (bytes.size() < kTrailer) return std::nullopt;
  const std::byte* p = bytes.data();
  if (std::memcmp(p, kFooterMagic, 8) != 0 || load_le32(p + 8) != crc32c({p + 12, kTrailer - 12})) {
    return std::nullopt;
  }
  p += 12;
  Trailer trailer;
  trailer.points_crc = take32(p);
  trailer.extents_crc = take32(p);
  trailer.blocks = take32(p);
  const std::uint64_t sequence = take64(p);
  const std::uint64_t salt = take64(p);
  if (sequence != header.sequence || salt != header.salt) return std::nullopt;
  trailer.data_end = take64(p);
  trailer.points_bytes = take64(p);
  trailer.extents_bytes = take64(p);
  trailer.start = decode_segment_start({p, kSegmentStart});
  p += kSegmentStart;
  trailer.last_id = take_i64(p);
  trailer.points = take32(p);
  trailer.extents = take32(p);
  trailer.created = take32(p);
  trailer.sealed = take32(p);
  trailer.deleted = take32(p);
  const bool sane = trailer.points_bytes == points_part(trailer.blocks, trailer.points) &&
                    trailer.extents_bytes == extents_part(trailer.extents, trailer.created,
                                                          trailer.sealed, trailer.deleted) &&
                    trailer.data_end >= kDataStart && trailer.data_end <= header.segment_bytes &&
                    trailer.points_bytes <= header.segment_bytes &&
                    trailer.extents_bytes <= header.segment_bytes &&
                    trailer.points_bytes + trailer.extents_bytes + kTrailer <=
                        header.segment_bytes - trailer.data_end;
  if (!sane) return std::nullopt;
  return trailer;
}

Result<SegmentSummary> decode_extents(const Trailer& trailer, std::span<const std::byte> bytes) {
  if (bytes.size() != trailer.extents_bytes || crc32c(bytes) != trailer.extents_crc) {
    return Status::Corruption("the footer's extents do not match their checksum");
  }
  SegmentSummary summary;
  summary.data_end = trailer.data_end;
  summary.start = trailer.start;
  summary.last_id = trailer.last_id;
  const std::byte* p = bytes.data();
  summary.extents.resize(trailer.extents);
  for (SegmentExtent& extent : summary.extents) {
    extent.ledger = take_i64(p);
    extent.first = take_i64(p);
    extent.last = take_i64(p);
    extent.payload_bytes = take64(p);
    extent.record_bytes = take64(p);
    extent.messages_through = take_i64(p);
    extent.moved = (take64(p) & 1) != 0;
    if (extent.first < 0 || extent.last < extent.first) {
      return Status::Corruption("the footer has an extent without entries");
    }
  }
  summary.created.resize(trailer.created);
  for (CreatedLedger& created : summary.created) {
    created.ledger = take_i64(p);
    created.record_bytes = take32(p);
    const std::uint32_t flags = take32(p);
    created.moved = (flags & 1) != 0;
    created.reserve = (flags & 2) != 0;
  }
  summary.sealed.resize(trailer.sealed);
  for (SealedLedger& sealed : summary.sealed) {
    sealed.ledger = take_i64(p);
    sealed.last = take_i64(p);
  }
  summary.deleted.resize(trailer.deleted);
  for (LedgerId& deleted : summary.deleted) deleted = take_i64(p);
  return summary;
}

Result<SegmentIndex> decode_points(const Trailer& trailer, std::span<const std::byte> bytes) {
  if (bytes.size() != trailer.points_bytes || crc32c(bytes) != trailer.points_crc) {
    return Status::Corruption("the footer's points do not match their checksum");
  }
  SegmentIndex index;
  index.data_end = trailer.data_end;
  const std::byte* p = bytes.data();
  index.blocks.resize(trailer.blocks);
  std::uint64_t before = 0;
  for (std::uint32_t& block : index.blocks) {
    block = take32(p);
    if (block <= before || block * kSector >= trailer.data_end) {
      return Status::Corruption("the footer's write blocks are not in order");
    }
    before = block;
  }
  p = bytes.data() + align_up(trailer.blocks * 4ULL, 8);
  index.points.resize(trailer.points);
  for (IndexPoint& point : index.points) {
    point.ledger = take_i64(p);
    point.first = take_i64(p);
    point.block = take32(p);
    point.count = take32(p);
    if (point.block >= trailer.blocks) {
      return Status::Corruption("a point of the footer names a block that does not exist");
    }
  }
  return index;
}

}  // namespace log_format
}  // namespace geminga
