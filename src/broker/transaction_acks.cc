#include "broker/transaction_acks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace geminga {

namespace {

bool all_zero(std::span<const std::uint64_t> words) {
  return std::all_of(words.begin(), words.end(), [](std::uint64_t word) { return word == 0; });
}

std::uint64_t word_of(std::span<const std::uint64_t> words, std::size_t i) {
  return i < words.size() ? words[i] : 0;
}

// The bits that exist in word `i` of a batch; all, if the size is not known.
std::uint64_t existing(std::uint32_t batch_size, std::size_t i) {
  if (batch_size == 0) return ~std::uint64_t{0};
  const std::size_t first = i * 64;
  if (first >= batch_size) return 0;
  const std::size_t bits = std::min<std::size_t>(64, batch_size - first);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

std::size_t words_of(std::uint32_t batch_size, std::size_t a, std::size_t b) {
  return batch_size > 0 ? (std::size_t{batch_size} + 63) / 64 : std::max(a, b);
}

// Do both leave out (acknowledge) the same message?
bool overlap(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
             std::uint32_t batch_size) {
  for (std::size_t i = 0; i < words_of(batch_size, a.size(), b.size()); ++i) {
    if ((~word_of(a, i) & ~word_of(b, i) & existing(batch_size, i)) != 0) return true;
  }
  return false;
}

bool is_whole(const AckedMessage& message) { return all_zero(message.remaining); }

Status conflict(const TxnId& txn, Position position, std::string_view why) {
  return Status::TransactionConflict(fmt::format("Transaction {} cannot acknowledge {}: {}",
                                                 txn.to_string(), position.to_string(), why));
}

}  // namespace

std::vector<TxnId> TransactionAcks::open() const {
  std::vector<TxnId> ids;
  ids.reserve(open_.size());
  for (const auto& [txn, open] : open_) ids.push_back(txn);
  return ids;
}

Status TransactionAcks::check(const TxnId& txn, const AckedMessage& message,
                              const ManagedCursor& cursor) const {
  if (cursor.is_acked(message.position)) {
    return conflict(txn, message.position, "it is acknowledged already");
  }
  const bool whole = is_whole(message);
  const AckSet* left = cursor.ack_set(message.position);
  if (left != nullptr && !whole && overlap(*left, message.remaining, message.batch_size)) {
    return conflict(txn, message.position, "part of it is acknowledged already");
  }
  const auto at = pending_.find(message.position);
  if (at == pending_.end()) return Status::ok();
  for (const Part& part : at->second) {
    const std::uint32_t size = std::max(part.batch_size, message.batch_size);
    if (whole || part.remaining.empty() || overlap(part.remaining, message.remaining, size)) {
      return conflict(txn, message.position,
                      "transaction " + part.txn.to_string() + " has acknowledged it");
    }
  }
  return Status::ok();
}

Status TransactionAcks::check_cumulative(const TxnId& txn, const AckedMessage& message,
                                         const ManagedCursor& cursor) const {
  if (message.position <= cursor.mark_delete()) {
    return conflict(txn, message.position, "it is acknowledged already");
  }
  if (!cumulative_) return Status::ok();
  if (*cumulative_ != txn) {
    return conflict(
        txn, message.position,
        "transaction " + cumulative_->to_string() + " has an open cumulative acknowledgement");
  }
  const AckedMessage& before = *open_.at(txn).cumulative;
  const bool further = message.position > before.position ||
                       (message.position == before.position && !before.remaining.empty() &&
                        (message.remaining.empty() || before.remaining != message.remaining));
  if (further) return Status::ok();
  return conflict(txn, message.position, "it has acknowledged as far already");
}

Status TransactionAcks::acknowledge(const TxnId& txn, const AckRequest& request,
                                    const ManagedCursor& cursor) {
  if (request.cumulative) {
    GM_RETURN_IF_ERROR(check_cumulative(txn, request.messages.front(), cursor));
    replay(txn, request);
    return Status::ok();
  }
  std::size_t added = 0;
  for (const AckedMessage& message : request.messages) {
    const Status checked = check(txn, message, cursor);
    if (!checked) {
      take_back(txn, {false, request.messages.first(added)});
      return checked;
    }
    add(txn, message);
    ++added;
  }
  return Status::ok();
}

void TransactionAcks::add(const TxnId& txn, const AckedMessage& message) {
  open_[txn].positions.push_back(message.position);
  Part part{txn, {}, message.batch_size};
  if (!is_whole(message)) part.remaining = message.remaining;
  pending_[message.position].push_back(std::move(part));
}

void TransactionAcks::replay(const TxnId& txn, const AckRequest& request) {
  if (!request.cumulative) {
    for (const AckedMessage& message : request.messages) add(txn, message);
    return;
  }
  Open& open = open_[txn];
  open.cumulative_before = std::exchange(open.cumulative, request.messages.front());
  cumulative_ = txn;
}

void TransactionAcks::drop(const TxnId& txn, Position position) {
  const auto at = pending_.find(position);
  if (at == pending_.end()) return;
  std::erase_if(at->second, [&](const Part& part) { return part.txn == txn; });
  if (at->second.empty()) pending_.erase(at);
}

void TransactionAcks::take_back(const TxnId& txn, const AckRequest& request) {
  const auto at = open_.find(txn);
  if (at == open_.end()) return;
  Open& open = at->second;
  if (request.cumulative) {
    if (open.cumulative && !request.messages.empty() &&
        open.cumulative->position == request.messages.front().position) {
      open.cumulative = std::exchange(open.cumulative_before, std::nullopt);
      if (!open.cumulative && cumulative_ == txn) cumulative_.reset();
    }
  } else {
    for (const AckedMessage& message : request.messages) {
      const auto parts = pending_.find(message.position);
      if (parts == pending_.end()) continue;
      const bool whole = is_whole(message);
      const auto part =
          std::find_if(parts->second.begin(), parts->second.end(), [&](const Part& candidate) {
            return candidate.txn == txn &&
                   candidate.remaining == (whole ? AckSet() : message.remaining);
          });
      if (part == parts->second.end()) continue;
      parts->second.erase(part);
      if (parts->second.empty()) pending_.erase(parts);
      const auto position =
          std::find(open.positions.rbegin(), open.positions.rend(), message.position);
      if (position != open.positions.rend()) open.positions.erase(std::next(position).base());
    }
  }
  if (open.positions.empty() && !open.cumulative) open_.erase(at);
}

std::optional<Position> TransactionAcks::cumulative_of(const TxnId& txn) const {
  const auto at = open_.find(txn);
  if (at == open_.end() || !at->second.cumulative) return std::nullopt;
  return at->second.cumulative->position;
}

bool TransactionAcks::is_pending(Position position, std::int32_t batch_index) const {
  const auto at = pending_.find(position);
  if (at == pending_.end()) return false;
  if (batch_index < 0) return true;
  const auto index = static_cast<std::size_t>(batch_index);
  return std::any_of(at->second.begin(), at->second.end(), [index](const Part& part) {
    return part.remaining.empty() || (word_of(part.remaining, index / 64) >> (index % 64) & 1) == 0;
  });
}

std::optional<TransactionAcks::Ended> TransactionAcks::take(const TxnId& txn) {
  auto node = open_.extract(txn);
  if (node.empty()) return std::nullopt;
  Open& open = node.mapped();
  Ended ended;
  ended.cumulative = std::move(open.cumulative);
  if (cumulative_ == txn) cumulative_.reset();
  std::sort(open.positions.begin(), open.positions.end());
  open.positions.erase(std::unique(open.positions.begin(), open.positions.end()),
                       open.positions.end());
  for (const Position position : open.positions) {
    const auto at = pending_.find(position);
    if (at == pending_.end()) continue;
    for (const Part& part : at->second) {
      if (part.txn != txn) continue;
      AckedMessage& message = ended.individual.emplace_back();
      message.position = position;
      message.remaining = part.remaining;
      message.batch_size = part.batch_size;
    }
    drop(txn, position);
  }
  return ended;
}

bool TransactionAcks::holds(Position position, const AckSet* acked) const {
  const auto at = pending_.find(position);
  if (at == pending_.end()) return false;
  AckSet left;
  if (acked != nullptr) left = *acked;
  return reduce(position, left) && all_zero(left);
}

bool TransactionAcks::reduce(Position position, AckSet& left) const {
  const auto at = pending_.find(position);
  if (at == pending_.end()) return false;
  for (const Part& part : at->second) {
    if (part.remaining.empty()) {
      left.assign(1, 0);
      return true;
    }
    if (left.empty()) {
      left = part.remaining;
      continue;
    }
    if (left.size() > part.remaining.size()) left.resize(part.remaining.size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] &= part.remaining[i];
  }
  return true;
}

}  // namespace geminga
