#include "ledger/log_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "ledger/log_recovery.h"
#include "ledger/log_scan.h"

namespace geminga {

namespace {

constexpr int kAttempts = 16;  // a segment may be freed while it is read

std::uint64_t fetch_key(const LogSegment& segment, std::uint32_t ordinal) {
  return segment.sequence() << 24 | ordinal;
}

}  // namespace

// Entries from `entry` on out of a run of a block. `bytes` and `out` grow.
std::size_t LogReader::copy_out(const Run& run, CachedBlock& block, EntryId entry,
                                std::size_t max_entries, std::size_t max_bytes, std::size_t& bytes,
                                std::vector<LedgerEntry>& out) {
  Block* const memory = block.memory->block;
  const std::size_t before = out.size();
  for (auto i = static_cast<std::size_t>(entry - run.first);
       i < run.offsets.size() && out.size() - before < max_entries; ++i, ++entry) {
    const std::size_t at = run.offsets[i];
    const log_format::RecordHeader header = log_format::load_record(memory->data() + at);
    if (bytes > 0 && bytes + header.length > max_bytes) break;
    bytes += std::max<std::size_t>(header.length, 1);
    out.push_back({entry, Buffer::share(memory, at + log_format::kRecordHeader, header.length),
                   header.messages});
  }
  return out.size() - before;
}

std::size_t LogReader::read_cached(const std::shared_ptr<LedgerState>& ledger, EntryId first,
                                   std::size_t max_entries, std::size_t max_bytes,
                                   std::vector<LedgerEntry>& out) {
  if (first < 0 || first > ledger->last_confirmed || ledger->removed) return 0;
  Run* run = ledger->run_of(first);
  if (run == nullptr) {
    ++counters_.cache_misses;
    return 0;
  }
  ++counters_.cache_hits;
  const auto available = static_cast<std::size_t>(ledger->last_confirmed - first + 1);
  std::size_t left = std::min(max_entries, available);
  Run* const end = ledger->runs.data() + ledger->runs.size();
  std::size_t bytes = 0;
  EntryId entry = first;
  EntryId ahead = -1;
  while (true) {
    CachedBlock& block = *run->block;
    if (block.cold) {
      cache_.used(block);
      // The first to go on in a block that was read from disk is a reader on its way.
      if (!std::exchange(block.read_on, true)) ahead = run->last() + 1;
    }
    const EntryId stop = std::min(run->last(), ledger->last_confirmed);
    const std::size_t count = copy_out(*run, block, entry, left, max_bytes, bytes, out);
    entry += static_cast<EntryId>(count);
    left -= count;
    if (left == 0 || entry <= stop || ++run == end || run->first != entry) break;
  }
  if (ahead >= 0) read_ahead(ledger, ahead);
  return static_cast<std::size_t>(entry - first);
}

Task<Result<std::vector<LedgerEntry>>> LogReader::read(std::shared_ptr<LedgerState> ledger,
                                                       EntryId first, std::size_t max_entries,
                                                       std::size_t max_bytes) {
  if (first < 0 || first > ledger->last_confirmed) {
    co_return Status::NotFound(fmt::format("ledger {} has entries 0 to {}, not {}", ledger->id,
                                           ledger->last_confirmed, first));
  }
  std::vector<LedgerEntry> entries;
  if (max_entries == 0) co_return entries;
  if (read_cached(ledger, first, max_entries, max_bytes, entries) > 0) co_return entries;
  auto found = co_await find(ledger, first);
  if (!found) {
    if (!found.is(ErrorCode::Closed)) ++counters_.read_errors;
    co_return found.status();
  }
  std::size_t bytes = 0;
  copy_out(found->run, *found->block, first, max_entries, max_bytes, bytes, entries);
  co_return entries;
}

// The entry and those behind it in its block, which is fetched if need be.
Task<Result<LogReader::Found>> LogReader::find(std::shared_ptr<LedgerState> ledger, EntryId entry) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto where = co_await locate(ledger, entry);
    if (!where) co_return where.status();
    auto block = co_await fetch(where->segment, where->index, where->ordinal);
    // What was read of a freed segment may be anything; the entry stands elsewhere, or nowhere any
    // more.
    if (where->segment->freed) continue;
    if (!block) co_return block.status();
    if (const Run* run = ledger->run_of(entry); run != nullptr && run->block == block->get()) {
      co_return Found{*block, *run};
    }
    Run run = scan_for(*ledger, **block, entry, where->segment->header.alignment);
    if (run.offsets.empty()) co_return damaged(*where->segment, **block, ledger->id, entry);
    cache_.add_run(*ledger, **block, run);
    co_return Found{*block, std::move(run)};
  }
  co_return Status::Closed(fmt::format("ledger {} keeps moving", ledger->id));
}

Task<Result<std::int64_t>> LogReader::messages_through(std::shared_ptr<LedgerState> ledger,
                                                       EntryId entry) {
  if (entry == -1) co_return std::int64_t{0};
  if (entry < -1 || entry > ledger->last_confirmed) {
    co_return Status::NotFound(fmt::format("ledger {} has entries 0 to {}, not {}", ledger->id,
                                           ledger->last_confirmed, entry));
  }
  if (entry == ledger->last_confirmed) co_return ledger->messages_confirmed;
  const Extent* extent = ledger->extent_of(entry);
  if (extent != nullptr && extent->last == entry) co_return extent->messages_through;
  const auto header_of = [entry](const Run& run, const CachedBlock& block) {
    return log_format::load_record(block.data() +
                                   run.offsets[static_cast<std::size_t>(entry - run.first)]);
  };
  if (const Run* run = ledger->run_of(entry))
    co_return header_of(*run, *run->block).messages_through;
  auto found = co_await find(ledger, entry);
  if (!found) co_return found.status();
  co_return header_of(found->run, *found->block).messages_through;
}

Task<Result<LogReader::Located>> LogReader::locate(std::shared_ptr<LedgerState> ledger,
                                                   EntryId entry) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (ledger->removed) co_return Status::Closed(fmt::format("ledger {} was deleted", ledger->id));
    const Extent* extent = ledger->extent_of(entry);
    const std::shared_ptr<LogSegment> segment =
        extent != nullptr ? segments_.find(extent->segment) : nullptr;
    if (!segment) {
      co_return Status::Corruption(
          fmt::format("entry {} of ledger {} is in no segment of this log", entry, ledger->id));
    }
    if (ledger->points_of == segment->sequence()) {
      const auto& points = ledger->points;
      auto after =
          std::upper_bound(points.begin(), points.end(), entry,
                           [](EntryId e, const OpenPoint& point) { return e < point.first; });
      if (after != points.begin() && entry - std::prev(after)->first < std::prev(after)->count) {
        co_return Located{segment, segment->index, std::prev(after)->block};
      }
    }
    auto index = co_await index_of(segment);
    if (segment->freed) continue;
    if (!index) co_return index.status();
    const auto ordinal = (*index)->find(ledger->id, entry);
    if (!ordinal) {
      co_return Status::Corruption(fmt::format("{}: the footer does not know entry {} of ledger {}",
                                               segment_name(segment->slot), entry, ledger->id));
    }
    co_return Located{segment, *index, *ordinal};
  }
  co_return Status::Closed(fmt::format("ledger {} keeps moving", ledger->id));
}

Task<Result<std::shared_ptr<SegmentIndex>>> LogReader::index_of(
    std::shared_ptr<LogSegment> segment) {
  if (segment->index) {
    segments_.used_index(*segment);
    co_return segment->index;
  }
  auto index = co_await read_index(segment);
  if (index.is(ErrorCode::Corruption) && !segment->freed) {
    GM_LOG_WARN("log {}: {}: {}; the segment is scanned", options_.label(),
                segment_name(segment->slot), index.status().message());
    index = co_await rebuild_index(segment);
  }
  if (!index) co_return index.status();
  if (segment->index) co_return segment->index;  // another read was faster
  if (!segment->freed) segments_.cache_index(*segment, *index);
  co_return index;
}

Task<Result<std::shared_ptr<SegmentIndex>>> LogReader::read_index(
    std::shared_ptr<LogSegment> segment) {
  const std::uint64_t size = segment->header.segment_bytes;
  AlignedMemory tail(4096);
  GM_CO_RETURN_IF_ERROR(co_await read_file(segment, size - 4096, tail.span()));
  const auto trailer =
      log_format::decode_trailer(tail.span().subspan(4096 - log_format::kTrailer), segment->header);
  if (!trailer) co_return Status::Corruption("the footer is damaged");
  const std::uint64_t points_at =
      size - log_format::kTrailer - trailer->extents_bytes - trailer->points_bytes;
  const std::uint64_t from = points_at / 4096 * 4096;
  AlignedMemory memory(static_cast<std::size_t>(
      log_format::align_up(points_at + trailer->points_bytes, 4096) - from));
  GM_CO_RETURN_IF_ERROR(co_await read_file(segment, from, memory.span()));
  auto index = log_format::decode_points(
      *trailer, memory.span().subspan(static_cast<std::size_t>(points_at - from),
                                      static_cast<std::size_t>(trailer->points_bytes)));
  if (!index) co_return index.status();
  co_return std::make_shared<SegmentIndex>(std::move(*index));
}

// From the records: a damaged footer must not make entries unreadable.
Task<Result<std::shared_ptr<SegmentIndex>>> LogReader::rebuild_index(
    std::shared_ptr<LogSegment> segment) {
  GM_CO_ASSIGN_OR_RETURN(auto file, segments_.file(*segment));
  SegmentFile as_file;
  as_file.name = segment_name(segment->slot);
  as_file.slot = segment->slot;
  as_file.file = std::move(file);
  as_file.header = segment->header;
  auto index = std::make_shared<SegmentIndex>();
  auto done = std::make_shared<Event>();
  auto result = std::make_shared<Status>();
  io_.call(
      [as_file, index, end = segment->data_end]() -> Status {
        GM_ASSIGN_OR_RETURN(auto scanned, scan_segment(as_file, end));
        *index = std::move(scanned.index);
        return Status::ok();
      },
      [done, result](Status status) {
        *result = std::move(status);
        done->set();
      });
  co_await done->wait();
  if (!result->is_ok()) co_return *result;
  // The scan may cut other blocks than the writer did, so what is cached by number is void.
  cache_.drop_segment(segment->sequence());
  co_return index;
}

Task<Status> LogReader::read_file(std::shared_ptr<LogSegment> segment, std::uint64_t offset,
                                  std::span<std::byte> into) {
  auto file = segments_.file(*segment);
  if (!file) co_return file.status();
  auto done = std::make_shared<Event>();
  auto result = std::make_shared<Status>();
  io_.read(*file, offset, into, [done, result](Status status) {
    *result = std::move(status);
    done->set();
  });
  co_await done->wait();
  co_return *result;
}

Task<Result<std::shared_ptr<CachedBlock>>> LogReader::fetch(std::shared_ptr<LogSegment> segment,
                                                            std::shared_ptr<SegmentIndex> index,
                                                            std::uint32_t ordinal) {
  if (auto block = cache_.find(segment->sequence(), ordinal)) co_return block;
  const std::uint64_t key = fetch_key(*segment, ordinal);
  if (auto found = fetching_.find(key); found != fetching_.end()) {
    auto fetch = found->second;
    co_await fetch->done.wait();
    co_return fetch->result;
  }
  auto fetch = std::make_shared<Fetch>();
  fetching_[key] = fetch;
  const std::uint64_t begin = index->block_begin(ordinal);
  const auto bytes = static_cast<std::size_t>(index->block_end(ordinal) - begin);
  auto block = cache_.new_cold_block(bytes);
  block->segment = segment->sequence();
  block->ordinal = ordinal;
  block->begin = begin;
  block->seed = segment->seed;
  block->size = bytes;
  const Status status = co_await read_file(segment, begin, {block->data(), bytes});
  if (status) {
    fetch->result = block;
    if (!segment->freed) {
      cache_.insert_cold(block);
      index_block(*block);
    }
  } else {
    fetch->result = status.with_context(fmt::format("offset {}", begin));
  }
  ++counters_.block_reads;
  counters_.block_read_bytes += bytes;
  fetching_.erase(key);
  fetch->done.set();
  co_return fetch->result;
}

// Checks all records and gives the entries to their ledgers.
void LogReader::index_block(CachedBlock& block) {
  const auto segment = segments_.find(block.segment);
  std::unordered_map<LedgerId, std::vector<Run>> found;
  RecordWalk walk({block.data(), block.size}, block.begin, block.seed, segment->header.alignment);
  LedgerId last_ledger = -1;
  std::vector<Run>* runs = nullptr;
  for (auto step = walk.next(); step != RecordWalk::Step::End;) {
    if (step == RecordWalk::Step::Bad) {
      block.damaged.push_back(walk.offset_in_block());
      step = walk.resync();
      continue;
    }
    const auto& header = walk.header();
    if (!walk.payload_valid()) {
      block.damaged.push_back(walk.offset_in_block());
    } else if (header.kind == log_format::Kind::Entry) {
      if (header.ledger != last_ledger || runs == nullptr) {
        last_ledger = header.ledger;
        runs = &found[last_ledger];
      }
      if (runs->empty() || runs->back().last() + 1 != header.entry) {
        runs->push_back({header.entry, nullptr, {}});
      }
      runs->back().offsets.push_back(walk.offset_in_block());
    }
    step = walk.next();
  }
  for (auto& [id, list] : found) {
    const auto ledger = lookup_(id);
    if (!ledger) continue;
    for (Run& run : list) {
      // A copy that is not (or no longer) the one in use must not hide the other.
      const Extent* extent = ledger->extent_of(run.first);
      if (extent != nullptr && extent->segment == block.segment)
        cache_.add_run(*ledger, block, std::move(run));
    }
  }
}

// The entry and those behind it in the block; empty if it is not there, or damaged.
Run LogReader::scan_for(const LedgerState& ledger, const CachedBlock& block, EntryId entry,
                        std::uint32_t alignment) {
  Run run;
  RecordWalk walk({block.data(), block.size}, block.begin, block.seed, alignment);
  for (auto step = walk.next(); step != RecordWalk::Step::End;) {
    if (step == RecordWalk::Step::Bad) {
      step = walk.resync();
      continue;
    }
    const auto& header = walk.header();
    const EntryId wanted = run.offsets.empty() ? entry : run.last() + 1;
    if (header.kind == log_format::Kind::Entry && header.ledger == ledger.id &&
        header.entry == wanted &&
        std::find(block.damaged.begin(), block.damaged.end(), walk.offset_in_block()) ==
            block.damaged.end()) {
      run.first = entry;
      run.offsets.push_back(walk.offset_in_block());
    }
    step = walk.next();
  }
  return run;
}

Status LogReader::damaged(const LogSegment& segment, const CachedBlock& block, LedgerId ledger,
                          EntryId entry) {
  const std::uint64_t offset = block.begin + (block.damaged.empty() ? 0 : block.damaged.front());
  return Status::Corruption(fmt::format(
      "{} offset {}: the record of entry {} of ledger {} is damaged; 'geminga doctor' lists all",
      segment_name(segment.slot), offset, entry, ledger));
}

void LogReader::read_ahead(const std::shared_ptr<LedgerState>& ledger, EntryId from) {
  if (ledger->prefetching || from > ledger->last_confirmed) return;
  ledger->prefetching =
      spawn(shard_, gate_, [this, ledger, from] { return fetch_ahead(ledger, from); });
}

Task<void> LogReader::fetch_ahead(std::shared_ptr<LedgerState> ledger, EntryId from) {
  for (std::size_t i = 0; i < options_.read_ahead_blocks && from <= ledger->last_confirmed; ++i) {
    if (const Run* run = ledger->run_of(from)) {
      from = run->last() + 1;
      continue;
    }
    auto found = co_await find(ledger, from);
    if (!found) break;  // the reader itself will meet the error and tell
    ++counters_.prefetches;
    from = found->run.last() + 1;
  }
  ledger->prefetching = false;
}

Task<void> LogReader::close() { co_await gate_.close(); }

}  // namespace geminga
