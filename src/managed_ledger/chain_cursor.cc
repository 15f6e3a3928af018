#include "managed_ledger/chain_cursor.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/log.h"
#include "managed_ledger/ledger_chain.h"

namespace geminga {

namespace {

// States up to this size are written at every flush interval, larger ones in proportion less often
// (at most every kLongestFlushMs), so that a cursor with a hundred thousand holes does not fill the
// log.
constexpr std::int64_t kCheapState = 64 << 10;
constexpr std::int64_t kLongestFlushMs = 2000;
// After a failed write.
constexpr std::int64_t kRetryMs = 1000;

}  // namespace

ChainCursor::ChainCursor(LedgerChain& chain, std::string name, std::unique_ptr<CursorStore> store)
    : chain_(chain),
      name_(std::move(name)),
      state_(chain.list()),
      store_(std::move(store)),
      last_active_ms_(now_ms()) {}

Task<Status> ChainCursor::create(Position mark_delete,
                                 std::map<std::string, std::string> properties) {
  begin_at(mark_delete);
  co_return co_await store_->create(state_, std::move(properties), last_active_ms_);
}

Task<Status> ChainCursor::load() {
  const Status status = co_await store_->load(state_, position_properties_);
  if (!status) co_return status;
  last_active_ms_ = store_->stored_last_active_ms();
  count_if_needed();
  co_return Status::ok();
}

void ChainCursor::begin_at(Position mark_delete) {
  state_.reset(mark_delete);
  count_if_needed();
}

void ChainCursor::changed(LedgerId ledger_before) {
  ++changes_;
  last_active_ms_ = now_ms();
  count_if_needed();
  chain_.cursor_changed(*this, state_.needed_ledger() != ledger_before);
}

bool ChainCursor::ack(Position position, std::uint32_t messages) {
  const LedgerId before = state_.needed_ledger();
  if (!state_.ack(position, messages)) return false;
  changed(before);
  return true;
}

bool ChainCursor::ack_partly(Position position, std::span<const std::uint64_t> remaining,
                             std::uint32_t batch_size, std::uint32_t* newly_acked) {
  if (batch_size == 0) batch_size = batch_size_of(position);
  if (batch_size == 0) {
    // Not in memory: the batch is read, then what the client said holds.
    ack_partly_later(position, AckSet(remaining.begin(), remaining.end()));
    if (newly_acked != nullptr) *newly_acked = 0;
    return false;
  }
  const LedgerId before = state_.needed_ledger();
  bool completed = false;
  if (!state_.ack_partly(position, remaining, batch_size, newly_acked, &completed)) return false;
  changed(before);
  return completed;
}

std::uint32_t ChainCursor::batch_size_of(Position position) {
  if (!chain_.exists(position) || state_.is_acked(position)) return 1;  // ignored below
  const auto partial = state_.partials().find(position);
  if (partial != state_.partials().end() && partial->second.batch_size != 0) {
    return partial->second.batch_size;
  }
  std::vector<Entry> found;
  if (chain_.read_cached(position, 1, 1, found) == 0 || found.front().position != position)
    return 0;
  return found.front().messages;
}

void ChainCursor::ack_partly_later(Position position, AckSet remaining) {
  spawn(chain_.shard(), chain_.gate(),
        [self = shared_from_this(), position, remaining = std::move(remaining)]() -> Task<void> {
          auto read = co_await self->chain_.read(position, 1, 1);
          if (!read || read->empty() || read->front().position != position) {
            // Delivered again later: an acknowledgement too few does no harm.
            GM_LOG_WARN("{}: cursor {}: batch {} cannot be read to acknowledge part of it: {}",
                        self->chain_.name(), self->name(), position.to_string(),
                        read.status().to_string());
            co_return;
          }
          self->ack_partly(position, remaining, read->front().messages, nullptr);
        });
}

void ChainCursor::ack_cumulative(Position position) {
  const LedgerId before = state_.needed_ledger();
  if (state_.ack_cumulative(position)) changed(before);
}

void ChainCursor::count_redelivery(Position position) {
  const std::uint64_t not_kept = state_.redeliveries_not_kept();
  if (state_.count_redelivery(position)) {
    ++changes_;
    chain_.cursor_changed(*this, false);
  } else if (not_kept == 0 && state_.redeliveries_not_kept() > 0) {
    GM_LOG_WARN(
        "cursor {} of {}: {} entries have a redelivery count already, no more are counted until "
        "some of them are acknowledged",
        name_, chain_.name(), kMaxRedeliveryCounts);
  }
}

void ChainCursor::touch() { last_active_ms_ = now_ms(); }

void ChainCursor::set_position_properties(std::map<std::string, std::int64_t> properties) {
  if (properties == position_properties_) return;
  position_properties_ = std::move(properties);
  changed(state_.needed_ledger());
}

void ChainCursor::ledgers_dropped() {
  const Position before = state_.mark_delete();
  state_.ledgers_dropped();
  if (state_.mark_delete() != before) {
    ++changes_;
    count_if_needed();
    chain_.cursor_changed(*this, false);
  }
}

Task<Status> ChainCursor::reset(Position position) {
  const LedgerId before = state_.needed_ledger();
  const LedgerList& list = chain_.list();
  state_.reset(list.previous(list.normalize(position)));
  changed(before);
  co_return co_await flush();
}

Task<Status> ChainCursor::commit(Position mark_delete,
                                 std::map<std::string, std::int64_t> properties) {
  auto inside = chain_.gate().hold();
  if (!inside) co_return Status::Closed("the managed ledger " + chain_.name() + " is closed");
  auto lock = co_await writing_.lock();
  if (removed_)
    co_return Status::NotFound("the cursor " + name_ + " of " + chain_.name() + " is deleted");
  if (chain_.fenced()) co_return chain_.fence_status();
  const LedgerList& list = chain_.list();
  const Position through = list.previous(list.next(mark_delete));
  const std::uint64_t changes = changes_;
  if (store_ != nullptr) {
    CursorState next(list);
    next.reset(through);
    const Status status = co_await store_->write_in_key(next, properties, last_active_ms_);
    if (status.is(ErrorCode::Fenced)) chain_.fence(status);
    if (!status) co_return status;
  }
  const LedgerId before = state_.needed_ledger();
  position_properties_ = std::move(properties);
  state_.reset(through);
  changed(before);
  if (changes_ == changes + 1) persisted_ = changes_;  // nothing else happened meanwhile
  co_return Status::ok();
}

StoredStateLimits ChainCursor::limits() const {
  StoredStateLimits limits;
  limits.max_ranges = chain_.config().max_acked_ranges_to_persist;
  limits.max_batch_indexes = chain_.config().max_batch_indexes_to_persist;
  return limits;
}

Task<Status> ChainCursor::flush() {
  if (store_ == nullptr) co_return Status::ok();
  auto inside = chain_.gate().hold();
  if (!inside) co_return Status::Closed("the managed ledger " + chain_.name() + " is closed");
  auto lock = co_await writing_.lock();
  if (removed_ || !dirty()) co_return Status::ok();
  if (chain_.fenced()) co_return chain_.fence_status();
  const std::uint64_t persisting = changes_;
  const Status status =
      co_await store_->write(state_, position_properties_, limits(), last_active_ms_);
  if (status) {
    persisted_ = persisting;
  } else if (status.is(ErrorCode::Fenced)) {
    chain_.fence(status);
  }
  const auto size = static_cast<std::int64_t>(store_->last_state_bytes());
  std::int64_t pause =
      size <= kCheapState ? 0 : chain_.config().cursor_flush_ms * size / kCheapState;
  pause = status ? std::min(pause, kLongestFlushMs) : kRetryMs;
  next_flush_ms_ = pause == 0 ? 0 : now_ms() + pause;
  co_return status;
}

const std::map<std::string, std::string>& ChainCursor::properties() const {
  return store_ != nullptr ? store_->properties() : own_properties_;
}

Task<Status> ChainCursor::set_properties(std::map<std::string, std::string> properties) {
  if (store_ == nullptr) {
    own_properties_ = std::move(properties);
    co_return Status::ok();
  }
  auto inside = chain_.gate().hold();
  if (!inside) co_return Status::Closed("the managed ledger " + chain_.name() + " is closed");
  auto lock = co_await writing_.lock();
  if (removed_)
    co_return Status::NotFound("the cursor " + name_ + " of " + chain_.name() + " is deleted");
  if (chain_.fenced()) co_return chain_.fence_status();
  const Status status = co_await store_->set_properties(std::move(properties), last_active_ms_);
  if (status.is(ErrorCode::Fenced)) chain_.fence(status);
  co_return status;
}

Task<Status> ChainCursor::close_store() {
  if (store_ == nullptr || removed_) co_return Status::ok();
  auto lock = co_await writing_.lock();
  co_return co_await store_->close(state_, position_properties_, limits(), last_active_ms_,
                                   dirty());
}

Task<Status> ChainCursor::remove_store() {
  auto lock = co_await writing_.lock();
  if (removed_) co_return Status::ok();
  const Status status = co_await store_->remove();
  if (status) removed_ = true;
  co_return status;
}

// ---- counting messages ----

void ChainCursor::count_if_needed() {
  if (state_.exact() || counting_) return;
  counting_ = true;  // before the task, which begins inside spawn()
  if (!spawn(chain_.shard(), chain_.gate(),
             [self = shared_from_this()]() -> Task<void> { co_await self->count(); })) {
    counting_ = false;
  }
}

Task<void> ChainCursor::count() {
  while (!state_.exact() && !removed_) {
    state_.begin_count();
    bool complete = true;
    while (auto share = state_.next_share()) {
      const LedgerId ledger = share->ledger;
      const auto counted = co_await count_share(std::move(*share));
      if (!counted) {
        if (chain_.list().find(ledger) == nullptr) {  // trimmed meanwhile: begin again
          complete = false;
          break;
        }
        GM_LOG_WARN(
            "cursor {} of {}: messages in ledger {} cannot be counted, the backlog in messages is "
            "an "
            "estimate until the next acknowledgement: {}",
            name_, chain_.name(), ledger, counted.status().to_string());
        counting_ = false;
        co_return;
      }
      state_.add_counted(*counted);
    }
    if (complete) state_.end_count();
  }
  counting_ = false;
}

Task<Result<std::int64_t>> ChainCursor::count_share(CursorState::Share share) {
  std::int64_t messages = share.partly;
  const auto through = [&](EntryId entry) {
    return chain_.messages_through({share.ledger, entry});
  };
  if (share.through >= 0) {
    GM_CO_ASSIGN_OR_RETURN(const std::int64_t before, co_await through(-1));
    GM_CO_ASSIGN_OR_RETURN(const std::int64_t upto, co_await through(share.through));
    messages += upto - before;
  }
  for (const auto& [first, last] : share.ranges) {
    GM_CO_ASSIGN_OR_RETURN(const std::int64_t before, co_await through(first - 1));
    GM_CO_ASSIGN_OR_RETURN(const std::int64_t upto, co_await through(last));
    messages += upto - before;
  }
  for (const auto& [entry, left] : share.unsized) {
    GM_CO_ASSIGN_OR_RETURN(const std::int64_t before, co_await through(entry - 1));
    GM_CO_ASSIGN_OR_RETURN(const std::int64_t upto, co_await through(entry));
    messages += upto - before - left;
    messages += state_.sized({share.ledger, entry}, static_cast<std::uint32_t>(upto - before));
  }
  co_return messages;
}

}  // namespace geminga
