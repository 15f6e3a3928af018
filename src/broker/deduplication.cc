#include "broker/deduplication.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "broker/batch_parts.h"
#include "broker/topic.h"
#include "wire/batch.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {
constexpr std::size_t kReplayEntries = 100;
constexpr std::size_t kReplayBytes = 1 << 20;
}  // namespace

Task<Result<std::unique_ptr<Deduplication>>> Deduplication::open(ManagedLedger& ledger,
                                                                 Options options) {
  Result<std::shared_ptr<ManagedCursor>> cursor =
      co_await ledger.open_cursor(std::string(kCursor), InitialPosition::Latest, {});
  if (!cursor) co_return cursor.status();
  std::unique_ptr<Deduplication> made(
      new Deduplication(ledger, std::move(*cursor), std::move(options)));
  const std::int64_t now = now_ms();
  made->snapshot_ms_ = now;
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
  if (since_snapshot_ >= options_.entries_interval) snapshot();
  co_return Status::ok();
}

Deduplication::Verdict Deduplication::check(const std::string& producer, std::int64_t first,
                                            std::int64_t last) {
  Known& known = producers_[producer];
  known.active_ms = now_ms();
  if (first <= known.pushed) {
    if (last <= known.persisted) return Verdict::Duplicate;
    if (first > known.persisted || known.pushed != known.persisted) return Verdict::Unknown;
    known.pushed = last;
    return Verdict::Partly;
  }
  known.pushed = last;
  return Verdict::New;
}

Status Deduplication::drop_stored(const std::string& producer, PublishItem& item) const {
  const auto known = producers_.find(producer);
  GM_ASSIGN_OR_RETURN(const EntryMetadata metadata, parse_entry_metadata(item.entry.span()));
  if (!is_open_batch(metadata)) return Status::Unsupported("not a batch that can be read");
  GM_ASSIGN_OR_RETURN(const Buffer payload, batch_payload(item.entry, metadata));
  AckSet keep = no_bits(static_cast<std::size_t>(metadata.num_messages));
  std::uint32_t kept = 0;
  BatchReader reader(payload.span(), metadata.num_messages);
  for (std::size_t i = 0; const auto message = reader.next(); ++i) {
    if (!message->sequence_id) return Status::Unsupported("its messages tell no sequence ids");
    if (known != producers_.end() && *message->sequence_id <= known->second.persisted) continue;
    put_bit(keep, i);
    ++kept;
  }
  if (!reader.ok() || kept == 0) return Status::Corruption("no message of the batch is new");
  GM_ASSIGN_OR_RETURN(item.entry, pick_messages(item.entry, metadata, payload, keep));
  item.messages = kept;
  return Status::ok();
}

void Deduplication::persisted(const std::string& producer, std::int64_t last, Position position) {
  Known& known = producers_[producer];
  known.persisted = std::max(known.persisted, last);
  last_ = position;
  if (++since_snapshot_ >= options_.entries_interval) snapshot();
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
  snapshot_ms_ = now_ms();
  forget_inactive();
  std::map<std::string, std::int64_t> sequences;
  for (const auto& [producer, known] : producers_) {
    if (known.persisted >= 0) sequences[producer] = known.persisted;
  }
  cursor_->set_position_properties(std::move(sequences));
  cursor_->ack_cumulative(last_);
}

void Deduplication::snapshot_if_due(std::int64_t interval_ms, std::int64_t now) {
  if (interval_ms > 0 && since_snapshot_ > 0 && now - snapshot_ms_ >= interval_ms) snapshot();
}

// Producers that are connected stay; of the others so many that all are at most as many as may be.
void Deduplication::forget_inactive() {
  const auto connected = [this](const std::string& producer) {
    return options_.connected && options_.connected(producer);
  };
  const std::int64_t oldest = now_ms() - options_.inactive_ms;
  std::erase_if(producers_, [&](const auto& producer) {
    return producer.second.active_ms < oldest && !connected(producer.first);
  });
  if (producers_.size() <= options_.max_producers) return;
  std::vector<std::int64_t> times;
  for (const auto& [name, known] : producers_) times.push_back(known.active_ms);
  const auto cut =
      times.begin() + static_cast<std::ptrdiff_t>(times.size() - options_.max_producers);
  std::nth_element(times.begin(), cut, times.end());
  std::erase_if(producers_, [&](const auto& producer) {
    return producer.second.active_ms < *cut && !connected(producer.first);
  });
}

}  // namespace geminga
