// The path of entries, and how a ledger ends and the next one begins.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <cassert>

#include "base/clock.h"
#include "base/log.h"
#include "managed_ledger/ledger_chain.h"

namespace geminga {

namespace {

// After a failure to make a ledger, entries are refused for so long before the next attempt.
constexpr std::int64_t kRetryMs = 500;
// So many ledgers in a row without one durable entry, and what waits is refused.
constexpr int kMaxFailedLedgers = 3;

}  // namespace

void LedgerChain::append(const Buffer& entry, std::uint32_t messages) {
  pending_.push_back({entry, std::max(messages, 1U), Pending::Stage::Waiting, -1, nullptr});
  Pending& added = pending_.back();
  if (state_ == State::Fenced) return refuse(added, refusal_);
  if (closing_ || state_ == State::Closed || state_ == State::Opening)
    return refuse(added, closed_status());
  if (terminating_ || terminated_) {
    return refuse(added, Status::TopicTerminated("the managed ledger " + name_ + " is terminated"));
  }
  if (state_ == State::NoLedger) {
    if (now_ms() < retry_ms_) return refuse(added, refusal_);
    start_switch();
  }
  if (state_ == State::Open && current_is_full()) start_switch();
  if (state_ == State::Open) submit(added);
}

bool LedgerChain::current_is_full() {
  const bool full = submitted_entries_ >= config_.max_entries_per_ledger ||
                    submitted_bytes_ >= config_.max_bytes_per_ledger;
  // The clock is asked for every 64th entry only, as long as it decides nothing else.
  if (!full && submitted_entries_ % 64 != 0) return false;
  if (submitted_entries_ == 0) return false;
  const std::int64_t age = now_ms() - created_ms_;
  return age >= config_.max_rollover_ms || (full && age >= config_.min_rollover_ms);
}

void LedgerChain::submit(Pending& entry) {
  auto queued = current_->append(entry.data, entry.messages, this);
  if (queued) {
    entry.stage = Pending::Stage::Submitted;
    entry.entry = *queued;
    ++in_flight_;
    ++submitted_entries_;
    submitted_bytes_ += static_cast<std::int64_t>(entry.data.size());
  } else if (queued.is(ErrorCode::DiskFull) || queued.is(ErrorCode::InvalidArgument) ||
             queued.is(ErrorCode::NoMemory)) {
    refuse(entry, queued.status());
  } else if (queued.is(ErrorCode::Fenced)) {
    fence(queued.status());
  } else {
    current_failed(queued.status());
  }
}

void LedgerChain::append_done(LedgerId ledger, EntryId id, const Status& status) {
  if (state_ == State::Fenced || in_flight_ == 0 || ledger != current_->id())
    return;  // told already
  if (!status) {
    if (status.is(ErrorCode::Fenced)) {
      fence(Status::Fenced("ledger " + std::to_string(ledger) + " of " + name_ + ": " +
                           status.message()));
    } else {
      current_failed(status);
    }
    return;
  }
  Pending& first = pending_.front();
  assert(first.stage == Pending::Stage::Submitted && first.entry == id);
  list_.entry_added(static_cast<std::int64_t>(first.data.size()), first.messages);
  pending_.pop_front();
  --in_flight_;
  ++entries_added_;
  failed_ledgers_ = 0;
  sink_->persisted({ledger, id}, status);
  tell_refused();
  if (progress_ && in_flight_ == 0) std::exchange(progress_, nullptr)->set();
}

void LedgerChain::refuse(Pending& entry, Status why) {
  if (entry.stage == Pending::Stage::Submitted) --in_flight_;
  entry.stage = Pending::Stage::Refused;
  entry.data = {};
  entry.refusal = std::make_unique<Status>(std::move(why));
  if (&entry == &pending_.front()) env_.shard->defer(*this);  // never told from inside append()
}

void LedgerChain::refuse_all(const Status& why) {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].stage != Pending::Stage::Refused) refuse(pending_[i], why);
  }
  if (progress_) std::exchange(progress_, nullptr)->set();
}

void LedgerChain::tell_refused() {
  while (!pending_.empty() && pending_.front().stage == Pending::Stage::Refused) {
    const auto refusal = std::move(pending_.front().refusal);
    pending_.pop_front();
    sink_->persisted({-1, -1}, *refusal);
  }
}

void LedgerChain::run_deferred() {
  tell_refused();
  if (progress_ && pending_.empty()) std::exchange(progress_, nullptr)->set();
}

Task<void> LedgerChain::drained() {
  while (!pending_.empty()) {
    if (!progress_) progress_ = std::make_shared<Event>();
    auto progress = progress_;
    co_await progress->wait();
  }
}

void LedgerChain::current_failed(const Status& why) {
  GM_LOG_WARN("managed ledger {}: ledger {} takes no more entries, going on in a new one: {}",
              name_, current_->id(), why.to_string());
  // They keep their entry ids: the ledger's end decides whether they are in it.
  for (std::size_t i = 0; i < pending_.size() && in_flight_ > 0; ++i) {
    if (pending_[i].stage != Pending::Stage::Submitted) continue;
    pending_[i].stage = Pending::Stage::Waiting;
    --in_flight_;
  }
  if (progress_) std::exchange(progress_, nullptr)->set();
  ++failed_ledgers_;
  refusal_ = why;
  if (state_ == State::Open) start_switch();
}

void LedgerChain::start_switch() {
  state_ = State::Switching;
  const bool started = spawn(*env_.shard, gate_, [this]() -> Task<void> {
    // Not inside append(), which goes on with the entry it was given.
    co_await asio::post(env_.shard->executor(), asio::use_awaitable);
    auto lock = co_await structure_.lock();
    // Whoever held the lock may have done it.
    if (state_ == State::Switching) (void)co_await switch_ledger();  // its outcome is in state_
  });
  if (!started) no_ledger(closed_status());
}

Task<Status> LedgerChain::end_current() {
  if (list_.back().closed_ms != 0) co_return Status::ok();
  const LedgerId id = current_->id();
  Status sealed = co_await current_->seal();
  if (sealed.is(ErrorCode::Fenced)) co_return sealed;
  if (!sealed) {
    // As after a crash: whoever opens it learns where it ends.
    auto reopened = co_await env_.ledgers->open(id);
    if (!reopened) co_return reopened.status().with_context("sealing ledger " + std::to_string(id));
    current_ = std::move(*reopened);
  }
  while (in_flight_ > 0) {
    if (!progress_) progress_ = std::make_shared<Event>();
    auto progress = progress_;
    co_await progress->wait();
  }
  if (fenced()) co_return refusal_;
  // Entries that were given up but are in the ledger after all are told as durable, not written
  // again.
  const EntryId last = current_->last_confirmed();
  while (!pending_.empty() && pending_.front().entry >= 0 && pending_.front().entry <= last &&
         pending_.front().stage == Pending::Stage::Waiting) {
    const Position position{id, pending_.front().entry};
    list_.entry_added(static_cast<std::int64_t>(pending_.front().data.size()),
                      pending_.front().messages);
    pending_.pop_front();
    ++entries_added_;
    sink_->persisted(position, Status::ok());
    tell_refused();
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) pending_[i].entry = -1;
  list_.close_back(last + 1, current_->bytes(), current_->messages(), now_ms());
  handles_.keep(current_);
  if (progress_ && pending_.empty()) std::exchange(progress_, nullptr)->set();
  co_return Status::ok();
}

void LedgerChain::put_ended(Info& info) const {
  const LedgerSlot& ended = list_.back();
  auto* ledgers = info.mutable_ledgerinfo();
  for (int i = ledgers->size() - 1; i >= 0; --i) {
    Info::LedgerInfo& ledger = *ledgers->Mutable(i);
    if (ledger.ledgerid() != ended.id) continue;
    if (ended.entries == 0 && !terminating_) {
      ledgers->DeleteSubrange(i, 1);
      return;
    }
    ledger.set_entries(ended.entries);
    ledger.set_size(ended.bytes);
    ledger.set_timestamp(ended.closed_ms);
    ledger.set_gemingamessages(ended.messages);
    if (ended.messages_per_entry != LedgerSlot::kMixed) {
      ledger.set_gemingamessagesperentry(ended.messages_per_entry);
    }
    return;
  }
}

Task<Status> LedgerChain::switch_ledger() {
  if (fenced()) co_return refusal_;
  state_ = State::Switching;
  Status status = co_await end_current();
  if (fenced()) co_return refusal_;
  if (status && failed_ledgers_ >= kMaxFailedLedgers) status = refusal_;
  std::shared_ptr<Ledger> next;
  if (status) {
    auto created = co_await env_.ledgers->create(ledger_metadata());
    if (created) {
      next = std::move(*created);
    } else {
      status = created.status();
    }
  }
  if (status && next->id() <= list_.back().id) {
    status =
        Status::Corruption("the ledger store gave the new ledger " + std::to_string(next->id()) +
                           " after ledger " + std::to_string(list_.back().id) + " of " + name_);
  }
  if (status) {
    Info info = info_;
    put_ended(info);
    Info::LedgerInfo* added = info.add_ledgerinfo();
    added->set_ledgerid(next->id());
    added->set_timestamp(0);
    status = co_await put_with_properties(std::move(info), properties_);
  }
  if (!status) {
    if (next) co_await remove_ledgers(std::vector<LedgerId>(1, next->id()));
    if (status.is(ErrorCode::Fenced)) {
      fence(status);
    } else {
      no_ledger(status.with_context("a new ledger for " + name_));
    }
    co_return status;
  }
  if (fenced()) co_return refusal_;
  if (list_.back().entries == 0) {
    const LedgerId empty = list_.back().id;
    handles_.drop(empty);
    list_.pop_back_empty();
    spawn(*env_.shard, gate_, [this, empty]() -> Task<void> {
      co_await remove_ledgers(std::vector<LedgerId>(1, empty));
    });
  }
  begin_writing(std::move(next));
  schedule_trim();
  co_return Status::ok();
}

void LedgerChain::begin_writing(std::shared_ptr<Ledger> ledger) {
  current_ = std::move(ledger);
  handles_.keep(current_);
  list_.push_back({.id = current_->id()});
  created_ms_ = now_ms();
  submitted_entries_ = 0;
  submitted_bytes_ = 0;
  state_ = State::Open;
  for (std::size_t i = 0; i < pending_.size() && state_ == State::Open; ++i) {
    if (pending_[i].stage != Pending::Stage::Waiting) continue;
    if (current_is_full()) return start_switch();
    submit(pending_[i]);
  }
}

void LedgerChain::no_ledger(const Status& why) {
  GM_LOG_ERROR("managed ledger {} cannot be written to, the next entry after {} ms tries again: {}",
               name_, kRetryMs, why.to_string());
  state_ = State::NoLedger;
  refusal_ = why;
  retry_ms_ = now_ms() + kRetryMs;
  failed_ledgers_ = 0;
  refuse_all(why);
}

Task<Status> LedgerChain::rollover() {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  auto lock = co_await structure_.lock();
  if (terminated_ || terminating_) {
    co_return Status::TopicTerminated("the managed ledger " + name_ + " is terminated");
  }
  if (closing_) co_return closed_status();
  if (state_ == State::Open && list_.back().entries == 0 && in_flight_ == 0) co_return Status::ok();
  co_return co_await switch_ledger();
}

}  // namespace geminga
