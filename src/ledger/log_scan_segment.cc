#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ledger/log_io.h"
#include "ledger/log_recovery.h"
#include "ledger/log_scan.h"

namespace geminga {

using log_format::Kind;

namespace {

// How far behind the end of a segment's records valid ones are looked for: more than a batch can be
// long.
constexpr std::uint64_t kLookBehind = 16 << 20;

// Write blocks need not be known to read a segment back; a scan cuts its own.
constexpr std::uint64_t kScanBlock = 256 << 10;

// Collects what the footer of the scanned segment says.
class SummaryBuilder {
 public:
  void add(const RecordWalk& walk) {
    const log_format::RecordHeader& header = walk.header();
    switch (header.kind) {
      case Kind::Entry: add_entry(header); break;
      case Kind::Created: {
        const auto metadata = log_format::decode_metadata(walk.payload());
        const bool reserve = metadata && ledger_uses_reserve(*metadata);
        out.summary.created.push_back(
            {header.ledger, static_cast<std::uint32_t>(header.bytes()), header.moved(), reserve});
        out.summary.last_id = std::max(out.summary.last_id, header.ledger);
        break;
      }
      case Kind::Sealed: out.summary.sealed.push_back({header.ledger, header.entry}); break;
      case Kind::Deleted: out.summary.deleted.push_back(header.ledger); break;
      case Kind::Start: break;
      case Kind::Checkpoint: ++out.checkpoint_parts; break;
    }
  }

  // A record at an aligned offset may begin a block; it does when the block before is long enough.
  void at(std::uint64_t offset, std::uint32_t alignment) {
    auto& blocks = out.index.blocks;
    if (blocks.empty() ||
        (offset % alignment == 0 && offset - blocks.back() * log_format::kSector >= kScanBlock)) {
      blocks.push_back(static_cast<std::uint32_t>(offset / log_format::kSector));
    }
  }

  void finish(std::uint64_t end) {
    out.index.data_end = end;
    out.summary.data_end = end;
    const auto by_place = [](const auto& a, const auto& b) {
      return std::pair(a.ledger, a.first) < std::pair(b.ledger, b.first);
    };
    std::sort(out.index.points.begin(), out.index.points.end(), by_place);
    for (auto& [key, extent] : extents_) done_.push_back(extent);
    std::sort(done_.begin(), done_.end(), by_place);
    out.summary.extents = std::move(done_);
  }

  ScannedSegment out;

 private:
  void add_entry(const log_format::RecordHeader& header) {
    const auto block = static_cast<std::uint32_t>(out.index.blocks.size() - 1);
    auto [point, new_point] = points_.try_emplace({header.ledger, header.source}, 0);
    IndexPoint* last = new_point ? nullptr : &out.index.points[point->second];
    if (last != nullptr && last->block == block && last->first + last->count == header.entry) {
      ++last->count;
    } else {
      point->second = out.index.points.size();
      out.index.points.push_back({header.ledger, header.entry, block, 1});
    }
    auto [at, new_extent] = extents_.try_emplace({header.ledger, header.source});
    SegmentExtent& extent = at->second;
    if (!new_extent && extent.last + 1 != header.entry) {
      done_.push_back(extent);
      new_extent = true;
    }
    if (new_extent) extent = {header.ledger, header.entry, header.entry, 0, 0, 0, header.moved()};
    extent.last = header.entry;
    extent.payload_bytes += header.length;
    extent.record_bytes += header.bytes();
    extent.messages_through = header.messages_through;
  }

  // The last one of a ledger and source.
  std::map<std::pair<LedgerId, std::uint16_t>, std::size_t> points_;
  std::map<std::pair<LedgerId, std::uint16_t>, SegmentExtent> extents_;
  std::vector<SegmentExtent> done_;
};

Status damage(const SegmentFile& segment, std::uint64_t offset, const std::string& why) {
  return Status::Corruption(
      fmt::format("{} offset {}: a record is damaged, and {}; nothing was changed; 'geminga "
                  "doctor' lists all damage",
                  segment.name, offset, why));
}

}  // namespace

bool ledger_uses_reserve(const std::map<std::string, std::string>& metadata) {
  return metadata.contains("pulsar/cursor");
}

Result<SegmentFile> read_segment_file(LogFolder& folder, const std::string& name, bool writable) {
  SegmentFile segment;
  segment.name = name;
  segment.slot = segment_slot(name).value_or(0);
  GM_ASSIGN_OR_RETURN(segment.file, folder.open(name, writable));
  AlignedMemory memory(2 * log_format::kHeaderCopy);
  GM_RETURN_IF_ERROR(read_exactly(*segment.file, 0, memory.span()));
  const auto first =
      log_format::decode_segment_header(memory.span().first(log_format::kHeaderCopy));
  const auto second =
      log_format::decode_segment_header(memory.span().subspan(log_format::kHeaderCopy));
  if (!first && !second) {
    return Status::Corruption(
        fmt::format("{} offset 0: both copies of the segment's header are damaged", name));
  }
  segment.one_header_damaged = !first || !second;
  if (first && (!second || first->sequence >= second->sequence)) {
    segment.header = *first;
    // Written before the second copy; it counts when that is there too, or was never there.
    if (second && second->sequence != first->sequence) segment.one_header_damaged = true;
  } else {
    segment.header = *second;
  }
  GM_ASSIGN_OR_RETURN(const std::uint64_t size, segment.file->size());
  if (size < segment.header.segment_bytes) {
    return Status::Corruption(fmt::format("{} offset {}: the file ends here, {} bytes too early",
                                          name, size, segment.header.segment_bytes - size));
  }
  return segment;
}

Result<ScannedSegment> scan_segment(const SegmentFile& segment, std::uint64_t known_end) {
  const auto& header = segment.header;
  const std::uint32_t seed = log_format::seed_of_salt(header.salt);
  const std::uint64_t limit = known_end != 0 ? known_end : header.segment_bytes;
  SummaryBuilder builder;
  FileWindow window(*segment.file);
  RecordWalk walk(window, log_format::kDataStart, limit, seed, header.alignment);
  auto step = walk.next();
  std::uint64_t end = log_format::kDataStart;
  if (step == RecordWalk::Step::Record && walk.header().kind == Kind::Start &&
      walk.header().length >= log_format::kSegmentStart && walk.payload_valid()) {
    builder.out.empty = false;
    builder.out.summary.start = log_format::decode_segment_start(walk.payload());
    builder.out.summary.last_id = builder.out.summary.start.last_id;
  }
  bool bad_payload = false;
  while (step == RecordWalk::Step::Record) {
    bad_payload = !walk.payload_valid();
    if (bad_payload || builder.out.empty) break;
    builder.at(walk.offset(), header.alignment);
    builder.add(walk);
    end = walk.offset() + walk.header().bytes();
    step = walk.next();
  }
  GM_RETURN_IF_ERROR(walk.error());
  const std::uint64_t stopped = walk.offset();
  if (known_end != 0) {
    if (log_format::align_up(end, header.alignment) < known_end) {
      return damage(segment, stopped, fmt::format("the records go on to offset {}", known_end));
    }
  } else if (step != RecordWalk::Step::End) {
    // A torn tail, unless a later batch tells that this was durable.
    for (step = bad_payload ? walk.next() : walk.resync();
         step != RecordWalk::Step::End && walk.offset() < stopped + kLookBehind;) {
      if (step == RecordWalk::Step::Bad) {
        step = walk.resync();
        continue;
      }
      if (walk.header().batch * log_format::kSector > stopped) {
        return damage(segment, stopped,
                      fmt::format("a later record at offset {} shows that it had been written",
                                  walk.offset()));
      }
      step = walk.next();
    }
    GM_RETURN_IF_ERROR(walk.error());
  }
  if (known_end == 0 && builder.out.checkpoint_parts < builder.out.summary.start.checkpoint_parts) {
    // Torn within the checkpoint at its front: nothing behind it was ever acknowledged.
    builder.out.empty = true;
  }
  builder.finish(log_format::align_up(end, header.alignment));
  return std::move(builder.out);
}

Result<std::vector<log_format::CheckpointLedger>> read_checkpoint(
    const SegmentFile& segment, const log_format::SegmentStart& start, std::uint64_t data_end) {
  FileWindow window(*segment.file);
  RecordWalk walk(window, log_format::kDataStart, data_end,
                  log_format::seed_of_salt(segment.header.salt), segment.header.alignment);
  std::vector<log_format::CheckpointLedger> ledgers;
  std::uint32_t found = 0;
  while (found < start.checkpoint_parts && walk.next() == RecordWalk::Step::Record) {
    if (!walk.payload_valid())
      return damage(segment, walk.offset(), "it is part of the checkpoint");
    if (walk.header().kind != Kind::Checkpoint) continue;
    GM_RETURN_IF_ERROR(log_format::decode_checkpoint(walk.payload(), ledgers));
    ++found;
  }
  GM_RETURN_IF_ERROR(walk.error());
  if (found < start.checkpoint_parts) {
    return damage(segment, walk.offset(), "the checkpoint is not complete");
  }
  return ledgers;
}

}  // namespace geminga
