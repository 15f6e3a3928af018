#include "ledger/log_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/log.h"
#include "ledger/log_clean_list.h"
#include "ledger/log_ledger.h"
#include "ledger/log_reclaim.h"

namespace geminga {

using log_format::Kind;

namespace {

// Blocks that wait for reuse, so that writing does not touch fresh memory.
constexpr std::size_t kPooledBlocks = 8;

Status check_options(const LogStoreOptions& options) {
  const auto bad = [](std::string text) { return Status::InvalidArgument(std::move(text)); };
  if (options.log_count == 0 || options.log_index >= options.log_count) {
    return bad(fmt::format("log {} of {} does not exist", options.log_index, options.log_count));
  }
  if (options.segment_bytes < log_format::kMinSegment ||
      options.segment_bytes > log_format::kMaxSegment || options.segment_bytes % 4096 != 0) {
    return bad(fmt::format("a segment of {} bytes: allowed are multiples of 4096 from {} to {}",
                           options.segment_bytes, log_format::kMinSegment,
                           log_format::kMaxSegment));
  }
  if (options.block_bytes < 4096 || options.block_bytes % 4096 != 0 ||
      options.block_bytes > options.segment_bytes / 4) {
    return bad(fmt::format(
        "a write block of {} bytes: allowed are multiples of 4096 up to a quarter of a segment",
        options.block_bytes));
  }
  return Status::ok();
}

}  // namespace

LogStore::LogStore(Shard& shard, MemoryBudget& budget, LogStoreOptions options,
                   std::unique_ptr<LogIo> io, std::shared_ptr<LogFolder> folder)
    : shard_(shard),
      budget_(budget),
      options_(std::move(options)),
      folder_(std::move(folder)),
      segments_(shard, *io, *folder_, options_, counters_),
      cache_(BlockPool::make(budget, options_.block_bytes, kPooledBlocks),
             options_.least_cache_bytes, options_.cache_bytes, counters_),
      reader_(shard, *io, segments_, cache_, options_, counters_),
      writer_(shard, *io, segments_, cache_, options_, counters_),
      reclaim_(
          std::make_unique<LogReclaim>(shard, segments_, reader_, writer_, options_, counters_)),
      io_(std::move(io)) {
  reader_.on_lookup([this](LedgerId id) { return find(id); });
  reclaim_->on_lookup([this](LedgerId id) { return find(id); });
  writer_.on_checkpoint([this] { return snapshot(); });
  segments_.on_ready([this] { shard_.defer(writer_); });
  segments_.on_free([this](LogSegment& segment) { cache_.drop_segment(segment.sequence()); });
}

LogStore::~LogStore() { drop_handles(); }

void LogStore::start(RecoveredLog recovered) {
  ledgers_ = std::move(recovered.ledgers);
  after_crash_ = !recovered.closed && !ledgers_.empty();
  for (const std::uint32_t slot : recovered.free_slots) segments_.adopt_free(slot);
  for (auto& segment : recovered.segments) segments_.adopt(std::move(segment));
  segments_.set_next(recovered.next_sequence, recovered.next_slot);
  writer_.resume(recovered.previous, recovered.previous_end, recovered.last_id,
                 recovered.checkpoint);
  segments_.set_floor(recovered.checkpoint);
  segments_.check_space();
  segments_.prepare_spare();
  reclaim_->start();
}

std::shared_ptr<LedgerState> LogStore::find(LedgerId id) const {
  auto found = ledgers_.find(id);
  return found == ledgers_.end() ? nullptr : found->second;
}

std::vector<log_format::CheckpointLedger> LogStore::snapshot() const {
  std::vector<log_format::CheckpointLedger> ledgers;
  ledgers.reserve(ledgers_.size());
  for (const auto& [id, state] : ledgers_) {
    if (!state->removed) ledgers.push_back({id, state->sealed, state->reserve, state->last_added});
  }
  std::sort(ledgers.begin(), ledgers.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return ledgers;
}

std::shared_ptr<LogLedger> LogStore::handle_of(const std::shared_ptr<LedgerState>& state) {
  auto handle = state->handle.lock();
  if (!handle) {
    handle = std::make_shared<LogLedger>(this, state);
    state->handle = handle;
  }
  return handle;
}

Task<Result<std::shared_ptr<Ledger>>> LogStore::create(
    std::map<std::string, std::string> metadata) {
  const auto inside = gate_.hold();
  if (!inside) co_return Status::Closed("the log is closed");
  if (writer_.failed()) co_return writer_.failure();
  GM_CO_ASSIGN_OR_RETURN(const auto bytes, log_format::encode_metadata(metadata));
  if (bytes.size() > writer_.max_payload()) {
    co_return Status::InvalidArgument(
        fmt::format("ledger metadata of {} bytes is too large", bytes.size()));
  }
  GM_CO_RETURN_IF_ERROR(co_await writer_.room());
  // The id is taken after place() may have begun a segment, whose start must not name it; so the
  // ledger enters the table only behind the record, too.
  auto state = std::make_shared<LedgerState>(writer_.take_id());
  state->reserve = ledger_uses_reserve(metadata);
  state->created_in = writer_.add_event(Kind::Created, *state, bytes);
  state->created_bytes = static_cast<std::uint32_t>(log_format::record_bytes(bytes.size()));
  ledgers_[state->id] = state;
  auto handle = handle_of(state);
  const Status status = co_await writer_.durable();
  if (!status) {
    state->failed = true;
    ledgers_.erase(state->id);
    co_return status;
  }
  co_return std::shared_ptr<Ledger>(std::move(handle));
}

Task<Result<std::shared_ptr<Ledger>>> LogStore::open(LedgerId id) {
  const auto inside = gate_.hold();
  if (!inside) co_return Status::Closed("the log is closed");
  const auto state = find(id);
  if (!state || state->removed) {
    co_return Status::NotFound(
        fmt::format("ledger {} does not exist in log {}", id, options_.label()));
  }
  auto handle = handle_of(state);
  GM_CO_RETURN_IF_ERROR(co_await seal(state));
  co_return std::shared_ptr<Ledger>(std::move(handle));
}

Task<Status> LogStore::seal(std::shared_ptr<LedgerState> state) {
  const auto inside = gate_.hold();
  if (!inside) co_return Status::Closed("the log is closed");
  if (!state->sealed) {
    GM_CO_RETURN_IF_ERROR(co_await writer_.room());
  }
  if (state->removed) co_return Status::Closed(fmt::format("ledger {} was deleted", state->id));
  if (!state->sealed) {
    if (writer_.failed()) co_return writer_.failure();
    state->sealed = true;
    writer_.add_event(Kind::Sealed, *state, {});
    const Status status = co_await writer_.durable();
    if (!status) state->sealed = false;
    co_return status;
  }
  // Sealed long ago, or by a call that is still waiting.
  if (state->last_confirmed < state->last_added) co_return co_await writer_.durable();
  co_return Status::ok();
}

Task<Status> LogStore::remove(LedgerId id) {
  const auto inside = gate_.hold();
  if (!inside) co_return Status::Closed("the log is closed");
  const auto state = find(id);
  if (!state) co_return Status::ok();
  if (!state->removed) {
    if (writer_.failed()) co_return writer_.failure();
    // Marked behind the record: a segment that begins with it still lists the ledger.
    writer_.add_event(Kind::Deleted, *state, {});
    state->removed = true;
    state->sealed = true;
    cache_.drop_ledger(*state);
  }
  const Status status = co_await writer_.durable();
  if (status && ledgers_.erase(id) != 0) forget(*state);
  co_return status;
}

// Its space is free in time: now where a segment has nothing else that lives.
void LogStore::forget(LedgerState& state) {
  if (auto handle = state.handle.lock()) handle->store_ = nullptr;
  cache_.drop_ledger(state);
  // drop_live() may free a segment; the extents must not be needed any more then.
  const auto extents = std::move(state.extents);
  state.extents.clear();
  for (const Extent& extent : extents) {
    segments_.drop_live(extent.segment, static_cast<std::int64_t>(extent.record_bytes));
  }
  segments_.drop_live(state.created_in, state.created_bytes);
  reclaim_->look();
}

std::vector<LedgerId> LogStore::list() const {
  std::vector<LedgerId> ids;
  ids.reserve(ledgers_.size());
  for (const auto& [id, state] : ledgers_) {
    if (!state->removed) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

LedgerStats LogStore::stats() const {
  LedgerStats stats;
  stats.ledgers = static_cast<std::int64_t>(ledgers_.size());
  for (const auto& [sequence, segment] : segments_.all()) stats.live_bytes += segment->live_bytes;
  stats.disk_bytes = segments_.disk_bytes();
  stats.segments_in_use = static_cast<std::int64_t>(segments_.all().size());
  stats.segments_free = static_cast<std::int64_t>(segments_.free_slots());
  stats.appends = counters_.appends;
  stats.append_bytes = counters_.append_bytes;
  stats.flushes = counters_.flushes;
  stats.flush_time = &writer_.flush_time();
  return stats;
}

Task<Status> LogStore::close() {
  co_await reclaim_->stop();
  co_await gate_.close();
  co_await reader_.close();
  const Status status = co_await writer_.close();
  if (status) {
    // Without the list the next start checks less, and is right all the same.
    const Status listed = co_await list_segments();
    if (!listed) GM_LOG_WARN("log {}: {}", options_.label(), listed.to_string());
  }
  drop_handles();
  co_return status;
}

Task<Status> LogStore::list_segments() {
  auto segments = std::make_shared<std::vector<ListedSegment>>();
  for (const auto& [sequence, segment] : segments_.all())
    segments->push_back({segment->slot, sequence});
  if (segments->empty()) co_return Status::ok();
  auto done = std::make_shared<Event>();
  auto result = std::make_shared<Status>();
  io_->call([folder = folder_, segments] { return write_clean_list(*folder, *segments); },
            [done, result](const Status& status) {
              *result = status;
              done->set();
            });
  co_await done->wait();
  co_return *result;
}

Task<void> LogStore::abandon() {
  writer_.abandon();
  co_await reclaim_->stop();
  co_await gate_.close();
  co_await reader_.close();
  drop_handles();
}

void LogStore::drop_handles() {
  for (auto& [id, state] : ledgers_) {
    if (auto handle = state->handle.lock()) handle->store_ = nullptr;
  }
}

namespace {

// The largest entries of clients must fit (LogWriter takes a quarter of a segment).
constexpr std::uint64_t kSmallSegment = 32 << 20;

// What is kept back is counted in segments: on a small disk they are smaller.
void fit_segments(LogStoreOptions& options, LogFolder& folder) {
  const auto disk = folder.disk_bytes();
  if (!disk || *disk / 16 >= options.segment_bytes) return;
  options.segment_bytes = std::min(options.segment_bytes, kSmallSegment);
}

}  // namespace

Task<Result<std::unique_ptr<LogStore>>> open_log(Shard& shard, MemoryBudget& budget,
                                                 LogStoreOptions options) {
  GM_CO_RETURN_IF_ERROR(check_options(options));
  const std::int64_t began = monotonic_ns();
  std::unique_ptr<LogIo> io;
  if (options.make_io) {
    io = options.make_io(shard);
  } else {
    GM_CO_ASSIGN_OR_RETURN(io, make_log_io(shard, options.io));
  }
  auto folder = options.files;
  auto recovered = std::make_shared<Result<RecoveredLog>>(RecoveredLog());
  auto done = std::make_shared<Event>();
  auto failure = std::make_shared<Status>();
  io->call(
      [&options, &folder, recovered]() -> Status {
        if (!folder) {
          std::error_code error;
          std::filesystem::create_directories(options.folder, error);
          if (error) {
            return Status::Io(
                fmt::format("cannot make the folder {}: {}", options.folder, error.message()));
          }
          GM_ASSIGN_OR_RETURN(folder, open_log_folder(options.folder, options.direct_io, false));
        }
        fit_segments(options, *folder);
        *recovered = recover_log(*folder, options);
        return recovered->status();
      },
      [done, failure](Status status) {
        *failure = std::move(status);
        done->set();
      });
  co_await done->wait();
  if (!failure->is_ok()) co_return failure->with_context(fmt::format("log {}", options.label()));
  RecoveredLog& log = recovered->value();
  GM_LOG_INFO(
      "log {}: {} ledgers in {} segments ({} scanned), {} free, opened in {:.1f} ms, I/O by {}",
      options.label(), log.ledgers.size(), log.segments.size(), log.scanned_segments,
      log.free_slots.size(), static_cast<double>(monotonic_ns() - began) / 1e6, io->name());
  auto store = std::make_unique<LogStore>(shard, budget, std::move(options), std::move(io),
                                          std::move(folder));
  store->start(std::move(log));
  co_return store;
}

Task<Result<std::unique_ptr<LedgerStore>>> open_log_store(Shard& shard, MemoryBudget& budget,
                                                          LogStoreOptions options) {
  auto log = co_await open_log(shard, budget, std::move(options));
  if (!log) co_return log.status();
  co_return std::unique_ptr<LedgerStore>(std::move(log).value());
}

}  // namespace geminga
