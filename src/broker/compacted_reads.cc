#include "broker/compacted_reads.h"

#include <algorithm>

#include "broker/compaction_entry.h"

namespace geminga {

namespace {
constexpr char kPlaceLedger[] = "geminga.compacted.ledger";
constexpr char kPlaceEntry[] = "geminga.compacted.entry";
}  // namespace

std::optional<Position> CompactedReads::place() const {
  const auto& numbers = cursor_.position_properties();
  const auto ledger = numbers.find(kPlaceLedger);
  const auto entry = numbers.find(kPlaceEntry);
  if (ledger == numbers.end() || entry == numbers.end()) return std::nullopt;
  return Position{ledger->second, entry->second};
}

void CompactedReads::set_place(std::optional<Position> place) {
  if (!place && !this->place()) return;
  auto numbers = cursor_.position_properties();
  if (place) {
    numbers[kPlaceLedger] = place->ledger;
    numbers[kPlaceEntry] = place->entry;
  } else {
    numbers.erase(kPlaceLedger);
    numbers.erase(kPlaceEntry);
  }
  cursor_.set_position_properties(std::move(numbers));
}

void CompactedReads::start_at(Position next) {
  sent_.clear();
  untracked_ = false;
  tail_.reset();
  const auto& data = topic_.current();
  const Position log = log_.first_position();
  const bool before_log =
      data != nullptr && data->first() < log && next < log && data->reaches(next);
  set_place(before_log ? std::optional(Position{next.ledger, next.entry - 1}) : std::nullopt);
}

Position CompactedReads::begin() {
  untracked_ = false;
  tail_.reset();
  return first_unacked();
}

Position CompactedReads::first_unacked() const {
  const auto at = place();
  return at ? Position{at->ledger, at->entry + 1} : cursor_.first_unacked();
}

bool CompactedReads::covers(Position& from) {
  const auto& data = topic_.current();
  if (data == nullptr || from > data->horizon()) return false;
  if (data->reaches(from)) return true;
  if (!untracked_) tail_ = Gap{from, data->horizon()};
  from = {data->horizon().ledger, data->horizon().entry + 1};
  advance();
  return false;
}

std::size_t CompactedReads::read_cached(Position from, std::size_t max_entries,
                                        std::size_t max_bytes, std::vector<Entry>& out) {
  const auto& data = topic_.current();
  return data == nullptr ? 0 : data->read_cached(from, reading_, max_entries, max_bytes, out);
}

Task<Result<std::vector<Entry>>> CompactedReads::read(Position from, std::size_t max_entries,
                                                      std::size_t max_bytes) {
  for (;;) {
    const std::shared_ptr<CompactedLedger> data = topic_.current();
    if (data == nullptr) co_return std::vector<Entry>();
    auto entries = co_await data->read(from, &reading_, max_entries, max_bytes);
    // Superseded and removed while it was read: its successor has what is wanted.
    if (!entries && topic_.current() != data) continue;
    co_return entries;
  }
}

bool CompactedReads::is_acked(Position position) {
  if (const auto at = place()) {
    if (position <= *at) return true;
    if (log_.exists(position) && cursor_.is_acked(position)) return true;
  } else if (cursor_.is_acked(position)) {
    return true;
  }
  const Sent* sent = find(position);
  return sent != nullptr && sent->acked;
}

CompactedReads::Sent* CompactedReads::find(Position position) {
  std::size_t low = 0;
  std::size_t high = sent_.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (sent_[middle].position < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < sent_.size() && sent_[low].position == position ? &sent_[low] : nullptr;
}

const AckSet& CompactedReads::left_of(const Entry& entry, const EntryMetadata& metadata) {
  left_.clear();
  if (!metadata.is_batch) return left_;
  const bool rewritten = retained_of_batch(entry.data.span(), left_);
  if (log_.exists(entry.position)) {
    const AckSet* unacked = rewritten ? cursor_.ack_set(entry.position) : nullptr;
    for (std::size_t i = 0; unacked != nullptr && i < left_.size(); ++i)
      left_[i] &= i < unacked->size() ? (*unacked)[i] : 0;
    return left_;
  }
  // The cursor cannot keep what is acknowledged of it.
  if (const Sent* sent = find(entry.position); sent != nullptr && !sent->left.empty()) {
    left_ = sent->left;
  } else if (!rewritten) {
    for (std::uint32_t n = entry.messages; n > 0; n -= std::min(n, 64U))
      left_.push_back(n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1);
  }
  return left_;
}

void CompactedReads::delivered(Position from, Position position, const AckSet& left) {
  if (untracked_ || (!sent_.empty() && position <= sent_.back().position)) return;
  if (sent_.size() >= kMaxTracked) {
    untracked_ = true;
    return;
  }
  sent_.push_back({from, position, false, left});
  if (sent_.size() == 1) advance();
}

void CompactedReads::ack(Position position) {
  if (sent_.empty() && !tail_) return;
  if (Sent* sent = find(position)) sent->acked = true;
  advance();
}

void CompactedReads::ack_partly(Position position, const AckSet& remaining) {
  Sent* sent = find(position);
  if (sent == nullptr || sent->left.empty()) return;
  std::uint64_t any = 0;
  for (std::size_t i = 0; i < sent->left.size(); ++i)
    any |= sent->left[i] &= i < remaining.size() ? remaining[i] : 0;
  if (any != 0) return;
  cursor_.ack(position);
  ack(position);
}

void CompactedReads::ack_cumulative(Position position) {
  if (sent_.empty() && !tail_) return;
  for (std::size_t i = 0; i < sent_.size() && sent_[i].position <= position; ++i) {
    sent_[i].acked = true;
  }
  advance();
}

// Over the gaps that lie at what is not acknowledged first, and the entries between them. Where
// something else comes first (sent from the log, before it was compacted), it waits for that.
void CompactedReads::advance() {
  while (!sent_.empty()) {
    const Sent& front = sent_.front();
    Position first = first_unacked();
    if (first < front.gap_from) return;
    if (first < front.position) {
      move_to({front.position.ledger, front.position.entry - 1});
      first = first_unacked();
    }
    if (first < front.position || (first == front.position && !front.acked)) return;
    if (first == front.position) move_to(front.position);
    sent_.pop_front();
  }
  if (!tail_) return;
  const Position first = first_unacked();
  if (first < tail_->from) return;
  if (first <= tail_->through) move_to(tail_->through);
  tail_.reset();
}

void CompactedReads::move_to(Position position) {
  if (place()) {
    const auto& data = topic_.current();
    const bool before_log = data != nullptr && position < log_.first_position();
    set_place(before_log && position < data->last() ? std::optional(position) : std::nullopt);
  }
  cursor_.ack_cumulative(position);
}

Position CompactedReads::mark_delete() const { return place().value_or(cursor_.mark_delete()); }

Task<Result<Position>> CompactedReads::first_published_at(std::int64_t time_ms, Position of_log) {
  const std::shared_ptr<CompactedLedger> data = topic_.current();
  if (data == nullptr || of_log > log_.first_position()) co_return of_log;
  auto found = co_await data->first_published_at(time_ms);
  if (!found) co_return found.status();
  co_return found->has_value() && **found < of_log ? **found : of_log;
}

}  // namespace geminga
