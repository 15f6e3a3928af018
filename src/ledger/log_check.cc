#include "ledger/log_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ledger/log_io.h"
#include "ledger/log_recovery.h"
#include "ledger/log_scan.h"

namespace geminga {

namespace {

using log_format::Kind;

class Checker {
 public:
  explicit Checker(LogFolder& folder) : folder_(folder) {}

  Result<DoctorReport> run() {
    GM_ASSIGN_OR_RETURN(const auto names, folder_.list());
    LogStoreOptions options;
    for (const std::string& name : names) {
      if (name.ends_with(".new")) {
        report_.notes.push_back(fmt::format("{}: unfinished; the next start deletes it", name));
      } else if (segment_slot(name)) {
        GM_RETURN_IF_ERROR(check_segment(name, options));
      }
    }
    const auto log = recover_log(folder_, options, true);
    report_.opens = log.is_ok();
    if (log) {
      report_.ledgers = log->ledgers.size();
    } else {
      report_.refusal = log.status().to_string();
    }
    return std::move(report_);
  }

 private:
  void damage(const std::string& file, std::uint64_t offset, std::string what) {
    report_.damage.push_back({file, offset, std::move(what)});
  }

  Status check_segment(const std::string& name, LogStoreOptions& options) {
    const auto file = read_segment_file(folder_, name, false);
    if (!file) {
      if (!file.is(ErrorCode::Corruption)) return file.status();
      damage(name, 0, file.status().message());
      return Status::ok();
    }
    options.log_index = file->header.log_index;
    options.log_count = report_.log_count = file->header.log_count;
    if (file->one_header_damaged) damage(name, 0, "one of the two copies of the header is damaged");
    if (file->header.sequence == 0) {
      ++report_.free_segments;
      return Status::ok();
    }
    ++report_.segments;
    AlignedMemory tail(4096);
    GM_RETURN_IF_ERROR(read_exactly(*file->file, file->header.segment_bytes - 4096, tail.span()));
    const auto trailer =
        log_format::decode_trailer(tail.span().subspan(4096 - log_format::kTrailer), file->header);
    if (!trailer) {
      report_.notes.push_back(
          fmt::format("{}: no footer; the next start scans it and writes one", name));
      return check_unsealed(*file);
    }
    return check_sealed(*file, *trailer);
  }

  Status check_sealed(const SegmentFile& file, const log_format::Trailer& trailer) {
    const std::uint64_t parts_at = file.header.segment_bytes - log_format::kTrailer -
                                   trailer.extents_bytes - trailer.points_bytes;
    const std::uint64_t from = parts_at / 4096 * 4096;
    AlignedMemory memory(static_cast<std::size_t>(file.header.segment_bytes - from));
    GM_RETURN_IF_ERROR(read_exactly(*file.file, from, memory.span()));
    const auto parts = memory.span().subspan(static_cast<std::size_t>(parts_at - from));
    const auto points_bytes = static_cast<std::size_t>(trailer.points_bytes);
    const auto index = log_format::decode_points(trailer, parts.first(points_bytes));
    if (!index) damage(file.name, parts_at, index.status().message());
    const auto summary = log_format::decode_extents(
        trailer, parts.subspan(points_bytes, static_cast<std::size_t>(trailer.extents_bytes)));
    if (!summary) damage(file.name, parts_at + trailer.points_bytes, summary.status().message());

    // Block by block where the blocks are known: each begins with a record.
    std::vector<std::uint64_t> begins;
    if (index) {
      for (std::uint32_t i = 0; i < index->blocks.size(); ++i)
        begins.push_back(index->block_begin(i));
    } else {
      begins.push_back(log_format::kDataStart);
    }
    const std::uint64_t entries_before = report_.entries;
    const std::size_t damage_before = report_.damage.size();
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const std::uint64_t end = i + 1 < begins.size() ? begins[i + 1] : trailer.data_end;
      GM_RETURN_IF_ERROR(check_range(file, begins[i], end));
    }
    if (index && summary && report_.damage.size() == damage_before) {
      std::uint64_t counted = 0;
      for (const IndexPoint& point : index->points) counted += point.count;
      // Ledgers that were deleted before the segment was sealed are not in its footer.
      if (counted > report_.entries - entries_before) {
        damage(file.name, parts_at,
               fmt::format("the footer counts {} entries, the segment has {}", counted,
                           report_.entries - entries_before));
      }
    }
    return Status::ok();
  }

  Status check_range(const SegmentFile& file, std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return Status::ok();
    FileWindow window(*file.file);
    RecordWalk walk(window, begin, end, log_format::seed_of_salt(file.header.salt),
                    file.header.alignment);
    for (auto step = walk.next(); step != RecordWalk::Step::End;) {
      if (step == RecordWalk::Step::Bad) {
        const std::uint64_t from = walk.offset();
        step = walk.resync();
        damage(file.name, from,
               fmt::format("a record's header is damaged; {} bytes cannot be read",
                           walk.offset() - from));
        continue;
      }
      count(file, walk);
      step = walk.next();
    }
    return walk.error();
  }

  // Up to the end of what looks written; what a torn flush left is no damage.
  Status check_unsealed(const SegmentFile& file) {
    FileWindow window(*file.file);
    RecordWalk walk(window, log_format::kDataStart, file.header.segment_bytes,
                    log_format::seed_of_salt(file.header.salt), file.header.alignment);
    auto step = walk.next();
    while (step == RecordWalk::Step::Record && walk.payload_valid()) {
      count(file, walk);
      step = walk.next();
    }
    const std::uint64_t stopped = walk.offset();
    bool torn = false;
    while (step != RecordWalk::Step::End) {
      step = walk.resync();
      if (step == RecordWalk::Step::End) break;
      if (walk.header().batch * log_format::kSector > stopped) {
        damage(file.name, stopped,
               fmt::format("a record is damaged; the next that can be read is at offset {}",
                           walk.offset()));
        while (step == RecordWalk::Step::Record) {
          count(file, walk);
          step = walk.next();
        }
        return walk.error();
      }
      torn = true;
    }
    if (torn) {
      report_.notes.push_back(
          fmt::format("{} offset {}: a flush was cut off by a crash; the next start drops the rest",
                      file.name, stopped));
    }
    return walk.error();
  }

  void count(const SegmentFile& file, const RecordWalk& walk) {
    const auto& header = walk.header();
    ++report_.records;
    report_.bytes += header.bytes();
    if (header.kind == Kind::Entry) ++report_.entries;
    if (walk.payload_valid()) return;
    damage(file.name, walk.offset(),
           header.kind == Kind::Entry
               ? fmt::format("the payload of entry {} of ledger {} is damaged", header.entry,
                             header.ledger)
               : fmt::format("the payload of a record of kind {} is damaged",
                             static_cast<int>(header.kind)));
  }

  LogFolder& folder_;
  DoctorReport report_;
};

}  // namespace

Result<DoctorReport> check_log(LogFolder& folder) { return Checker(folder).run(); }

Result<DoctorReport> check_log(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) {
    return Status::NotFound(fmt::format("{} is no folder of a log", folder));
  }
  GM_ASSIGN_OR_RETURN(const auto files, open_log_folder(folder, false, true));
  return check_log(*files);
}

}  // namespace geminga
