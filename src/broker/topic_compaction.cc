#include "broker/topic_compaction.h"

#include <charconv>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/async.h"

namespace geminga {

namespace {

// "NEW OLD": ids of ledgers, in decimal; empty where none is known yet.
std::vector<LedgerId> ledgers_in(const std::string& text) {
  std::vector<LedgerId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    LedgerId id = -1;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc()) break;
    ids.push_back(id);
    if (after == end) break;
    at = after + 1;
  }
  return ids;
}

LedgerId ledger_in(const ManagedCursor& cursor) {
  const auto& numbers = cursor.position_properties();
  const auto at = numbers.find(kCompactedLedgerProperty);
  return at == numbers.end() ? -1 : at->second;
}

}  // namespace

Task<Status> TopicCompaction::open() {
  const auto found = cursor();
  if (found == nullptr) co_return Status::ok();
  GM_CO_RETURN_IF_ERROR(co_await open_current(found.get()));
  if (current_ != nullptr) trim_later();
  if (!found->properties().contains(kRunProperty)) co_return Status::ok();
  GM_CO_RETURN_IF_ERROR(co_await remove_leftovers(found.get()));
  GM_LOG_INFO("{}: its compaction was cut off and begins anew", env_.topic);
  (void)start();  // nothing else runs yet
  co_return Status::ok();
}

// As Pulsar does when it loads a topic: what is compacted is seldom read again.
void TopicCompaction::trim_later() {
  spawn(env_.shard, env_.gate, [this]() -> Task<void> {
    const Status trimmed = co_await env_.log.trim();
    if (!trimmed)
      GM_LOG_WARN("{}: trimming what is compacted: {}", env_.topic, trimmed.to_string());
  });
}

Task<Status> TopicCompaction::open_current(const ManagedCursor* cursor) {
  const LedgerId id = ledger_in(*cursor);
  if (id < 0) co_return Status::ok();
  auto opened = co_await CompactedLedger::open(&env_.ledgers, id, cursor->mark_delete());
  if (opened.is(ErrorCode::NotFound)) {
    GM_LOG_ERROR(
        "{}: ledger {} with its compacted data is gone: readers of the compacted topic get what "
        "the "
        "log still has; compact it again to make good what can be",
        env_.topic, id);
    co_return Status::ok();
  }
  if (!opened) co_return opened.status().with_context("opening the compacted data");
  current_ = std::move(*opened);
  co_return Status::ok();
}

// Those of a run that was cut off or could not be ended. What the cursor says is on disk.
Task<Status> TopicCompaction::remove_leftovers(const ManagedCursor* cursor) {
  const auto at = cursor->properties().find(kRunProperty);
  if (at == cursor->properties().end()) co_return Status::ok();
  const LedgerId in_use = ledger_in(*cursor);
  const std::vector<LedgerId> ids = ledgers_in(at->second);
  for (const LedgerId id : ids) {
    if (id != in_use) GM_CO_RETURN_IF_ERROR(co_await env_.ledgers.remove(id));
  }
  co_return Status::ok();
}

Task<Status> TopicCompaction::hold_log() {
  if (cursor() != nullptr) co_return Status::ok();
  auto made = co_await env_.log.open_cursor(kCompactionCursor, InitialPosition::Earliest, {});
  if (!made) co_return made.status();
  env_.cursor_made(std::move(*made));
  co_return Status::ok();
}

Status TopicCompaction::start() {
  if (state_ == State::Running) return Status::Conflict("Compaction already in progress");
  if (stopped_) return Status::ServiceNotReady("Topic is temporarily unavailable");
  const State before = std::exchange(state_, State::Running);  // the task begins inside spawn()
  if (spawn(env_.shard, env_.gate, [this]() -> Task<void> { co_await run(); })) return Status::ok();
  state_ = before;
  return Status::ServiceNotReady("Topic is temporarily unavailable");
}

void TopicCompaction::start_if_over(std::int64_t threshold) {
  if (threshold <= 0 || state_ == State::Running || stopped_) return;
  const auto at = cursor();
  const std::int64_t bytes = at == nullptr ? env_.log.total_bytes() : at->backlog_bytes();
  if (bytes <= threshold) return;
  GM_LOG_INFO("{}: {} bytes are not compacted, more than the threshold of {}", env_.topic, bytes,
              threshold);
  (void)start();
}

Task<void> TopicCompaction::marked() {
  if (auto event = marked_) co_await event->wait();
}

Task<void> TopicCompaction::run() {
  const std::int64_t began = now_ms();
  marked_ = std::make_shared<Event>();
  const Status status = co_await run_once();
  if (auto event = std::exchange(marked_, nullptr)) event->set();
  if (status) {
    state_ = State::Success;
    last_error_.clear();
    stats_.last_succeeded_ms = now_ms();
    stats_.last_duration_ms = stats_.last_succeeded_ms - began;
    ++stats_.succeeded;
  } else {
    state_ = State::Error;
    last_error_ = status.message();
    stats_.last_failed_ms = now_ms();
    ++stats_.failed;
    GM_LOG_WARN("{}: compaction failed: {}", env_.topic, status.to_string());
  }
}

// Durable when it returns. Empty: no run.
Task<Status> TopicCompaction::mark_run(std::string value) {
  const auto at = cursor();
  if (at == nullptr) co_return Status::NotFound("the cursor of the compaction was deleted");
  auto properties = at->properties();
  properties[kRunProperty] = std::move(value);
  co_return co_await at->set_properties(std::move(properties));
}

Task<Status> TopicCompaction::run_once() {
  Position last = env_.log.last_confirmed();
  if (env_.max_read_position) last = std::min(last, env_.max_read_position());
  if (last.entry < 0 || (current_ != nullptr && last <= current_->horizon())) {
    co_return Status::ok();  // there is nothing new
  }
  GM_CO_RETURN_IF_ERROR(co_await hold_log());
  const auto held = cursor();
  if (held == nullptr) co_return Status::NotFound("the cursor of the compaction was deleted");
  // A write that goes through says that the cursor's key is as we know it, so that of a run that
  // could not be ended the right ledger is removed.
  const auto before = held->properties().find(kRunProperty);
  std::string leftovers = before == held->properties().end() ? std::string() : before->second;
  const bool any = !leftovers.empty();
  GM_CO_RETURN_IF_ERROR(co_await mark_run(std::move(leftovers)));
  if (any) {
    GM_CO_RETURN_IF_ERROR(co_await remove_leftovers(held.get()));
    GM_CO_RETURN_IF_ERROR(co_await mark_run(""));
  }
  std::exchange(marked_, nullptr)->set();
  CompactorOptions options = env_.options;
  options.meters = &meters_;
  Compactor compactor(env_.shard, env_.log, current_, last, std::move(options), stopped_);
  Status status = co_await compactor.choose();
  if (status) status = co_await write(&compactor, last);
  bytes_read_ += compactor.counts().bytes_read;
  messages_read_ += compactor.counts().messages_read;
  if (status) {
    const CompactionCounts& counts = compactor.counts();
    stats_.last_removed_messages = counts.messages_read - counts.messages_kept;
    stats_.removed_messages += stats_.last_removed_messages;
    GM_LOG_INFO("{}: compacted through {}: {} of {} messages kept, in {} passes", env_.topic,
                last.to_string(), counts.messages_kept, counts.messages_read, counts.passes);
  }
  // Stopped: the next to open the topic does it. Fenced: somebody else does.
  if (!status && (stopped_ || status.is(ErrorCode::Fenced))) co_return status;
  auto properties = held->properties();
  if (status) {
    properties.erase(kRunProperty);
    const Status unmarked = co_await held->set_properties(std::move(properties));
    if (!unmarked) {
      GM_LOG_WARN("{}: its compaction is done, but will be done again: {}", env_.topic,
                  unmarked.to_string());
    }
  } else if (const auto at = properties.find(kRunProperty);
             at != properties.end() && ledgers_in(at->second).empty()) {
    properties.erase(at);
    (void)co_await held->set_properties(
        std::move(properties));  // the first error is the one to tell
  }
  co_return status;
}

Task<Status> TopicCompaction::write(Compactor* compactor, Position last) {
  std::map<std::string, std::string> metadata = {{"application", "pulsar"},
                                                 {"component", "compacted-ledger"},
                                                 {"pulsar/compactedTopic", env_.topic},
                                                 {"pulsar/compactedTo", last.to_string()}};
  auto created = co_await env_.ledgers.create(std::move(metadata));
  if (!created) co_return created.status();
  const std::shared_ptr<Ledger> ledger = std::move(*created);
  const auto superseded = current_;
  std::string concerned = std::to_string(ledger->id());
  if (superseded != nullptr) concerned += " " + std::to_string(superseded->id());
  Status status = co_await mark_run(std::move(concerned));
  if (status) status = co_await compactor->write(ledger);
  std::shared_ptr<CompactedLedger> made;
  if (status) {
    auto opened = co_await CompactedLedger::of(ledger, last);
    status = opened.status();
    if (opened) made = std::move(*opened);
  }
  const auto held = cursor();
  if (status && held == nullptr) status = Status::NotFound("the cursor was deleted meanwhile");
  if (!status) {
    co_await remove_ledger(ledger->id());
    if (!stopped_ && held != nullptr) (void)co_await mark_run("");
    co_return status;
  }
  auto numbers = held->position_properties();
  numbers[kCompactedLedgerProperty] = ledger->id();
  // Should it fail, it may have taken effect all the same: both ledgers stay until that is known.
  GM_CO_RETURN_IF_ERROR(co_await held->commit(last, std::move(numbers)));
  current_ = std::move(made);
  if (superseded != nullptr) co_await remove_ledger(superseded->id());
  co_return status;
}

CompactionStats TopicCompaction::stats() const {
  CompactionStats stats = stats_;
  const std::int64_t now = monotonic_ns();
  stats.bytes_read_rate = meters_.bytes_read.per_second(now);
  stats.bytes_written_rate = meters_.bytes_written.per_second(now);
  stats.write_latency = meters_.write_latency;
  if (current_ != nullptr) {
    stats.entries = current_->entries();
    stats.bytes = current_->bytes();
  }
  return stats;
}

Task<Status> TopicCompaction::cursor_deleted() {
  const auto gone = std::exchange(current_, nullptr);
  if (gone != nullptr) co_await remove_ledger(gone->id());
  co_return Status::ok();
}

Task<void> TopicCompaction::remove_ledger(LedgerId id) {
  const Status removed = co_await env_.ledgers.remove(id);
  if (!removed) {
    GM_LOG_WARN("{}: ledger {} of its compaction is no longer used but could not be removed: {}",
                env_.topic, id, removed.to_string());
  }
}

Topic::LastMessage TopicCompaction::last_message(Topic::LastMessage of_log) const {
  if (current_ == nullptr || of_log.position > current_->horizon()) return of_log;
  return current_->last_message();
}

}  // namespace geminga
