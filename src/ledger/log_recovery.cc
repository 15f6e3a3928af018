#include "ledger/log_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/log.h"
#include "ledger/log_clean_list.h"
#include "ledger/log_io.h"
#include "ledger/log_newest.h"
#include "ledger/log_scan.h"

namespace geminga {

namespace {

// Reads trailer and extents in one go when they are not larger than this.
constexpr std::size_t kTailRead = 16 << 10;
// Of how many segments a footer can have been on its way in a crash, with some to spare.
constexpr std::size_t kNewest = 4;

struct Found {
  SegmentFile file;
  bool footed = false;
  ScannedSegment content;  // index only if scanned
};

class Recovery {
 public:
  Recovery(LogFolder& folder, const LogStoreOptions& options, bool read_only)
      : folder_(folder), options_(options), read_only_(read_only) {}

  Result<RecoveredLog> run() {
    GM_RETURN_IF_ERROR(read_files());
    GM_RETURN_IF_ERROR(check_newest_points());
    GM_RETURN_IF_ERROR(scan_unsealed());
    GM_RETURN_IF_ERROR(check_newest_is_there());
    GM_RETURN_IF_ERROR(build_ledgers());
    assign_extents();
    GM_RETURN_IF_ERROR(check_cover());
    GM_RETURN_IF_ERROR(recount_pieces());
    hand_over();
    return std::move(log_);
  }

 private:
  Status read_files();
  Status check_identity(const SegmentFile& file) const;
  Status check_clean_list() const;
  Result<bool> read_footer(Found& found);
  Status check_newest_points();
  Status scan_unsealed();
  Status check_newest_is_there() const;
  Status add_footer(Found& found);
  Status build_ledgers();
  void assign_extents();
  void add_extent(LedgerState& ledger, const SegmentExtent& extent, std::uint64_t sequence);
  Status recount_pieces();
  Status check_cover() const;
  void hand_over();
  std::shared_ptr<LedgerState>& ledger(LedgerId id);

  LogFolder& folder_;
  const LogStoreOptions& options_;
  const bool read_only_;
  RecoveredLog log_;
  std::map<std::uint64_t, Found> found_;  // by sequence
  std::optional<ListedSegment> noted_;    // the newest, as far as it was noted
  // Extents that are parts of what a footer says, by segment: ledger and first entry.
  std::map<std::uint64_t, std::vector<std::pair<LedgerId, EntryId>>> recount_;
};

Status Recovery::read_files() {
  GM_ASSIGN_OR_RETURN(const auto names, folder_.list());
  bool listed = false;
  for (const std::string& name : names) {
    if (name.ends_with(".new")) {
      if (!read_only_) GM_RETURN_IF_ERROR(folder_.remove(name));
      continue;
    }
    listed |= name == kCleanList;
    if (name == kNewestNote) {
      GM_ASSIGN_OR_RETURN(noted_, read_newest_note(folder_));
      if (!noted_) {
        GM_LOG_WARN("log {}: {} is damaged: if the newest segment is missing, it is not noticed",
                    options_.label(), name);
      }
    }
    const auto slot = segment_slot(name);
    if (!slot) continue;
    log_.next_slot = std::max(log_.next_slot, *slot + 1);
    Found found;
    GM_ASSIGN_OR_RETURN(found.file, read_segment_file(folder_, name, !read_only_));
    GM_RETURN_IF_ERROR(check_identity(found.file));
    if (found.file.one_header_damaged) {
      GM_LOG_WARN("log {}: {}: one copy of the header is damaged, the other is used",
                  options_.label(), name);
    }
    const std::uint64_t sequence = found.file.header.sequence;
    if (sequence == 0) {
      if (!read_only_) GM_RETURN_IF_ERROR(found.file.file->sync());
      log_.free_slots.push_back(*slot);
      continue;
    }
    GM_ASSIGN_OR_RETURN(found.footed, read_footer(found));
    log_.next_sequence = std::max(log_.next_sequence, sequence + 1);
    // Not every segment's file can stay open.
    if (found.footed) found.file.file.reset();
    if (!found_.emplace(sequence, std::move(found)).second) {
      return Status::Corruption(
          fmt::format("{} has the sequence {} of another segment", name, sequence));
    }
  }
  log_.closed = listed;
  if (listed) GM_RETURN_IF_ERROR(check_clean_list());
  if (read_only_) return Status::ok();
  // What the list says ends with the first change, so it goes before that.
  if (listed) GM_RETURN_IF_ERROR(folder_.remove(kCleanList));
  // After a kill of the process files, names and headers may be visible that a crash of the machine
  // would still undo. What is built upon must be durable: names here, headers of free slots above,
  // scanned segments below.
  return folder_.sync();
}

Status Recovery::check_clean_list() const {
  GM_ASSIGN_OR_RETURN(const auto segments, read_clean_list(folder_));
  for (const ListedSegment& segment : segments) {
    const auto found = found_.find(segment.sequence);
    if (found != found_.end() && found->second.file.slot == segment.slot) continue;
    return Status::Corruption(
        fmt::format("{}/{} is missing, or was replaced by another file: at the last shutdown it "
                    "was the segment with sequence {}; put it back",
                    folder_.path(), segment_name(segment.slot), segment.sequence));
  }
  return Status::ok();
}

Status Recovery::check_identity(const SegmentFile& file) const {
  if (file.header.log_index == options_.log_index && file.header.log_count == options_.log_count) {
    return Status::ok();
  }
  return Status::InvalidArgument(
      fmt::format("{}/{} belongs to log {} of {}, but is opened as log {} of {}; start with the "
                  "number of shards that the data "
                  "folder was made with",
                  folder_.path(), file.name, file.header.log_index, file.header.log_count,
                  options_.log_index, options_.log_count));
}

Result<bool> Recovery::read_footer(Found& found) {
  const auto& header = found.file.header;
  const std::size_t tail =
      std::min<std::size_t>(kTailRead, header.segment_bytes - log_format::kDataStart);
  AlignedMemory memory(tail);
  GM_RETURN_IF_ERROR(read_exactly(*found.file.file, header.segment_bytes - tail, memory.span()));
  const auto trailer =
      log_format::decode_trailer(memory.span().subspan(tail - log_format::kTrailer), header);
  if (!trailer) return false;
  const std::uint64_t need = trailer->extents_bytes + log_format::kTrailer;
  if (need > tail) {
    const auto size = static_cast<std::size_t>(log_format::align_up(need, 4096));
    memory = AlignedMemory(size);
    GM_RETURN_IF_ERROR(read_exactly(*found.file.file, header.segment_bytes - size, memory.span()));
  }
  const auto end = memory.span().size() - log_format::kTrailer;
  auto summary = log_format::decode_extents(
      *trailer, memory.span().subspan(end - static_cast<std::size_t>(trailer->extents_bytes),
                                      static_cast<std::size_t>(trailer->extents_bytes)));
  if (!summary) {
    GM_LOG_WARN("log {}: {}: {}; the segment is scanned instead", options_.label(), found.file.name,
                summary.status().message());
    return false;
  }
  found.content.summary = std::move(*summary);
  found.content.empty = false;
  return true;
}

// A footer that was on its way in a crash may be torn in its points, while what was read of it is
// whole.
Status Recovery::check_newest_points() {
  std::size_t left = kNewest;
  for (auto at = found_.rbegin(); at != found_.rend() && left > 0; ++at, --left) {
    Found& found = at->second;
    if (!found.footed) continue;
    GM_ASSIGN_OR_RETURN(found.file.file, folder_.open(found.file.name, !read_only_));
    const auto& header = found.file.header;
    AlignedMemory tail(4096);
    GM_RETURN_IF_ERROR(read_exactly(*found.file.file, header.segment_bytes - 4096, tail.span()));
    const auto trailer =
        log_format::decode_trailer(tail.span().subspan(4096 - log_format::kTrailer), header);
    if (!trailer) return Status::Io(fmt::format("{} changes while it is read", found.file.name));
    const std::uint64_t points_at = header.segment_bytes - log_format::kTrailer -
                                    trailer->extents_bytes - trailer->points_bytes;
    const std::uint64_t from = points_at / 4096 * 4096;
    AlignedMemory memory(static_cast<std::size_t>(
        log_format::align_up(points_at + trailer->points_bytes, 4096) - from));
    GM_RETURN_IF_ERROR(read_exactly(*found.file.file, from, memory.span()));
    const auto points = log_format::decode_points(
        *trailer, memory.span().subspan(static_cast<std::size_t>(points_at - from),
                                        static_cast<std::size_t>(trailer->points_bytes)));
    if (points) {
      found.file.file.reset();
    } else {
      found.footed = false;
      found.content = {};
    }
  }
  return Status::ok();
}

Status Recovery::scan_unsealed() {
  // From the newest down: what comes next tells where a segment ends.
  std::uint64_t known_previous = 0;
  std::uint64_t known_end = 0;
  for (auto at = found_.rbegin(); at != found_.rend(); ++at) {
    Found& found = at->second;
    const bool followed = known_previous == at->first;
    if (!found.footed) {
      ++log_.scanned_segments;
      GM_ASSIGN_OR_RETURN(found.content, scan_segment(found.file, followed ? known_end : 0));
      if (!found.content.empty && !read_only_) GM_RETURN_IF_ERROR(add_footer(found));
    }
    if (found.content.empty) continue;
    known_previous = found.content.summary.start.previous;
    known_end = found.content.summary.start.previous_end;
  }
  return Status::ok();
}

// What was noted had a durable first record, and no segment goes before a newer one is in use.
Status Recovery::check_newest_is_there() const {
  if (!noted_) return Status::ok();
  for (auto at = found_.rbegin(); at != found_.rend() && at->first >= noted_->sequence; ++at) {
    if (!at->second.content.empty) return Status::ok();
  }
  return Status::Corruption(fmt::format(
      "{}/{} is missing, or was replaced by another file: it was the newest segment, with sequence "
      "{}; put it back",
      folder_.path(), segment_name(noted_->slot), noted_->sequence));
}

Status Recovery::add_footer(Found& found) {
  const auto footer =
      log_format::encode_footer(found.file.header, found.content.summary, found.content.index);
  if (found.content.index.data_end + footer.size() > found.file.header.segment_bytes) {
    // The writer leaves room; this can only be a file that another program made.
    return Status::Corruption(fmt::format("{} offset {}: no room for the footer", found.file.name,
                                          found.content.index.data_end));
  }
  AlignedMemory memory(footer.size());
  std::memcpy(memory.span().data(), footer.data(), footer.size());
  const IoSlice slice{memory.span().data(), memory.span().size()};
  // What was found may so far be in the page cache only; it must not vanish after it was shown to
  // anyone.
  GM_RETURN_IF_ERROR(found.file.file->sync());
  GM_RETURN_IF_ERROR(
      found.file.file->write(found.file.header.segment_bytes - footer.size(), {&slice, 1}, true));
  found.footed = true;
  return Status::ok();
}

std::shared_ptr<LedgerState>& Recovery::ledger(LedgerId id) {
  auto& state = log_.ledgers[id];
  if (!state) state = std::make_shared<LedgerState>(id);
  return state;
}

Status Recovery::build_ledgers() {
  std::uint64_t from = 0;
  for (auto at = found_.rbegin(); at != found_.rend(); ++at) {
    const SegmentSummary& summary = at->second.content.summary;
    if (at->second.content.empty) continue;
    log_.previous = at->first;
    log_.previous_end = summary.data_end;
    from = summary.start.checkpoint;
    break;
  }
  if (log_.previous == 0) return Status::ok();
  auto start = found_.find(from);
  if (start == found_.end() || start->second.content.empty) {
    return Status::Corruption(fmt::format(
        "{}: the segment with sequence {}, which holds the newest checkpoint, is missing",
        folder_.path(), from));
  }
  log_.checkpoint = from;
  SegmentFile file = start->second.file;
  if (!file.file) {
    GM_ASSIGN_OR_RETURN(file.file, folder_.open(file.name, false));
  }
  const SegmentSummary& first = start->second.content.summary;
  GM_ASSIGN_OR_RETURN(const auto checkpoint, read_checkpoint(file, first.start, first.data_end));
  for (const auto& entry : checkpoint) {
    auto& state = ledger(entry.id);
    state->sealed = entry.sealed;
    state->reserve = entry.reserve;
    state->last_added = entry.last;
  }
  for (auto at = start; at != found_.end(); ++at) {
    const SegmentSummary& summary = at->second.content.summary;
    if (at->second.content.empty) continue;
    for (const CreatedLedger& created : summary.created)
      ledger(created.ledger)->reserve = created.reserve;
    for (const SealedLedger& sealed : summary.sealed) {
      ledger(sealed.ledger)->sealed = true;
      ledger(sealed.ledger)->last_added = sealed.last;
    }
    for (const LedgerId deleted : summary.deleted) log_.ledgers.erase(deleted);
    log_.last_id = std::max(log_.last_id, summary.last_id);
  }
  return Status::ok();
}

// Ascending by sequence; of an entry that stands in two segments the older copy counts
// (docs/format/log.md, "Ledgers"). Copies that were given up halfway make extents overlap in any
// way.
void Recovery::assign_extents() {
  for (auto& [sequence, found] : found_) {
    if (found.content.empty) continue;
    for (const SegmentExtent& extent : found.content.summary.extents) {
      auto at = log_.ledgers.find(extent.ledger);
      if (at != log_.ledgers.end()) add_extent(*at->second, extent, sequence);
    }
    for (const CreatedLedger& created : found.content.summary.created) {
      auto at = log_.ledgers.find(created.ledger);
      if (at == log_.ledgers.end() || at->second->created_in != 0) continue;
      at->second->created_in = sequence;
      at->second->created_bytes = created.record_bytes;
    }
  }
}

void Recovery::add_extent(LedgerState& ledger, const SegmentExtent& extent,
                          std::uint64_t sequence) {
  auto& extents = ledger.extents;
  std::vector<Extent> pieces;  // what no older extent covers
  EntryId next = extent.first;
  const auto piece_until = [&](EntryId end) {
    if (next >= end) return;
    pieces.push_back({next, end - 1, sequence, extent.payload_bytes, extent.record_bytes,
                      extent.messages_through, extent.moved});
  };
  for (const Extent& older : extents) {
    if (older.last < next) continue;
    if (older.first > extent.last) break;
    piece_until(older.first);
    next = older.last + 1;
  }
  piece_until(extent.last + 1);
  for (const Extent& piece : pieces) {
    if (piece.first != extent.first || piece.last != extent.last) {
      recount_[sequence].push_back({ledger.id, piece.first});
    }
    const auto after =
        std::upper_bound(extents.begin(), extents.end(), piece.first,
                         [](EntryId e, const Extent& other) { return e < other.first; });
    extents.insert(after, piece);
  }
}

// The sums of pieces of extents are in the records only.
Status Recovery::recount_pieces() {
  for (const auto& [sequence, pieces] : recount_) {
    std::map<std::pair<LedgerId, EntryId>, Extent*> sums;  // by first entry
    for (const auto& [id, first] : pieces) {
      for (Extent& extent : log_.ledgers.at(id)->extents) {
        if (extent.first != first || extent.segment != sequence) continue;
        extent.payload_bytes = extent.record_bytes = 0;
        sums[{id, first}] = &extent;
      }
    }
    Found& found = found_.at(sequence);
    GM_ASSIGN_OR_RETURN(const auto file, folder_.open(found.file.name, false));
    FileWindow window(*file);
    const auto& header = found.file.header;
    RecordWalk walk(window, log_format::kDataStart, found.content.summary.data_end,
                    log_format::seed_of_salt(header.salt), header.alignment);
    auto step = walk.next();
    for (; step == RecordWalk::Step::Record; step = walk.next()) {
      if (walk.header().kind != log_format::Kind::Entry) continue;
      const EntryId entry = walk.header().entry;
      auto after = sums.upper_bound({walk.header().ledger, entry});
      if (after == sums.begin()) continue;
      const auto& [key, extent] = *std::prev(after);
      if (key.first != walk.header().ledger || entry > extent->last) continue;
      extent->payload_bytes += walk.header().length;
      extent->record_bytes += walk.header().bytes();
      if (entry == extent->last) extent->messages_through = walk.header().messages_through;
    }
    GM_RETURN_IF_ERROR(walk.error());
    if (step == RecordWalk::Step::Bad) {
      return Status::Corruption(
          fmt::format("{} offset {}: a record is damaged; 'geminga doctor' lists all damage",
                      found.file.name, walk.offset()));
    }
  }
  return Status::ok();
}

Status Recovery::check_cover() const {
  for (const auto& [id, state] : log_.ledgers) {
    EntryId next = 0;
    for (const Extent& extent : state->extents) {
      if (extent.first != next) break;
      next = extent.last + 1;
    }
    const EntryId last = state->extents.empty() ? -1 : state->extents.back().last;
    if (next != std::max(last, state->last_added) + 1) {
      return Status::Corruption(
          fmt::format("{}: entries from {} on of ledger {}, up to {}, are in no segment: a segment "
                      "file is missing or was "
                      "replaced by an older one",
                      folder_.path(), next, id, std::max(last, state->last_added)));
    }
    if (state->created_in == 0) {
      return Status::Corruption(fmt::format(
          "{}: the record that created ledger {} is in no segment", folder_.path(), id));
    }
  }
  return Status::ok();
}

void Recovery::hand_over() {
  std::map<std::uint64_t, std::int64_t> live;
  for (auto& [id, state] : log_.ledgers) {
    for (const Extent& extent : state->extents) {
      live[extent.segment] += static_cast<std::int64_t>(extent.record_bytes);
      state->bytes_confirmed += static_cast<std::int64_t>(extent.payload_bytes);
    }
    live[state->created_in] += state->created_bytes;
    if (!state->extents.empty()) {
      state->last_added = state->extents.back().last;
      state->messages_added = state->extents.back().messages_through;
    }
    state->last_confirmed = state->last_added;
    state->messages_confirmed = state->messages_added;
  }
  for (auto& [sequence, found] : found_) {
    if (found.content.empty) {
      log_.free_slots.push_back(found.file.slot);
      continue;
    }
    auto segment = std::make_shared<LogSegment>();
    segment->header = found.file.header;
    segment->seed = log_format::seed_of_salt(segment->header.salt);
    segment->slot = found.file.slot;
    segment->ready = segment->sealed = segment->footed = true;
    segment->live_bytes = live[sequence];
    segment->data_end = found.content.summary.data_end;
    log_.segments.push_back(std::move(segment));
  }
}

}  // namespace

Result<RecoveredLog> recover_log(LogFolder& folder, const LogStoreOptions& options,
                                 bool read_only) {
  return Recovery(folder, options, read_only).run();
}

}  // namespace geminga
