// Taking over a managed ledger (docs/format/managed-ledger.md, "Opening"), and giving it up.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/url_encoding.h"
#include "managed_ledger/for_all.h"
#include "managed_ledger/ledger_chain.h"

namespace geminga {

Task<Status> LedgerChain::open(bool create_if_missing) {
  auto value = co_await env_.metadata->get(path_);
  if (!value) co_return value.status().with_context("opening managed ledger " + name_);
  if (!*value && !create_if_missing) {
    co_return Status::NotFound("there is no managed ledger " + name_);
  }
  Info info;
  if (*value) {
    auto parsed = parse_ledger_info((*value)->value, path_);
    if (!parsed) co_return parsed.status();
    info = std::move(*parsed);
    version_ = (*value)->stat.version;
  }
  for (const auto& property : info.properties()) properties_[property.key()] = property.value();

  if (info.has_terminatedposition()) {
    terminated_ = true;
    terminated_position_ = {info.terminatedposition().ledgerid(),
                            info.terminatedposition().entryid()};
  }
  info_ = info;
  std::vector<LedgerId> dropped;
  auto slots = co_await learn_ledgers(info, dropped);
  if (!slots) co_return slots.status();
  for (const LedgerSlot& slot : *slots) list_.push_back(slot);
  if (terminated_) {
    if (list_.empty()) list_.push_back({.id = terminated_position_.ledger, .closed_ms = now_ms()});
    state_ = State::Open;
  } else {
    Status started = co_await start_first_ledger(std::move(info));
    if (!started) co_return started;
    if (!dropped.empty()) co_await remove_ledgers(std::move(dropped));
  }
  Status loaded = co_await load_cursors();
  if (!loaded) co_await stop_work();
  co_return loaded;
}

Task<Result<bool>> LedgerChain::learn_ledger(Info::LedgerInfo& info, bool last, LedgerSlot& slot) {
  slot = {.id = info.ledgerid(),
          .entries = info.entries(),
          .bytes = info.size(),
          .messages = info.gemingamessages(),
          .closed_ms = info.timestamp() != 0 ? info.timestamp() : now_ms(),
          .messages_per_entry = info.gemingamessagesperentry()};
  const bool unfinished = last || !info.has_entries();
  if (!unfinished && (slot.entries == 0 || info.has_gemingamessages())) co_return slot.entries > 0;

  auto opened = co_await handles_.get(slot.id);
  if (opened.is(ErrorCode::NotFound)) {
    if (unfinished) co_return false;
    // Reading it will fail by name; until then its entries count as one message each.
    GM_LOG_ERROR("managed ledger {}: ledger {} with {} entries is missing from the ledger store",
                 name_, slot.id, slot.entries);
    slot.messages = slot.entries;
    co_return true;
  }
  if (!opened) {
    co_return opened.status().with_context("opening ledger " + std::to_string(slot.id) + " of " +
                                           name_);
  }
  const Ledger& ledger = **opened;
  slot.messages = ledger.messages();
  if (unfinished) {
    slot.entries = ledger.last_confirmed() + 1;
    slot.bytes = ledger.bytes();
    slot.closed_ms = now_ms();
    info.set_entries(slot.entries);
    info.set_size(slot.bytes);
    info.set_timestamp(slot.closed_ms);
    info.clear_offloadcontext();
  }
  // An entry counts at least one message.
  if (slot.messages == slot.entries) slot.messages_per_entry = 1;
  info.set_gemingamessages(slot.messages);
  if (slot.messages_per_entry != LedgerSlot::kMixed)
    info.set_gemingamessagesperentry(slot.messages_per_entry);
  co_return slot.entries > 0;
}

Task<Result<std::vector<LedgerSlot>>> LedgerChain::learn_ledgers(Info& info,
                                                                 std::vector<LedgerId>& dropped) {
  std::vector<LedgerSlot> slots;
  auto* ledgers = info.mutable_ledgerinfo();
  std::sort(ledgers->begin(), ledgers->end(),
            [](const auto& a, const auto& b) { return a.ledgerid() < b.ledgerid(); });
  for (int i = 0; i < ledgers->size();) {
    LedgerSlot slot;
    auto kept = co_await learn_ledger(*ledgers->Mutable(i), i + 1 == ledgers->size(), slot);
    if (!kept) co_return kept.status();
    if (*kept) {
      slots.push_back(slot);
      ++i;
    } else {
      // The last one stays the last although it goes: the next of the loop would be taken for it.
      dropped.push_back(slot.id);
      ledgers->DeleteSubrange(i, 1);
      if (i == ledgers->size()) break;
    }
  }
  co_return slots;
}

Task<Status> LedgerChain::start_first_ledger(Info info) {
  auto created = co_await env_.ledgers->create(ledger_metadata());
  if (!created) co_return created.status().with_context("a new ledger for " + name_);
  std::shared_ptr<Ledger> ledger = std::move(*created);
  Status status;
  if (!list_.empty() && ledger->id() <= list_.back().id) {
    status =
        Status::Corruption("the ledger store gave the new ledger " + std::to_string(ledger->id()) +
                           " after ledger " + std::to_string(list_.back().id) + " of " + name_);
  }
  if (status) {
    Info::LedgerInfo* added = info.add_ledgerinfo();
    added->set_ledgerid(ledger->id());
    added->set_timestamp(0);
    status = co_await put_info(std::move(info));
  }
  if (!status) {
    co_await remove_ledgers(std::vector<LedgerId>(1, ledger->id()));
    co_return status.with_context("opening managed ledger " + name_);
  }
  begin_writing(std::move(ledger));
  co_return Status::ok();
}

Task<Status> LedgerChain::load_cursor(std::string key) {
  auto name = url_decode(key);
  if (!name) co_return name.status().with_context("cursor key " + path_ + "/" + key);
  auto cursor = std::make_shared<ChainCursor>(*this, *name,
                                              std::make_unique<CursorStore>(env_, name_, *name));
  Status loaded = co_await cursor->load();
  if (!loaded) co_return loaded.with_context("loading cursor " + *name + " of " + name_);
  cursors_.emplace(std::move(*name), std::move(cursor));
  co_return Status::ok();
}

Task<Status> LedgerChain::load_cursors() {
  auto keys = co_await env_.metadata->children(path_);
  if (!keys) co_return keys.status().with_context("the cursors of " + name_);
  // After a crash each may have a ledger to fence.
  co_return co_await for_all(*env_.shard, keys->size(),
                             [&](std::size_t i) { return load_cursor((*keys)[i]); });
}

Task<Status> LedgerChain::remove_ledger(LedgerId id) {
  handles_.drop(id);
  const Status status = co_await env_.ledgers->remove(id);
  if (!status) {
    GM_LOG_WARN("managed ledger {}: ledger {} is no longer part of it but could not be removed: {}",
                name_, id, status.to_string());
  }
  co_return status;
}

Task<void> LedgerChain::remove_ledgers(std::vector<LedgerId> ids) {
  (void)co_await for_all(*env_.shard, ids.size(),
                         [&](std::size_t i) { return remove_ledger(ids[i]); });
}

Task<void> LedgerChain::stop_work() {
  closing_ = true;
  co_await drained();
  if (flush_timer_) flush_timer_->cancel();
  co_await gate_.close();
}

Task<Status> LedgerChain::close() {
  if (closing_) co_return Status::ok();
  co_await stop_work();
  Status first;
  const auto note = [&](const Status& status) {
    if (first && !status) first = status;
  };
  const bool lost = fenced();
  state_ = State::Closed;
  if (current_ && !lost) {
    Status sealed = co_await current_->seal();
    note(sealed);
  }
  if (!lost) {
    std::vector<std::shared_ptr<ChainCursor>> cursors;
    for (const auto& [name, cursor] : cursors_) cursors.push_back(cursor);
    Status closed = co_await for_all(*env_.shard, cursors.size(),
                                     [&](std::size_t i) { return cursors[i]->close_store(); });
    if (!closed) note(closed.with_context("closing the cursors of " + name_));
  }
  handles_.clear();
  current_.reset();
  co_return first;
}

Task<Status> LedgerChain::remove_keys() {
  std::vector<MetadataOp> ops;
  for (const auto& [name, cursor] : cursors_) {
    ops.push_back({MetadataOp::Kind::Remove, cursor->store()->path(), {}, {}});
    if (ops.size() < 5000) continue;
    GM_CO_RETURN_IF_ERROR(co_await env_.metadata->commit(std::exchange(ops, {})));
  }
  ops.push_back({MetadataOp::Kind::Remove, path_, {}, version_});
  Status status = co_await env_.metadata->commit(std::move(ops));
  if (status.is(ErrorCode::BadVersion) || status.is(ErrorCode::NotFound)) {
    co_return Status::Fenced("another broker has written " + path_ +
                             "; close the topic and look it up again");
  }
  GM_CO_RETURN_IF_ERROR(status);
  co_return co_await env_.metadata->remove_recursive(path_);
}

Task<Status> LedgerChain::remove() {
  if (closing_) co_return closed_status();
  co_await stop_work();
  const bool lost = fenced();
  state_ = State::Closed;
  if (lost) co_return refusal_;
  // The key first: a crash then leaves ledgers that nobody refers to, not a key to ledgers that are
  // gone.
  Status removed = co_await remove_keys();
  if (!removed) co_return removed.with_context("removing managed ledger " + name_);
  current_.reset();
  std::vector<LedgerId> ids;
  for (const LedgerSlot& slot : list_) ids.push_back(slot.id);
  for (const auto& [name, cursor] : cursors_) {
    if (cursor->store()->ledger_id() >= 0) ids.push_back(cursor->store()->ledger_id());
    const auto& numbers = cursor->position_properties();
    if (const auto compacted = numbers.find(kCompactedLedgerProperty); compacted != numbers.end())
      ids.push_back(compacted->second);
  }
  co_await remove_ledgers(std::move(ids));
  co_return Status::ok();
}

}  // namespace geminga
