#include "broker/transaction_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "PulsarMarkers.pb.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {

constexpr std::size_t kReplayEntries = 100;
constexpr std::size_t kReplayBytes = 1 << 20;
constexpr std::string_view kAborted = "aborted.";
constexpr std::string_view kOpen = "open.";

constexpr Position before(Position position) { return {position.ledger, position.entry - 1}; }

// "1.22.333" with exactly as many numbers as asked for.
bool parse_numbers(std::string_view text, std::span<std::uint64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out[i]);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool last = i + 1 == out.size();
    if (last != text.empty() || (!last && text.front() != '.')) return false;
    if (!last) text.remove_prefix(1);
  }
  return true;
}

// The `n` smallest by `position`; and where the first one that is left out is.
template <typename Item>
std::optional<Position> keep_first(std::vector<Item>& items, std::size_t n) {
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.second < b.second; });
  if (items.size() <= n) return std::nullopt;
  const Position next = items[n].second;
  items.resize(n);
  return next;
}

}  // namespace

Task<Result<std::unique_ptr<TransactionBuffer>>> TransactionBuffer::open(ManagedLedger& ledger) {
  auto cursor = co_await ledger.open_cursor(std::string(kCursor), InitialPosition::Latest,
                                            std::map<std::string, std::string>());
  if (!cursor) co_return cursor.status();
  std::unique_ptr<TransactionBuffer> made(new TransactionBuffer(ledger, std::move(*cursor)));
  made->recover_start_ms_ = now_ms();
  made->restore();
  GM_CO_RETURN_IF_ERROR(co_await made->replay());
  made->recover_end_ms_ = now_ms();
  co_return made;
}

void TransactionBuffer::restore() {
  last_ = cursor_->mark_delete();
  for (const auto& [key, value] : cursor_->position_properties()) {
    std::uint64_t numbers[3];
    const std::string_view text = key;
    if (text.starts_with(kAborted) &&
        parse_numbers(text.substr(kAborted.size()), std::span(numbers, 2))) {
      aborted_[{numbers[0], numbers[1]}] = {value, 0};
    } else if (text.starts_with(kOpen) &&
               parse_numbers(text.substr(kOpen.size()), std::span(numbers, 3))) {
      const Position first{static_cast<LedgerId>(numbers[2]), value};
      open_[{numbers[0], numbers[1]}].first = first;
      firsts_.insert(first);
    } else {
      GM_LOG_WARN("{}: cursor {} has a number {} that means nothing here", ledger_.name(), kCursor,
                  key);
    }
  }
}

Task<Status> TransactionBuffer::replay() {
  const Position end = ledger_.last_confirmed();
  Position from = ledger_.next(last_);
  while (from <= end) {
    const auto entries = co_await ledger_.read(from, kReplayEntries, kReplayBytes);
    if (!entries) co_return entries.status();
    if (entries->empty()) break;
    for (const Entry& entry : *entries) replay(entry);
    from = ledger_.next(last_);
    co_await sleep_for(Millis{0});  // others have their turn
  }
  if (since_snapshot_ >= kSnapshotEntries) snapshot();
  co_return Status::ok();
}

void TransactionBuffer::replay(const Entry& entry) {
  const auto metadata = parse_entry_metadata(entry.data.span());
  if (!metadata || !metadata->txn) return entry_persisted(entry.position);
  const TxnId& txn = *metadata->txn;
  if (metadata->marker_type == pulsar::markers::TXN_COMMIT ||
      metadata->marker_type == pulsar::markers::TXN_ABORT) {
    end_persisted(txn, metadata->marker_type == pulsar::markers::TXN_COMMIT, entry.position);
  } else if (metadata->is_marker() || ended_.contains(txn)) {
    entry_persisted(entry.position);
  } else {
    message_persisted(txn, entry.position);
  }
}

Status TransactionBuffer::check_open(const TxnId& txn) const {
  const auto mark = low_watermarks_.find(txn.most_bits);
  const auto at = open_.find(txn);
  const bool over = (mark != low_watermarks_.end() &&
                     static_cast<std::int64_t>(txn.least_bits) <= mark->second) ||
                    ended_.contains(txn) || (at != open_.end() && at->second.ending != nullptr);
  if (!over) return Status::ok();
  return Status::NotAllowed(
      fmt::format("Transaction {} has been ended. Please use a new transaction to send message.",
                  txn.to_string()));
}

void TransactionBuffer::count(Position position) {
  last_ = position;
  if (++since_snapshot_ >= kSnapshotEntries) snapshot();
}

void TransactionBuffer::entry_persisted(Position position) { count(position); }

void TransactionBuffer::message_persisted(const TxnId& txn, Position position) {
  Open& open = open_[txn];
  if (open.in_flight > 0) --open.in_flight;
  if (!open.first) {
    open.first = position;
    firsts_.insert(position);
  }
  count(position);
}

void TransactionBuffer::message_failed(const TxnId& txn) {
  const auto at = open_.find(txn);
  if (at == open_.end()) return;
  if (at->second.in_flight > 0) --at->second.in_flight;
  if (at->second.in_flight == 0 && !at->second.first && at->second.ending == nullptr) {
    open_.erase(at);
  }
}

std::shared_ptr<TransactionBuffer::Ending> TransactionBuffer::start_end(const TxnId& txn,
                                                                        bool& first) {
  Open& open = open_.at(txn);
  first = open.ending == nullptr;
  if (first) open.ending = std::make_shared<Ending>();
  return open.ending;
}

void TransactionBuffer::end_persisted(const TxnId& txn, bool committed, Position marker) {
  if (auto node = open_.extract(txn); !node.empty()) {
    if (node.mapped().first) firsts_.erase(*node.mapped().first);
    if (node.mapped().ending != nullptr) node.mapped().ending->done.set();
  }
  if (committed) {
    ++committed_total_;
  } else {
    ++aborted_total_;
    aborted_[txn] = marker;
  }
  remember_ended(txn);
  count(marker);
}

void TransactionBuffer::end_failed(const TxnId& txn, const Status& status) {
  const auto at = open_.find(txn);
  if (at == open_.end() || at->second.ending == nullptr) return;
  const auto ending = std::exchange(at->second.ending, nullptr);
  ending->status = status;
  ending->done.set();
}

void TransactionBuffer::remember_ended(const TxnId& txn) {
  if (!ended_.insert(txn).second) return;
  ended_in_order_.push_back(txn);
  if (ended_in_order_.size() <= kRememberEnded) return;
  ended_.erase(ended_in_order_.front());
  ended_in_order_.pop_front();
}

void TransactionBuffer::set_low_watermark(std::uint64_t coordinator, std::int64_t least_bits) {
  const auto [at, added] = low_watermarks_.try_emplace(coordinator, least_bits);
  if (!added) at->second = std::max(at->second, least_bits);
}

std::vector<TxnId> TransactionBuffer::orphans() const {
  std::vector<TxnId> found;
  for (const auto& [coordinator, mark] : low_watermarks_) {
    for (auto at = open_.lower_bound({coordinator, 0});
         at != open_.end() && at->first.most_bits == coordinator &&
         static_cast<std::int64_t>(at->first.least_bits) <= mark;
         ++at) {
      if (at->second.ending == nullptr) found.push_back(at->first);
    }
  }
  return found;
}

std::vector<TxnId> TransactionBuffer::open_transactions() const {
  std::vector<TxnId> ids;
  for (const auto& [txn, open] : open_) ids.push_back(txn);
  return ids;
}

std::optional<Position> TransactionBuffer::first_message(const TxnId& txn) const {
  const auto at = open_.find(txn);
  return at == open_.end() ? std::nullopt : at->second.first;
}

void TransactionBuffer::forget_trimmed() {
  // Every message of a transaction is before its marker.
  const LedgerId first = ledger_.first_position().ledger;
  std::erase_if(aborted_, [first](const auto& item) { return item.second.ledger < first; });
}

void TransactionBuffer::snapshot() {
  since_snapshot_ = 0;
  last_snapshot_ms_ = now_ms();
  forget_trimmed();
  std::vector<std::pair<TxnId, Position>> aborted(aborted_.begin(), aborted_.end());
  std::vector<std::pair<TxnId, Position>> open;
  for (const auto& [txn, state] : open_) {
    if (state.first) open.emplace_back(txn, *state.first);
  }
  Position upto = last_;
  if (const auto next = keep_first(aborted, kMaxInSnapshot)) upto = std::min(upto, before(*next));
  if (const auto next = keep_first(open, kMaxInSnapshot)) upto = std::min(upto, before(*next));
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [txn, marker] : aborted) {
    numbers[fmt::format("{}{}.{}", kAborted, txn.most_bits, txn.least_bits)] = marker.ledger;
  }
  for (const auto& [txn, first] : open) {
    numbers[fmt::format("{}{}.{}.{}", kOpen, txn.most_bits, txn.least_bits, first.ledger)] =
        first.entry;
  }
  cursor_->set_position_properties(std::move(numbers));
  cursor_->ack_cumulative(upto);
}

}  // namespace geminga
