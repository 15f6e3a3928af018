// What is dropped: consumed ledgers beyond retention, everything (truncate), and the future
// (terminate).
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "managed_ledger/ledger_chain.h"

namespace geminga {

void LedgerChain::schedule_trim() {
  if (trim_running_ || closing_ || list_.size() < 2) return;
  trim_running_ = true;  // before the task, which begins inside spawn()
  const bool started = spawn(*env_.shard, gate_, [this]() -> Task<void> {
    auto lock = co_await structure_.lock();
    trim_running_ = false;
    auto dropped = co_await drop_before(first_kept_ledger());
    lock.unlock();
    if (dropped) {
      co_await remove_ledgers(std::move(*dropped));
    } else if (!dropped.is(ErrorCode::Fenced)) {
      GM_LOG_WARN("managed ledger {} could not be trimmed: {}", name_,
                  dropped.status().to_string());
    }
  });
  if (!started) trim_running_ = false;
}

LedgerId LedgerChain::first_needed_ledger() const {
  LedgerId first = list_.back().id;
  for (const auto& [name, cursor] : cursors_)
    first = std::min(first, cursor->first_unacked().ledger);
  for (const auto& cursor : non_durable_) first = std::min(first, cursor->first_unacked().ledger);
  return first;
}

LedgerId LedgerChain::first_kept_ledger() const {
  const LedgerId needed = first_needed_ledger();
  const std::int64_t now = now_ms();
  std::int64_t left = list_.total_bytes();
  for (const LedgerSlot& slot : list_) {
    if (slot.id >= needed) break;
    const bool by_time = config_.retention_ms < 0 ||
                         (config_.retention_ms > 0 && now - slot.closed_ms < config_.retention_ms);
    const bool by_size = config_.retention_bytes < 0 || left < config_.retention_bytes;
    if (by_time && by_size) return slot.id;
    left -= slot.bytes;
  }
  return needed;
}

Task<Result<std::vector<LedgerId>>> LedgerChain::drop_before(LedgerId id) {
  std::vector<LedgerId> dropped;
  if (fenced()) co_return refusal_;
  if (list_.front().id >= id) co_return dropped;
  Info info = info_;
  auto* ledgers = info.mutable_ledgerinfo();
  for (int i = ledgers->size() - 1; i >= 0; --i) {
    if (ledgers->Get(i).ledgerid() < id) ledgers->DeleteSubrange(i, 1);
  }
  Status status = co_await put_with_properties(std::move(info), properties_);
  if (status.is(ErrorCode::Fenced)) fence(status);
  GM_CO_RETURN_IF_ERROR(status);
  for (const LedgerSlot& slot : list_) {
    if (slot.id < id) dropped.push_back(slot.id);
  }
  list_.drop_before(id);
  for (const auto& [name, cursor] : cursors_) cursor->ledgers_dropped();
  for (const auto& cursor : non_durable_) cursor->ledgers_dropped();
  co_return dropped;
}

Task<Status> LedgerChain::trim() {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  auto lock = co_await structure_.lock();
  if (state_ == State::Open && !terminated_ && !terminating_ && list_.back().entries > 0 &&
      now_ms() - created_ms_ >= config_.max_rollover_ms) {
    GM_CO_RETURN_IF_ERROR(co_await switch_ledger());
  }
  auto dropped = co_await drop_before(first_kept_ledger());
  if (!dropped) co_return dropped.status();
  lock.unlock();
  co_await remove_ledgers(std::move(*dropped));
  co_return Status::ok();
}

Task<Status> LedgerChain::truncate() {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  auto lock = co_await structure_.lock();
  if (fenced()) co_return refusal_;
  if (!terminated_ && !terminating_ && list_.back().entries > 0) {
    GM_CO_RETURN_IF_ERROR(co_await switch_ledger());
  }
  for (const auto& [name, cursor] : cursors_) cursor->ack_cumulative(Position::latest());
  for (const auto& cursor : non_durable_) cursor->ack_cumulative(Position::latest());
  auto dropped = co_await drop_before(list_.back().id);
  if (!dropped) co_return dropped.status();
  lock.unlock();
  co_await remove_ledgers(std::move(*dropped));
  co_return Status::ok();
}

Task<Result<Position>> LedgerChain::terminate() {
  if (terminated_) co_return terminated_position_;
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  terminating_ = true;  // refuses new entries
  co_await drained();
  auto lock = co_await structure_.lock();
  if (terminated_) co_return terminated_position_;
  if (fenced()) co_return refusal_;
  Status status = co_await end_current();
  if (status) {
    const Position last = list_.last_confirmed();
    Info info = info_;
    put_ended(info);
    info.mutable_terminatedposition()->set_ledgerid(last.ledger);
    info.mutable_terminatedposition()->set_entryid(last.entry);
    status = co_await put_info(std::move(info));
    if (status) {
      terminated_position_ = last;
      terminated_ = true;
      terminating_ = false;
      state_ = State::Open;
      co_return last;
    }
  }
  terminating_ = false;
  if (status.is(ErrorCode::Fenced)) {
    fence(status);
  } else {
    no_ledger(status);
  }
  co_return status.with_context("terminating " + name_);
}

}  // namespace geminga
