#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "managed_ledger/ledger_chain.h"

namespace geminga {

std::vector<std::shared_ptr<ManagedCursor>> LedgerChain::cursors() const {
  std::vector<std::shared_ptr<ManagedCursor>> all;
  all.reserve(cursors_.size());
  for (const auto& [name, cursor] : cursors_) all.push_back(cursor);
  return all;
}

std::shared_ptr<ManagedCursor> LedgerChain::cursor(const std::string& name) const {
  const auto at = cursors_.find(name);
  return at == cursors_.end() ? nullptr : at->second;
}

Position LedgerChain::start_position(InitialPosition initial, std::optional<Position> start) const {
  Position next =
      initial == InitialPosition::Earliest ? list_.first_position() : list_.end_position();
  if (start) next = list_.normalize(*start);
  return list_.previous(next);
}

Task<Result<std::shared_ptr<ManagedCursor>>> LedgerChain::open_cursor(
    std::string name, InitialPosition initial, std::map<std::string, std::string> properties,
    std::optional<Position> start) {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  // Under the lock nothing is trimmed that the new cursor has yet to see.
  auto lock = co_await structure_.lock();
  if (const auto at = cursors_.find(name); at != cursors_.end()) {
    co_return std::shared_ptr<ManagedCursor>(at->second);
  }
  if (fenced()) co_return refusal_;
  if (closing_) co_return closed_status();
  auto cursor =
      std::make_shared<ChainCursor>(*this, name, std::make_unique<CursorStore>(env_, name_, name));
  Status created = co_await cursor->create(start_position(initial, start), std::move(properties));
  if (created.is(ErrorCode::Fenced)) fence(created);
  if (!created) co_return created.with_context("creating cursor " + name + " of " + name_);
  cursors_.emplace(std::move(name), cursor);
  co_return std::shared_ptr<ManagedCursor>(std::move(cursor));
}

Task<Status> LedgerChain::delete_cursor(std::string name) {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  auto lock = co_await structure_.lock();
  const auto at = cursors_.find(name);
  if (at == cursors_.end())
    co_return Status::NotFound("there is no cursor " + name + " of " + name_);
  if (fenced()) co_return refusal_;
  const std::shared_ptr<ChainCursor> cursor = at->second;
  Status removed = co_await cursor->remove_store();
  if (removed.is(ErrorCode::Fenced)) fence(removed);
  if (!removed) co_return removed.with_context("deleting cursor " + name + " of " + name_);
  cursors_.erase(name);
  schedule_trim();
  co_return Status::ok();
}

std::shared_ptr<ManagedCursor> LedgerChain::new_non_durable_cursor(std::string name,
                                                                   Position start) {
  auto cursor = std::make_shared<ChainCursor>(*this, std::move(name), nullptr);
  cursor->begin_at(list_.previous(list_.normalize(start)));
  non_durable_.push_back(cursor);
  return cursor;
}

void LedgerChain::remove_non_durable(const std::shared_ptr<ManagedCursor>& cursor) {
  const auto removed =
      std::erase_if(non_durable_, [&](const auto& held) { return held == cursor; });
  if (removed > 0) schedule_trim();
}

// ---- the flush timer ----

void LedgerChain::cursor_changed(ChainCursor& cursor, bool moved_to_another_ledger) {
  if (moved_to_another_ledger) trim_wanted_ = true;
  if (cursor.durable() && !cursor.listed_dirty) {
    cursor.listed_dirty = true;
    dirty_.push_back(cursor.shared_from_this());
  }
  if (!dirty_.empty() || trim_wanted_) schedule_flush();
}

void LedgerChain::schedule_flush() {
  if (flush_scheduled_ || closing_) return;
  auto inside = gate_.hold();
  if (!inside) return;
  if (!flush_timer_) flush_timer_.emplace(env_.shard->executor());
  flush_scheduled_ = true;
  flush_timer_->expires_after(Millis(std::max<std::int64_t>(config_.cursor_flush_ms, 1)));
  // Inside the gate: whoever closes waits for the handler, which a cancel only hastens.
  flush_timer_->async_wait(
      [this, inside = std::move(*inside)](const boost::system::error_code& cancelled) {
        flush_scheduled_ = false;
        if (!cancelled) flush_cursors();
      });
}

void LedgerChain::flush_cursors() {
  const std::int64_t now = now_ms();
  std::vector<std::shared_ptr<ChainCursor>> later;
  for (auto& cursor : std::exchange(dirty_, {})) {
    if (!cursor->dirty() || fenced()) {
      cursor->listed_dirty = false;
      continue;
    }
    if (!cursor->flush_due(now)) {
      later.push_back(std::move(cursor));
      continue;
    }
    spawn(*env_.shard, gate_, [this, cursor]() -> Task<void> {
      const Status status = co_await cursor->flush();
      cursor->listed_dirty = false;
      if (!status && !status.is(ErrorCode::Fenced)) {
        GM_LOG_WARN("cursor {} of {} could not be persisted, will be tried again: {}",
                    cursor->name(), name_, status.to_string());
      }
      if (cursor->dirty() && !fenced()) cursor_changed(*cursor, false);
    });
  }
  for (auto& cursor : later) dirty_.push_back(std::move(cursor));
  if (!dirty_.empty()) schedule_flush();
  if (std::exchange(trim_wanted_, false)) schedule_trim();
}

}  // namespace geminga
