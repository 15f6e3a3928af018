#include "broker/deduplication.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {
constexpr std::int64_t kForgetAfterMs =
    360LL * 60 * 1000;  // brokerDeduplicationProducerInactivityTimeoutMinutes
constexpr std::size_t kReplayEntries = 100;
constexpr std::size_t kReplayBytes = 1 << 20;
}  // namespace

Task<Result<std::unique_ptr<Deduplication>>> Deduplication::open(ManagedLedger& ledger) {
  Result<std::shared_ptr<ManagedCursor>> cursor =
      co_await ledger.open_cursor(std::string(kCursor), InitialPosition::Latest, {});
  if (!cursor) co_return cursor.status();
  std::unique_ptr<Deduplication> made(new Deduplication(ledger, std::move(*cursor)));
  const std::int64_t now = now_ms();
  for (const auto& [producer, sequence] : made->cursor_->position_properties()) {
    made->producers_[producer] = {sequence, sequence, now};
  }
  GM_CO_RETURN_IF_ERROR(co_await made->replay());
  co_return made;
}

Task<Status> Deduplication::replay() {
  last_ = cursor_->mark_delete();
  Position from = ledger_.next(last_);
  const std::int64_t now = now_ms();
  while (from <= ledger_.last_confirmed()) {
    Result<std::vector<Entry>> entries = co_await ledger_.read(from, kReplayEntries, kReplayBytes);
    if (!entries) co_return entries.status();
    if (entries->empty()) break;
    for (const Entry& entry : *entries) {
      last_ = entry.position;
      const Result<EntryMetadata> metadata = parse_entry_metadata(entry.data.span());
      if (!metadata || metadata->is_marker()) continue;
      if (metadata->is_chunk() && !metadata->is_last_chunk()) continue;
      Known& known = producers_[std::string(metadata->producer_name)];
      known.pushed = std::max(known.pushed, metadata->last_sequence_id());
      known.persisted = known.pushed;
      known.active_ms = now;
      ++since_snapshot_;
    }
    from = ledger_.next(last_);
  }
  if (since_snapshot_ >= kSnapshotInterval) snapshot();
  co_return Status::ok();
}

Deduplication::Verdict Deduplication::check(const std::string& producer, std::int64_t first,
                                            std::int64_t last) {
  Known& known = producers_[producer];
  known.active_ms = now_ms();
  if (first <= known.pushed)
    return first <= known.persisted ? Verdict::Duplicate : Verdict::Unknown;
  known.pushed = last;
  return Verdict::New;
}

void Deduplication::persisted(const std::string& producer, std::int64_t last, Position position) {
  Known& known = producers_[producer];
  known.persisted = std::max(known.persisted, last);
  last_ = position;
  if (++since_snapshot_ >= kSnapshotInterval) snapshot();
}

void Deduplication::failed(const std::string& producer) {
  const auto at = producers_.find(producer);
  if (at != producers_.end()) at->second.pushed = at->second.persisted;
}

std::int64_t Deduplication::last_pushed(const std::string& producer) const {
  const auto at = producers_.find(producer);
  return at == producers_.end() ? -1 : at->second.pushed;
}

void Deduplication::snapshot() {
  since_snapshot_ = 0;
  forget_inactive();
  std::map<std::string, std::int64_t> sequences;
  for (const auto& [producer, known] : producers_) {
    if (known.persisted >= 0) sequences[producer] = known.persisted;
  }
  cursor_->set_position_properties(std::move(sequences));
  cursor_->ack_cumulative(last_);
}

void Deduplication::forget_inactive() {
  const std::int64_t oldest = now_ms() - kForgetAfterMs;
  std::erase_if(producers_,
                [&](const auto& producer) { return producer.second.active_ms < oldest; });
  if (producers_.size() <= kMaxProducers) return;
  std::vector<std::int64_t> times;
  for (const auto& [name, known] : producers_) times.push_back(known.active_ms);
  const auto cut = times.begin() + static_cast<std::ptrdiff_t>(times.size() - kMaxProducers);
  std::nth_element(times.begin(), cut, times.end());
  std::erase_if(producers_, [&](const auto& producer) { return producer.second.active_ms < *cut; });
}

}  // namespace geminga
