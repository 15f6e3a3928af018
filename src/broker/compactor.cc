#include "broker/compactor.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/clock.h"
#include "runtime/async.h"

namespace geminga {

namespace {

// Messages in several entries that are incomplete at one time; chunks of more are kept unseen.
constexpr std::size_t kMaxUnfinished = 10'000;
constexpr std::size_t kMaxBytesInFlight = std::size_t{1} << 20;

// How many numbers an entry takes.
std::uint64_t numbers_of(const CompactionEntry& content) {
  return std::max<std::uint64_t>(content.messages().size(), 1);
}

}  // namespace

// The entries of a run, in order.
class Compactor::Input {
 public:
  explicit Input(const Compactor& run) : run_(run) {
    at_ = run.previous_ == nullptr ? run.log_.first_position()
                                   : run.log_.next(run.previous_->horizon());
  }

  // The next ones; empty at the end.
  Task<Result<std::vector<Entry>>> next() {
    const CompactorOptions& options = run_.options_;
    if (run_.previous_ != nullptr && index_ < run_.previous_->entries()) {
      auto entries =
          co_await run_.previous_->read_at(index_, options.step_entries, options.step_bytes);
      if (entries) index_ += static_cast<EntryId>(entries->size());
      co_return entries;
    }
    std::vector<Entry> entries;
    if (at_ > run_.last_) co_return entries;
    GM_CO_ASSIGN_OR_RETURN(entries,
                           co_await run_.log_.read(at_, options.step_entries, options.step_bytes));
    while (!entries.empty() && entries.back().position > run_.last_) entries.pop_back();
    if (!entries.empty()) at_ = run_.log_.next(entries.back().position);
    co_return entries;
  }

 private:
  const Compactor& run_;
  EntryId index_ = 0;
  Position at_;
};

// Appends with a bound on what is under way.
class Compactor::Output final : public AppendSink {
 public:
  Output(std::shared_ptr<Ledger> ledger, CompactionMeters* meters)
      : ledger_(std::move(ledger)), meters_(meters) {}

  Status append(const Buffer& data, std::uint32_t messages) {
    if (!failed_) return failed_;
    if (const auto queued = ledger_->append(data, messages, this); !queued) return queued.status();
    writes_.push_back({data.size(), monotonic_ns()});
    in_flight_ += data.size();
    return Status::ok();
  }
  Task<Status> room() { return below(kMaxBytesInFlight); }
  Task<Status> drained() { return below(0); }

  void append_done(LedgerId, EntryId, const Status& status) override {
    const Write done = writes_.front();
    writes_.pop_front();
    in_flight_ -= done.bytes;
    if (!status && failed_) failed_ = status;
    if (status && meters_ != nullptr) {
      const std::int64_t now = monotonic_ns();
      meters_->bytes_written.add(static_cast<std::int64_t>(done.bytes), now);
      meters_->write_latency.record((now - done.began_ns) / 1000);
    }
    if (waiting_) std::exchange(waiting_, nullptr)->set();
  }

 private:
  Task<Status> below(std::size_t bytes) {
    while (in_flight_ > bytes) {
      waiting_ = std::make_shared<Event>();
      auto event = waiting_;
      co_await event->wait();
    }
    co_return failed_;
  }

  struct Write {
    std::size_t bytes;
    std::int64_t began_ns;
  };

  const std::shared_ptr<Ledger> ledger_;
  CompactionMeters* const meters_;
  std::deque<Write> writes_;
  std::size_t in_flight_ = 0;
  Status failed_;
  std::shared_ptr<Event> waiting_;
};

Compactor::Compactor(Shard& shard, ManagedLedger& log, std::shared_ptr<CompactedLedger> previous,
                     Position last, CompactorOptions options, const bool& stopped)
    : shard_(shard),
      log_(log),
      previous_(std::move(previous)),
      last_(last),
      options_(options),
      stopped_(stopped),
      latest_(options.index_bytes) {}

Task<Status> Compactor::step() {
  co_await asio::post(shard_.executor(), asio::use_awaitable);
  if (stopped_) co_return Status::Cancelled("compaction was stopped: the topic is being closed");
  co_return Status::ok();
}

Task<Status> Compactor::choose() {
  for (std::uint64_t from = 0;;) {
    GM_CO_RETURN_IF_ERROR(co_await pass(from));
    if (latest_.covered_to() == LatestByKey::kLast) break;
    from = latest_.covered_to() + 1;
  }
  latest_ = LatestByKey(0);
  chunks_of_.clear();
  unfinished_.clear();
  co_return Status::ok();
}

Task<Status> Compactor::pass(std::uint64_t from) {
  latest_.begin(from);
  chunks_of_.clear();
  unfinished_.clear();
  CompactionCounts seen;
  std::uint64_t number = 0;
  Input input(*this);
  for (;;) {
    GM_CO_RETURN_IF_ERROR(co_await step());
    auto entries = co_await input.next();
    if (!entries) co_return entries.status();
    if (entries->empty()) break;
    const std::int64_t before = seen.bytes_read;
    for (const Entry& entry : *entries) {
      content_.read(entry.data.span());
      look_at(number);
      number += numbers_of(content_);
      ++seen.entries_read;
      seen.bytes_read += static_cast<std::int64_t>(entry.data.size());
      if (content_.kind() == CompactionEntry::Kind::Marker) continue;
      const auto& messages = content_.messages();
      const auto gone = std::count_if(messages.begin(), messages.end(),
                                      [](const auto& message) { return message.compacted_out; });
      seen.messages_read +=
          messages.empty() ? content_.count() : static_cast<std::int64_t>(messages.size()) - gone;
    }
    count_read(seen.bytes_read - before);
  }
  keep_chosen();
  seen.passes = counts_.passes + 1;
  counts_ = seen;
  co_return Status::ok();
}

void Compactor::look_at(std::uint64_t first) {
  const auto& txn = content_.metadata().txn;
  if (txn && options_.is_aborted && options_.is_aborted(*txn)) return;
  switch (content_.kind()) {
    case CompactionEntry::Kind::Marker: return;
    case CompactionEntry::Kind::Opaque: kept_.insert(static_cast<EntryId>(first)); return;
    case CompactionEntry::Kind::Chunk: look_at_chunk(first); return;
    case CompactionEntry::Kind::Single:
    case CompactionEntry::Kind::Batch: break;
  }
  for (const CompactionEntry::Message& message : content_.messages()) {
    const std::uint64_t number = first++;
    if (message.compacted_out) continue;
    if (message.has_key()) {
      latest(message.key, message.empty, number);
    } else if (options_.retain_null_key) {
      kept_.insert(static_cast<EntryId>(number));
    }
  }
}

// The chunks of a message stay or go together; its last one decides. Those of a message that is not
// complete yet stay, for the rest may follow.
void Compactor::look_at_chunk(std::uint64_t number) {
  const EntryMetadata& metadata = content_.metadata();
  const CompactionEntry::Message& message = content_.messages().front();
  const std::string id(metadata.uuid);
  auto at = unfinished_.find(id);
  if (metadata.chunk_id == 0) {
    if (at == unfinished_.end()) {
      if (unfinished_.size() >= kMaxUnfinished) {
        kept_.insert(static_cast<EntryId>(number));
        return;
      }
      at = unfinished_.emplace(id, Chunks()).first;
    }
    at->second.numbers.clear();
  }
  if (at == unfinished_.end()) return;  // its beginning is gone: nobody can put it together
  Chunks& chunks = at->second;
  if (static_cast<std::size_t>(metadata.chunk_id) != chunks.numbers.size()) return;
  chunks.numbers.push_back(number);
  if (!metadata.is_last_chunk()) return;
  Chunks whole = std::move(chunks);
  unfinished_.erase(at);
  if (message.has_key()) {
    chunks_of_.emplace(number, std::move(whole));
    latest(message.key, message.empty, number);
  } else if (options_.retain_null_key) {
    for (const std::uint64_t part : whole.numbers) kept_.insert(static_cast<EntryId>(part));
  }
}

void Compactor::latest(std::string_view key, bool empty, std::uint64_t number) {
  const auto superseded = latest_.put(siphash128(hash_key_, key),
                                      empty ? std::nullopt : std::optional<std::uint64_t>(number));
  if (superseded && !chunks_of_.empty()) chunks_of_.erase(*superseded);
}

void Compactor::keep_chosen() {
  latest_.for_each_message([this](std::uint64_t number) {
    kept_.insert(static_cast<EntryId>(number));
    const auto chunks = chunks_of_.find(number);
    if (chunks == chunks_of_.end()) return;
    for (const std::uint64_t part : chunks->second.numbers)
      kept_.insert(static_cast<EntryId>(part));
  });
  for (const auto& [id, chunks] : unfinished_) {
    for (const std::uint64_t part : chunks.numbers) kept_.insert(static_cast<EntryId>(part));
  }
}

Task<Status> Compactor::write(std::shared_ptr<Ledger> into) {
  Output output(into, options_.meters);
  Input input(*this);
  std::uint64_t number = 0;
  std::int64_t entries_read = 0;
  std::int64_t bytes_read = 0;
  ++counts_.passes;
  Status status;
  while (status) {
    status = co_await step();
    if (!status) break;
    auto entries = co_await input.next();
    if (!entries) {
      status = entries.status();
      break;
    }
    if (entries->empty()) break;
    const std::int64_t before = bytes_read;
    for (const Entry& entry : *entries) {
      content_.read(entry.data.span());
      ++entries_read;
      bytes_read += static_cast<std::int64_t>(entry.data.size());
      if (status) status = write_entry(entry, number, output);
      number += numbers_of(content_);
    }
    count_read(bytes_read - before);
    if (status) status = co_await output.room();
  }
  const Status drained = co_await output.drained();  // it must not go before they have come back
  GM_CO_RETURN_IF_ERROR(status);
  GM_CO_RETURN_IF_ERROR(drained);
  if (entries_read != counts_.entries_read || bytes_read != counts_.bytes_read) {
    co_return Status::Conflict(
        "messages were removed from the topic while it was compacted; compact it again");
  }
  co_return co_await into->seal();
}

void Compactor::count_read(std::int64_t bytes) const {
  if (options_.meters != nullptr) options_.meters->bytes_read.add(bytes, monotonic_ns());
}

Status Compactor::write_entry(const Entry& entry, std::uint64_t first, Output& output) {
  std::int64_t kept = 0;
  const std::size_t places = numbers_of(content_);
  keep_.assign(places, false);
  for (std::size_t i = 0; i < places; ++i) {
    keep_[i] = kept_.contains(static_cast<EntryId>(first + i));
    kept += keep_[i] ? 1 : 0;
  }
  if (kept == 0) return Status::ok();
  Buffer data = entry.data;
  const auto& messages = content_.messages();
  if (content_.kind() == CompactionEntry::Kind::Batch) {
    bool changed = false;
    for (std::size_t i = 0; i < places; ++i) changed |= !keep_[i] && !messages[i].compacted_out;
    if (changed) {
      GM_ASSIGN_OR_RETURN(data, content_.rewritten(keep_));
    }
  }
  GM_RETURN_IF_ERROR(output.append(
      encode_compacted_entry(entry.position, options_.partition, data.span()), content_.count()));
  ++counts_.entries_written;
  counts_.messages_kept += content_.kind() == CompactionEntry::Kind::Opaque
                               ? static_cast<std::int64_t>(content_.count())
                               : kept;
  counts_.bytes_written += static_cast<std::int64_t>(data.size());
  return Status::ok();
}

}  // namespace geminga
