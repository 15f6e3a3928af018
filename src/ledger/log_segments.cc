#include "ledger/log_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "ledger/log_newest.h"

namespace geminga {

namespace {

constexpr std::size_t kOpenFiles = 128;
// New files are filled with zeros in small pieces: what the disk has not written yet delays the
// next flush of the log. So fast while the log is slow (a flush then costs a third), else as fast
// as the open segment fills.
constexpr std::size_t kZeroChunk = 128 << 10;
constexpr std::uint64_t kFillBytesPerMs = 32 << 10;
// Flushes of so many bytes gain nothing from a filled file.
constexpr std::uint64_t kLargeFlush = 128 << 10;
// The next segment is prepared once the open one is so full.
constexpr std::uint64_t kPrepareAt = 8;  // an eighth
constexpr Millis kRetry{200};
// Free slots that are kept as files beside the spare; the rest goes back to the disk.
constexpr std::size_t kKeepFree = 4;
// Segments that only what is no data may begin.
constexpr std::uint64_t kKeptBack = 2;

std::uint64_t random_salt() {
  static thread_local std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

// What the preparing thread works on.
struct LogSegments::Preparation {
  log_format::SegmentHeader header;
  std::string name;
  bool new_file = false;
  bool zero_fill = false;
  std::atomic<bool> hurry{false};      // someone waits, or it is of no use: leave the rest unfilled
  std::atomic<bool> has_space{false};  // the file's space is taken from the disk
  bool filled = true;                  // a result, too
  // Bytes to have been filled by now, by the open segment's filling.
  std::atomic<std::uint64_t> due{0};
  std::shared_ptr<LogFile> file;  // the result
};

namespace {

// True if it was filled to the end.
Result<bool> fill_with_zeros(LogFile& file, std::uint64_t bytes, const std::atomic<bool>& hurry,
                             const std::atomic<std::uint64_t>& due) {
  AlignedMemory zeros(kZeroChunk);
  std::memset(zeros.span().data(), 0, kZeroChunk);
  const std::int64_t began = monotonic_ns();
  std::uint64_t at = 0;
  while (at < bytes && !hurry.load(std::memory_order_relaxed)) {
    const auto elapsed_ms = static_cast<std::uint64_t>((monotonic_ns() - began) / 1'000'000);
    if (at >= std::max(elapsed_ms * kFillBytesPerMs, due.load(std::memory_order_relaxed))) {
      std::this_thread::sleep_for(Millis(2));
      continue;
    }
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kZeroChunk, bytes - at));
    const IoSlice slice{zeros.span().data(), size};
    GM_RETURN_IF_ERROR(file.write(at, {&slice, 1}, false));
    at += size;
  }
  GM_RETURN_IF_ERROR(file.sync());
  return at >= bytes;
}

}  // namespace

LogSegments::LogSegments(Shard& shard, LogIo& io, LogFolder& folder, const LogStoreOptions& options,
                         LogCounters& counters)
    : shard_(shard),
      io_(io),
      folder_(folder),
      options_(options),
      counters_(counters),
      retry_timer_(shard.executor()),
      space_timer_(shard.executor()) {
  reserve_bytes_ = options.disk_reserve_bytes;
  if (reserve_bytes_ == 0) {
    reserve_bytes_ = 256 << 20;
    if (auto size = folder.disk_bytes()) {
      // 2 %, of a small disk up to a tenth: the metadata store needs some megabytes in any case.
      const std::uint64_t small = std::min<std::uint64_t>(32 << 20, *size / 10);
      reserve_bytes_ = std::min(reserve_bytes_, std::max(*size / 50, small));
    }
  }
}

LogSegments::~LogSegments() {
  *alive_ = false;
  if (preparing_) preparing_->hurry = true;
}

void LogSegments::adopt(std::shared_ptr<LogSegment> segment) {
  segments_[segment->sequence()] = std::move(segment);
}
void LogSegments::adopt_free(std::uint32_t slot) { free_.push_back(slot); }
void LogSegments::set_next(std::uint64_t next_sequence, std::uint32_t next_slot) {
  next_sequence_ = next_sequence;
  next_slot_ = next_slot;
}

std::shared_ptr<LogSegment> LogSegments::find(std::uint64_t sequence) const {
  auto found = segments_.find(sequence);
  return found == segments_.end() ? nullptr : found->second;
}

std::shared_ptr<LogSegment> LogSegments::new_segment() {
  auto segment = std::make_shared<LogSegment>();
  segment->header.alignment = folder_.alignment();
  segment->header.sequence = next_sequence_++;
  segment->header.salt = random_salt();
  segment->header.segment_bytes = options_.segment_bytes;
  segment->header.log_index = options_.log_index;
  segment->header.log_count = options_.log_count;
  segment->header.written_ms = now_ms();
  segment->seed = log_format::seed_of_salt(segment->header.salt);
  segment->index = std::make_shared<SegmentIndex>();
  segment->building = std::make_unique<LogSegment::Building>();
  return segment;
}

std::shared_ptr<LogSegment> LogSegments::begin() {
  if (!spare_) prepare_spare();
  std::shared_ptr<LogSegment> segment = std::move(spare_);
  if (preparing_) preparing_->hurry = true;
  segments_[segment->sequence()] = segment;
  first_ = false;
  check_space();
  return segment;
}

void LogSegments::prepare_spare() {
  if (spare_) return;
  spare_ = new_segment();
  start_preparing(spare_);
}

bool LogSegments::should_leave(const LogSegment& open, std::uint64_t at,
                               std::uint64_t flushes) const {
  return !open.filled && at < flushes * kLargeFlush && spare_ && spare_->ready && spare_->filled;
}

void LogSegments::progress(const LogSegment& open, std::uint64_t at, std::uint64_t flushes) {
  const bool large = at >= flushes * kLargeFlush;
  const std::uint64_t begin =
      open.filled || large ? options_.segment_bytes / kPrepareAt : log_format::kDataStart;
  if (at < begin) return;
  if (!spare_) {
    prepare_spare();
    if (large && preparing_) preparing_->hurry = true;
    return;
  }
  if (!preparing_) return;
  if (large) preparing_->hurry = true;
  // A quarter ahead, to be done before the open segment is full.
  preparing_->due.store((at - begin) * 5 / 4, std::memory_order_relaxed);
}

void LogSegments::note_newest(const LogSegment& open) {
  // Unsynced records may arrive on the disk after the note, or never.
  if (!options_.sync_data) return;
  const ListedSegment newest{open.slot, open.sequence()};
  io_.call([folder = &folder_, newest] { return note_newest_segment(*folder, newest); },
           [this, alive = alive_](const Status& status) {
             // The next start checks less, and is right all the same.
             if (*alive && !status)
               GM_LOG_WARN("log {}: noting the newest segment: {}", options_.label(),
                           status.to_string());
           });
}

void LogSegments::finish_preparing() {
  if (preparing_) preparing_->hurry = true;
}

void LogSegments::start_preparing(const std::shared_ptr<LogSegment>& segment) {
  auto how = std::make_shared<Preparation>();
  how->new_file = free_.empty();
  how->has_space = !how->new_file;
  if (how->new_file) {
    segment->slot = next_slot_++;
  } else {
    segment->slot = free_.back();
    free_.pop_back();
  }
  how->header = segment->header;
  how->name = segment_name(segment->slot);
  // The first of a run is wanted at once.
  how->filled = !options_.zero_fill || !how->new_file;
  how->zero_fill = options_.zero_fill && !first_;
  how->hurry = spare_ != segment;
  preparing_ = how;
  io_.call(
      [how, folder = &folder_, kept = kept_for_others()]() -> Status {
        if (!how->new_file) {
          GM_ASSIGN_OR_RETURN(how->file, folder->open(how->name, true));
          return write_segment_header(*how->file, how->header);
        }
        // Others need the disk, too: first of all the metadata store.
        const auto free = folder->free_bytes();
        if (free && *free < how->header.segment_bytes + kept) {
          return Status::DiskFull(fmt::format("no space left for a segment in {}: {} MiB are free",
                                              folder->path(), *free >> 20));
        }
        const std::string unfinished = how->name + ".new";
        GM_ASSIGN_OR_RETURN(how->file, folder->create(unfinished, how->header.segment_bytes));
        how->has_space = true;
        if (how->zero_fill) {
          GM_ASSIGN_OR_RETURN(how->filled, fill_with_zeros(*how->file, how->header.segment_bytes,
                                                           how->hurry, how->due));
        }
        GM_RETURN_IF_ERROR(write_segment_header(*how->file, how->header));
        GM_RETURN_IF_ERROR(how->file->sync());
        GM_RETURN_IF_ERROR(folder->rename(unfinished, how->name));
        return folder->sync();
      },
      [this, alive = alive_, segment, how](const Status& status) {
        if (*alive) prepared(segment, how, status);
      });
}

void LogSegments::prepared(const std::shared_ptr<LogSegment>& segment,
                           const std::shared_ptr<Preparation>& how, const Status& status) {
  if (preparing_ == how) preparing_.reset();
  if (attempted_) std::exchange(attempted_, nullptr)->set();
  if (!status) {
    if (!starved_) {
      GM_LOG_WARN("log {}: no segment: {}; trying again until there is one", options_.label(),
                  status.to_string());
    }
    // The slot's file may be half made: a new one is tried under another name.
    starved_ = true;
    check_space();
    retry_later(segment);
    if (on_ready_) on_ready_();
    return;
  }
  starved_ = false;
  ++(how->new_file ? counters_.segments_created : counters_.segments_recycled);
  segment->file = how->file;
  segment->filled = how->filled;
  segment->ready = true;
  remember_open(*segment);
  check_space();
  if (on_ready_) on_ready_();
}

Task<void> LogSegments::next_attempt() {
  if (!attempted_) attempted_ = std::make_shared<Event>();
  auto attempted = attempted_;
  co_await attempted->wait();
}

void LogSegments::retry_later(const std::shared_ptr<LogSegment>& segment) {
  waiting_.push_back(segment);
  if (waiting_.size() > 1) return;
  retry_timer_.expires_after(kRetry);
  retry_timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (error || !*alive) return;
    for (const auto& waiting : std::exchange(waiting_, {})) start_preparing(waiting);
  });
}

void LogSegments::remember_open(LogSegment& segment) {
  open_files_.push_back(segments_.contains(segment.sequence()) ? segments_[segment.sequence()]
                                                               : spare_);
  while (open_files_.size() > kOpenFiles) {
    const auto oldest = open_files_.front().lock();
    open_files_.pop_front();
    if (!oldest) continue;
    if (oldest->footed || oldest->freed) {
      oldest->file.reset();  // whoever reads it holds it
    } else {
      open_files_.push_back(oldest);
      break;
    }
  }
}

Result<std::shared_ptr<LogFile>> LogSegments::file(LogSegment& segment) {
  if (!segment.file) {
    GM_ASSIGN_OR_RETURN(segment.file, folder_.open(segment_name(segment.slot), true));
    remember_open(segment);
  }
  return segment.file;
}

void LogSegments::drop_live(std::uint64_t sequence, std::int64_t bytes) {
  const auto segment = find(sequence);
  if (!segment) return;
  segment->live_bytes -= bytes;
  maybe_free(*segment);
}

void LogSegments::footer_durable(LogSegment& segment) {
  segment.footed = true;
  segment.building.reset();
  if (segment.index) cache_index(segment, segment.index);
  maybe_free(segment);
}

void LogSegments::set_floor(std::uint64_t sequence) {
  floor_ = std::max(floor_, sequence);
  std::vector<std::shared_ptr<LogSegment>> candidates;
  for (const auto& [at, segment] : segments_) {
    if (at >= floor_) break;
    candidates.push_back(segment);
  }
  for (const auto& segment : candidates) maybe_free(*segment);
}

void LogSegments::maybe_free(LogSegment& segment) {
  if (segment.live_bytes > 0 || !segment.footed || segment.freed || segment.sequence() >= floor_)
    return;
  const auto held = find(segment.sequence());
  segment.freed = true;
  if (segment.index) {
    index_bytes_ -= segment.index->memory();
    indexes_.erase(segment.index_place);
    segment.index.reset();
  }
  segments_.erase(segment.sequence());
  if (on_free_) on_free_(segment);
  segment.file.reset();
  ++freeing_;
  // The slot says so itself before it is used again or goes, one after the other in the order of
  // freeing: so what recovery still finds of an old segment is never older than copies of it
  // (docs/format/log.md, "Ledgers").
  log_format::SegmentHeader mark = segment.header;
  mark.sequence = 0;
  mark.written_ms = now_ms();
  // What was used to its end is as good as filled.
  const bool filled = segment.filled || segment.data_end >= mark.segment_bytes / 8 * 7;
  io_.call(
      [folder = &folder_, mark, name = segment_name(segment.slot)]() -> Status {
        GM_ASSIGN_OR_RETURN(const auto file, folder->open(name, true));
        return write_segment_header(*file, mark);
      },
      [this, alive = alive_, slot = segment.slot,
       fits = filled && mark.segment_bytes == options_.segment_bytes &&
              mark.alignment == folder_.alignment()](const Status& status) {
        if (*alive) marked_free(slot, fits, status);
      });
}

void LogSegments::marked_free(std::uint32_t slot, bool fits, const Status& status) {
  --freeing_;
  if (!status) {
    // Its space comes back with the next start.
    GM_LOG_WARN("log {}: {} is not marked free: {}", options_.label(), segment_name(slot),
                status.to_string());
    return;
  }
  if (fits) {
    free_.push_back(slot);
    drop_surplus();
  } else {
    delete_file(slot);
  }
  check_space();
}

void LogSegments::delete_file(std::uint32_t slot) {
  io_.call(
      [folder = &folder_, name = segment_name(slot)] {
        const Status status = folder->remove(name);
        return status.is_ok() ? folder->sync() : status;
      },
      [this, alive = alive_](const Status& status) {
        if (!status) GM_LOG_WARN("{}", status.to_string());
        if (!*alive) return;
        ++counters_.segments_deleted;
        check_space();
      });
}

void LogSegments::drop_surplus() {
  // As many as a tenth of what is in use may wait for reuse.
  const std::size_t keep = std::max(kKeepFree, segments_.size() / 10);
  while (free_.size() > keep) {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    delete_file(slot);
  }
}

void LogSegments::check_space() {
  const auto free = folder_.free_bytes();
  if (!free) return;  // the next write will tell
  const bool spare = spare_ && (spare_->ready || (preparing_ && preparing_->has_space));
  const std::size_t files = free_.size() + (spare ? 1 : 0);
  const std::uint64_t room = *free + files * options_.segment_bytes;
  // All logs share the disk, and none makes a segment of what others need (start_preparing()).
  const std::uint64_t usable = *free - std::min(*free, kept_for_others());
  const std::uint64_t at_hand = files + usable / options_.segment_bytes / options_.log_count;
  const bool now = !starved_ && room > reserve_bytes_ && at_hand >= kKeptBack;
  if (now != writable_) {
    if (now) {
      GM_LOG_INFO("log {}: {} MiB free: publishing resumes", options_.label(), room >> 20);
    } else {
      GM_LOG_WARN(
          "log {}: {} MiB free on the disk of {}, kept back are {} segments and {} MiB: publishing "
          "stops until space is freed",
          options_.label(), room >> 20, folder_.path(), kKeptBack, reserve_bytes_ >> 20);
    }
  }
  writable_ = now;
  if (!writable_) watch_space();
}

void LogSegments::watch_space() {
  if (watching_space_) return;
  watching_space_ = true;
  space_timer_.expires_after(kRetry);
  space_timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (error || !*alive) return;
    watching_space_ = false;
    check_space();
  });
}

std::int64_t LogSegments::disk_bytes() const {
  std::int64_t bytes =
      static_cast<std::int64_t>((free_.size() + freeing_) * options_.segment_bytes);
  for (const auto& [sequence, segment] : segments_) {
    bytes += static_cast<std::int64_t>(segment->header.segment_bytes);
  }
  if (spare_) bytes += static_cast<std::int64_t>(options_.segment_bytes);
  return bytes;
}

void LogSegments::cache_index(LogSegment& segment, std::shared_ptr<SegmentIndex> index) {
  segment.index = std::move(index);
  index_bytes_ += segment.index->memory();
  segment.index_place = indexes_.insert(indexes_.end(), &segment);
  while (index_bytes_ > options_.index_cache_bytes && indexes_.size() > 1) {
    LogSegment* oldest = indexes_.front();
    indexes_.pop_front();
    index_bytes_ -= oldest->index->memory();
    oldest->index.reset();
  }
}

void LogSegments::used_index(LogSegment& segment) {
  if (segment.footed && segment.index)
    indexes_.splice(indexes_.end(), indexes_, segment.index_place);
}

}  // namespace geminga
