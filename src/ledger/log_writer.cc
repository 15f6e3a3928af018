#include "ledger/log_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace geminga {

using log_format::align_up;
using log_format::Kind;
using log_format::RecordHeader;

namespace {

constexpr std::size_t kCheckpointPart = 128 << 10;
// The log may grow by so many times the size of a checkpoint before the next.
constexpr std::uint64_t kCheckpointEvery = 16;
// How much may be written between two looks at the free space of the disk.
constexpr std::uint64_t kSpaceCheck = 16 << 20;

}  // namespace

LogWriter::LogWriter(Shard& shard, LogIo& io, LogSegments& segments, LogCache& cache,
                     const LogStoreOptions& options, LogCounters& counters)
    : shard_(shard),
      io_(io),
      segments_(segments),
      cache_(cache),
      options_(options),
      counters_(counters),
      max_payload_(std::min<std::size_t>(log_format::kMaxPayload,
                                         static_cast<std::size_t>(options.segment_bytes / 4))) {}

LogWriter::~LogWriter() { shard_.forget(*this); }

void LogWriter::resume(std::uint64_t previous, std::uint64_t previous_end, LedgerId last_id,
                       std::uint64_t checkpoint) {
  previous_ = previous;
  previous_end_ = previous_end;
  last_id_ = last_id;
  checkpoint_ = checkpoint;
}

LedgerId LogWriter::take_id() {
  const auto step = static_cast<LedgerId>(options_.log_count);
  const auto index = options_.first_ledger_id + static_cast<LedgerId>(options_.log_index);
  last_id_ = last_id_ < 0 ? index : last_id_ + step;
  return last_id_;
}

EntryId LogWriter::add_entry(const std::shared_ptr<LedgerState>& ledger,
                             std::span<const std::byte> payload, std::uint32_t messages,
                             AppendSink* sink) {
  RecordHeader header;
  header.kind = Kind::Entry;
  header.messages = messages;
  header.ledger = ledger->id;
  header.entry = ledger->last_added + 1;
  header.messages_through = ledger->messages_added + messages;
  const Place where = place(header, payload);
  // Only now: a checkpoint that place() wrote before the record must not promise it.
  ledger->last_added = header.entry;
  ledger->messages_added = header.messages_through;

  const std::uint64_t bytes = log_format::record_bytes(payload.size());
  const std::uint64_t sequence = open_->sequence();
  if (ledger->extents.empty() || ledger->extents.back().segment != sequence ||
      ledger->extents.back().moved) {
    ledger->extents.push_back({header.entry, header.entry, sequence, 0, 0, 0, false});
    ++open_->building->extents;
  }
  Extent& extent = ledger->extents.back();
  extent.last = header.entry;
  extent.payload_bytes += payload.size();
  extent.record_bytes += bytes;
  extent.messages_through = header.messages_through;
  segments_.add_live(*open_, static_cast<std::int64_t>(bytes));
  note_point(ledger, header.entry);
  cache_.note_written(*ledger, *where.block, header.entry,
                      static_cast<std::uint32_t>(where.offset - where.block->begin));

  batch_->acks.push_back(
      {ledger, sink, header.entry, messages, static_cast<std::uint32_t>(payload.size())});
  ++counters_.appends;
  counters_.append_bytes += payload.size();
  return header.entry;
}

void LogWriter::begin_moves(std::uint64_t sequence) {
  moves_from_ = log_format::source_of(sequence);
  // Extents of copies never cover two sources: recovery weighs them against what is left of one
  // source.
  split_moved_ = true;
}

std::uint64_t LogWriter::add_moved_entry(const std::shared_ptr<LedgerState>& ledger,
                                         const RecordHeader& header,
                                         std::span<const std::byte> payload) {
  RecordHeader copy = header;
  copy.source = moves_from_;
  place(copy, payload);
  const std::uint64_t bytes = log_format::record_bytes(payload.size());
  auto& extents = open_->building->summary.extents;
  if (split_moved_ || extents.empty() || extents.back().ledger != ledger->id ||
      extents.back().last + 1 != header.entry) {
    extents.push_back({ledger->id, header.entry, header.entry, 0, 0, 0, true});
    ++open_->building->extents;
    split_moved_ = false;
  }
  SegmentExtent& extent = extents.back();
  extent.last = header.entry;
  extent.payload_bytes += payload.size();
  extent.record_bytes += bytes;
  extent.messages_through = header.messages_through;
  segments_.add_live(*open_, static_cast<std::int64_t>(bytes));
  note_point(ledger, header.entry);
  return open_->sequence();
}

std::uint64_t LogWriter::add_event(Kind kind, const LedgerState& ledger,
                                   std::span<const std::byte> payload) {
  RecordHeader header;
  header.kind = kind;
  header.ledger = ledger.id;
  header.entry = kind == Kind::Created ? -1 : ledger.last_added;
  header.messages_through = kind == Kind::Created ? 0 : ledger.messages_added;
  return add_event(header, ledger.reserve, payload);
}

std::uint64_t LogWriter::add_moved_created(const LedgerState& ledger,
                                           std::span<const std::byte> payload) {
  RecordHeader header;
  header.kind = Kind::Created;
  header.source = moves_from_;
  header.ledger = ledger.id;
  return add_event(header, ledger.reserve, payload);
}

std::uint64_t LogWriter::add_event(const RecordHeader& header, bool reserve,
                                   std::span<const std::byte> payload) {
  place(header, payload);
  SegmentSummary& summary = open_->building->summary;
  ++open_->building->events;
  const auto bytes = static_cast<std::uint32_t>(log_format::record_bytes(payload.size()));
  switch (header.kind) {
    case Kind::Created:
      summary.created.push_back({header.ledger, bytes, header.moved(), reserve});
      segments_.add_live(*open_, bytes);
      break;
    case Kind::Sealed: summary.sealed.push_back({header.ledger, header.entry}); break;
    case Kind::Deleted: summary.deleted.push_back(header.ledger); break;
    case Kind::Entry:
    case Kind::Start:
    case Kind::Checkpoint: assert(false);
  }
  return open_->sequence();
}

void LogWriter::note_point(const std::shared_ptr<LedgerState>& ledger, EntryId entry) {
  const std::uint64_t sequence = open_->sequence();
  if (ledger->points_of != sequence) {
    ledger->points_of = sequence;
    ledger->points.clear();
    open_->building->touched.push_back(ledger);
  }
  auto& points = ledger->points;
  const std::uint32_t block = block_->ordinal;
  // Moved entries may come between the others: extend the point before the place, or make one
  // there.
  auto after = points.end();
  if (!points.empty() && points.back().first > entry) {
    after = std::upper_bound(points.begin(), points.end(), entry,
                             [](EntryId e, const OpenPoint& point) { return e < point.first; });
  }
  if (after != points.begin()) {
    OpenPoint& before = *std::prev(after);
    if (before.block == block && before.first + before.count == entry) {
      ++before.count;
      return;
    }
  }
  points.insert(after, {entry, block, 1});
  ++open_->building->points;
}

Task<Status> LogWriter::room() {
  while (!failed() && !(open_ && open_->ready) && !segments_.spare_ready()) {
    if (segments_.starved()) {
      co_return Status::DiskFull(
          fmt::format("no space left on the disk of log {}: free some, then it goes on by itself",
                      options_.label()));
    }
    co_await segments_.next_attempt();
  }
  co_return failure_;
}

void LogWriter::when_durable(Waiter waiter) {
  if (failed()) {
    shard_.post([waiter = std::move(waiter), status = failure_]() mutable { waiter(status); });
    return;
  }
  if (!batch_ && !closed_.empty()) {
    closed_.back()->waiters.push_back(std::move(waiter));
  } else if (!batch_ && flushing_) {
    flushing_->waiters.push_back(std::move(waiter));
  } else if (batch_) {
    batch_->waiters.push_back(std::move(waiter));
  } else {
    shard_.post([waiter = std::move(waiter)]() mutable { waiter(Status::ok()); });
  }
}

Task<Status> LogWriter::durable() {
  auto done = std::make_shared<Event>();
  auto result = std::make_shared<Status>();
  when_durable([done, result](const Status& status) {
    *result = status;
    done->set();
  });
  co_await done->wait();
  co_return *result;
}

// A record, and the footer that the segment would need after it.
bool LogWriter::fits(std::uint64_t bytes) const {
  const LogSegment::Building& building = *open_->building;
  const std::uint64_t footer =
      log_format::footer_bytes(open_->index->blocks.size() + 1, building.points + 1,
                               building.extents + 1, building.events + 1);
  const std::uint64_t end =
      align_up(align_up(at_, open_->header.alignment) + bytes, open_->header.alignment);
  return end + footer <= open_->header.segment_bytes;
}

LogWriter::Place LogWriter::place(const RecordHeader& header, std::span<const std::byte> payload) {
  const std::uint64_t bytes = log_format::record_bytes(payload.size());
  if (!open_ || !fits(bytes)) begin_segment();
  if (batch_ && at_ + bytes > batch_->begin + options_.max_batch_bytes) close_batch();
  if (!block_ || at_ + bytes > block_->begin + block_->memory->bytes) begin_block(bytes);
  if (!batch_) {
    batch_ = std::make_unique<Batch>();
    batch_->segment = open_;
    batch_->begin = at_;
    slice_begin_ = at_;
  }
  const Place where{at_, block_.get()};
  RecordHeader placed = header;
  placed.batch = static_cast<std::uint32_t>(batch_->begin / log_format::kSector);
  log_format::encode_record(placed, payload, open_->seed, at_,
                            block_->data() + (at_ - block_->begin));
  at_ += bytes;
  block_->size = static_cast<std::size_t>(at_ - block_->begin);
  batch_->bytes += bytes;
  pending_bytes_ += bytes;
  shard_.defer(*this);
  return where;
}

void LogWriter::begin_segment() {
  if (open_) seal_segment();
  open_ = segments_.begin();
  open_flushes_ = 0;
  at_ = log_format::kDataStart;
  std::vector<std::vector<std::byte>> checkpoint;
  if (checkpoint_ == 0 || since_checkpoint_ >= kCheckpointEvery * checkpoint_bytes_) {
    const auto ledgers = snapshot_();
    checkpoint = log_format::encode_checkpoint(ledgers, kCheckpointPart);
    const std::uint64_t total =
        std::max<std::uint64_t>(checkpoint.size(), 1) * (kCheckpointPart + 256);
    if (total > open_->header.segment_bytes / 2) {
      GM_LOG_ERROR(
          "log {}: a checkpoint of {} ledgers does not fit in a segment; space is not reclaimed; "
          "use larger segments",
          options_.label(), ledgers.size());
      checkpoint.clear();
    }
  }
  write_start(checkpoint);
}

void LogWriter::write_start(const std::vector<std::vector<std::byte>>& checkpoint) {
  const std::uint64_t sequence = open_->sequence();
  log_format::SegmentStart start;
  start.previous = previous_;
  start.previous_end = previous_end_;
  start.last_id = last_id_;
  start.checkpoint = checkpoint.empty() ? checkpoint_ : sequence;
  start.checkpoint_parts = static_cast<std::uint32_t>(checkpoint.size());
  open_->building->summary.start = start;
  std::byte bytes[log_format::kSegmentStart];
  log_format::encode(start, bytes);
  RecordHeader header;
  header.kind = Kind::Start;
  place(header, bytes);
  when_durable([segments = &segments_, segment = open_](const Status& status) {
    if (status) segments->note_newest(*segment);
  });
  if (checkpoint.empty()) return;

  header.kind = Kind::Checkpoint;
  checkpoint_bytes_ = 0;
  for (const auto& part : checkpoint) {
    ++header.entry;
    place(header, part);
    checkpoint_bytes_ += part.size();
  }
  checkpoint_ = sequence;
  since_checkpoint_ = 0;
  when_durable([segments = &segments_, sequence](const Status& status) {
    if (status) segments->set_floor(sequence);
  });
}

void LogWriter::begin_block(std::uint64_t bytes) {
  if (block_) end_block();
  at_ = align_up(at_, open_->header.alignment);
  const std::uint64_t capacity = std::max<std::uint64_t>(bytes, options_.block_bytes);
  block_ = cache_.new_write_block(static_cast<std::size_t>(capacity));
  block_->segment = open_->sequence();
  block_->ordinal = static_cast<std::uint32_t>(open_->index->blocks.size());
  block_->begin = at_;
  block_->seed = open_->seed;
  open_->index->blocks.push_back(static_cast<std::uint32_t>(at_ / log_format::kSector));
  cache_.insert(block_);
  slice_begin_ = at_;
}

// Zeros up to the alignment, and what the batch has of this block becomes a slice of its write.
void LogWriter::end_slice() {
  const std::uint64_t end = align_up(at_, open_->header.alignment);
  std::memset(block_->data() + (at_ - block_->begin), 0, static_cast<std::size_t>(end - at_));
  at_ = end;
  if (!batch_ || slice_begin_ == end) return;
  batch_->slices.push_back({block_->data() + (slice_begin_ - block_->begin),
                            static_cast<std::size_t>(end - slice_begin_)});
  batch_->blocks.push_back(block_);
  batch_->end = end;
  slice_begin_ = end;
}

void LogWriter::end_block() {
  end_slice();
  // Evictable once all of it is durable: with the batch that holds its end.
  Batch* last = batch_ ? batch_.get() : !closed_.empty() ? closed_.back().get() : flushing_.get();
  if (last != nullptr) {
    last->finished.push_back(std::move(block_));
  } else {
    cache_.finish(block_);
  }
  block_.reset();
}

void LogWriter::close_batch() {
  if (!batch_) return;
  if (block_) end_slice();
  closed_.push_back(std::move(batch_));
}

void LogWriter::seal_segment() {
  if (block_) end_block();
  close_batch();
  open_->sealed = true;
  open_->data_end = at_;
  previous_ = open_->sequence();
  previous_end_ = at_;
  since_checkpoint_ += open_->header.segment_bytes;

  // The points move from the ledgers into the segment.
  SegmentIndex& index = *open_->index;
  index.data_end = at_;
  SegmentSummary& summary = open_->building->summary;
  summary.data_end = at_;
  summary.last_id = last_id_;
  index.points.reserve(open_->building->points);
  for (const auto& ledger : open_->building->touched) {
    if (ledger->points_of != open_->sequence()) continue;
    if (!ledger->removed) {
      for (const OpenPoint& point : ledger->points) {
        index.points.push_back({ledger->id, point.first, point.block, point.count});
      }
      for (const Extent& extent : ledger->extents) {
        if (extent.segment != open_->sequence() || extent.moved) continue;
        summary.extents.push_back({ledger->id, extent.first, extent.last, extent.payload_bytes,
                                   extent.record_bytes, extent.messages_through, false});
      }
    }
    ledger->points_of = 0;
    ledger->points.clear();
    ledger->points.shrink_to_fit();
  }
  open_->building->touched.clear();
  const auto by_place = [](const auto& a, const auto& b) {
    return std::pair(a.ledger, a.first) < std::pair(b.ledger, b.first);
  };
  std::sort(index.points.begin(), index.points.end(), by_place);
  std::sort(summary.extents.begin(), summary.extents.end(), by_place);
  footers_in_flight_.push_back(open_);
  // With the last batch of the segment, or now if that is durable already.
  when_durable([this, segment = open_](const Status& status) {
    if (status) write_footer(segment);
  });
  open_.reset();
}

void LogWriter::write_footer(const std::shared_ptr<LogSegment>& segment) {
  const auto footer =
      log_format::encode_footer(segment->header, segment->building->summary, *segment->index);
  auto bytes = std::make_shared<AlignedMemory>(footer.size());
  std::memcpy(bytes->span().data(), footer.data(), footer.size());
  const std::uint64_t at = segment->header.segment_bytes - bytes->span().size();
  const auto file = segments_.file(*segment);
  const auto done = [this, segment, bytes](const Status& status) {
    std::erase(footers_in_flight_, segment);
    if (status) {
      segments_.footer_durable(*segment);
    } else {
      // The next start scans the segment; until then it is read through its index in memory.
      GM_LOG_WARN("log {}: no footer for {}: {}", options_.label(), segment_name(segment->slot),
                  status.to_string());
    }
    if (footers_in_flight_.empty() && idle_) idle_->set();
  };
  if (!file) {
    done(file.status());
    return;
  }
  io_.write(*file, at, {{bytes->span().data(), bytes->span().size()}}, true, done);
}

void LogWriter::run_deferred() {
  if (!failed() && !flushing_) flush();
}

void LogWriter::flush() {
  if (closed_.empty()) close_batch();
  if (closed_.empty()) return;
  if (!closed_.front()->segment->ready) {
    if (closing_ && segments_.starved())
      fail(Status::DiskFull("the disk has no room for a segment"));
    return;
  }
  flushing_ = std::move(closed_.front());
  closed_.pop_front();
  Batch& batch = *flushing_;
  batch.started_ns = monotonic_ns();
  // The file stays open while the segment is open.
  auto file = segments_.file(*batch.segment);
  if (!file) {
    fail(file.status());
    return;
  }
  io_.write(*file, batch.begin, std::move(batch.slices), options_.sync_data,
            [this](const Status& status) { flushed(status); });
}

void LogWriter::flushed(const Status& status) {
  if (!status) {
    fail(status);
    return;
  }
  const std::unique_ptr<Batch> batch = std::move(flushing_);
  flush_time_.record_ns(monotonic_ns() - batch->started_ns);
  ++counters_.flushes;
  counters_.flushed_bytes += batch->end - batch->begin;
  pending_bytes_ -= batch->bytes;
  for (const auto& block : batch->finished) cache_.finish(block);
  if ((counters_.flushed_bytes - (batch->end - batch->begin)) / kSpaceCheck !=
      counters_.flushed_bytes / kSpaceCheck) {
    segments_.check_space();
  }
  if (open_ && batch->segment == open_) {
    ++open_flushes_;
    if (!closing_) segments_.progress(*open_, at_, open_flushes_);
    if (segments_.should_leave(*open_, at_, open_flushes_)) seal_segment();
  }
  shard_.defer(*this);
  acknowledge(*batch, Status::ok());
}

void LogWriter::acknowledge(Batch& batch, const Status& status) {
  for (Ack& ack : batch.acks) {
    LedgerState& ledger = *ack.ledger;
    if (status) {
      ledger.last_confirmed = ack.entry;
      ledger.messages_confirmed += ack.messages;
      ledger.bytes_confirmed += ack.bytes;
    } else {
      ledger.failed = true;
    }
    if (ack.sink != nullptr) ack.sink->append_done(ledger.id, ack.entry, status);
  }
  for (Waiter& waiter : batch.waiters) waiter(status);
}

void LogWriter::fail(const Status& status) {
  GM_LOG_ERROR("log {}: {}; no further writes until a restart", options_.label(),
               status.to_string());
  failure_ = status.with_context(fmt::format("log {} has stopped", options_.label()));
  if (flushing_) acknowledge(*std::exchange(flushing_, nullptr), failure_);
  fail_pending();
}

void LogWriter::fail_pending() {
  std::deque<std::unique_ptr<Batch>> lost = std::move(closed_);
  closed_.clear();
  if (batch_) lost.push_back(std::move(batch_));
  for (const auto& batch : lost) acknowledge(*batch, failure_);
  footers_in_flight_.clear();
  if (idle_) idle_->set();
}

void LogWriter::abandon() {
  if (failed()) return;
  failure_ = Status::Cancelled(fmt::format("log {} was given up", options_.label()));
  fail_pending();
}

Task<Status> LogWriter::close() {
  closing_ = true;
  segments_.finish_preparing();
  if (!failed() && open_) seal_segment();
  shard_.defer(*this);
  const Status status = co_await durable();
  if (!failed() && !footers_in_flight_.empty()) {
    idle_ = std::make_shared<Event>();
    auto idle = idle_;
    co_await idle->wait();
  }
  co_return failed() ? failure_ : status;
}

}  // namespace geminga
