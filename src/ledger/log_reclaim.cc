#include "ledger/log_reclaim.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "ledger/log_scan.h"

namespace geminga {

using log_format::Kind;

namespace {
// Between two looks without a reason: a checkpoint may have made a segment reclaimable.
constexpr Millis kLookEvery{2000};
}  // namespace

LogReclaim::LogReclaim(Shard& shard, LogSegments& segments, LogReader& reader, LogWriter& writer,
                       const LogStoreOptions& options, LogCounters& counters)
    : shard_(shard),
      segments_(segments),
      reader_(reader),
      writer_(writer),
      options_(options),
      counters_(counters),
      wake_(shard.executor()) {}

void LogReclaim::start() {
  if (options_.rewrite_below <= 0) return;
  spawn(shard_, gate_, [this] { return loop(); });
}

void LogReclaim::look() {
  wanted_ = true;
  wake_.cancel();
}

Task<void> LogReclaim::stop() {
  stopping_ = true;
  wake_.cancel();
  co_await gate_.close();
}

Task<void> LogReclaim::loop() {
  while (!stopping_ && !writer_.failed()) {
    const auto segment = candidate();
    if (!segment) {
      wanted_ = false;
      wake_.expires_after(kLookEvery);
      boost::system::error_code ignored;
      if (!wanted_) co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    busy_ = true;
    const Status status = co_await rewrite(segment);
    // A turn for the others, whatever came of it.
    co_await sleep_for(Millis(5));
    busy_ = false;
    if (!status && !stopping_) {
      given_up_.insert(segment->sequence());
      GM_LOG_ERROR("log {}: {} keeps its space: {}", options_.label(), segment_name(segment->slot),
                   status.to_string());
    }
  }
}

std::shared_ptr<LogSegment> LogReclaim::candidate() const {
  std::shared_ptr<LogSegment> best;
  double best_share = options_.rewrite_below;
  for (const auto& [sequence, segment] : segments_.all()) {
    if (sequence >= segments_.floor()) break;
    if (!segment->footed || segment->live_bytes <= 0 || given_up_.contains(sequence)) continue;
    const double share = static_cast<double>(segment->live_bytes) /
                         static_cast<double>(segment->header.segment_bytes);
    if (share < best_share) {
      best = segment;
      best_share = share;
    }
  }
  return best;
}

Task<Status> LogReclaim::rewrite(std::shared_ptr<LogSegment> segment) {
  const std::uint64_t sequence = segment->sequence();
  GM_CO_ASSIGN_OR_RETURN(const auto index, co_await reader_.index_of(segment));
  Moves moves;
  met_removed_ = false;
  const std::int64_t before = segment->live_bytes;
  for (std::uint32_t ordinal = 0; ordinal < index->blocks.size(); ++ordinal) {
    if (stopping_ || segment->freed) co_return Status::ok();
    auto block = co_await reader_.fetch(segment, index, ordinal);
    if (segment->freed) co_return Status::ok();
    if (!block) co_return block.status();
    const std::uint64_t copied = counters_.rewritten_bytes;
    writer_.begin_moves(sequence);
    GM_CO_RETURN_IF_ERROR(copy_block(*segment, **block, moves));
    const std::uint64_t bytes = counters_.rewritten_bytes - copied;
    if (bytes == 0) continue;
    GM_CO_RETURN_IF_ERROR(co_await writer_.durable());
    co_await sleep_for(
        Millis(bytes * 1000 / std::max<std::size_t>(options_.rewrite_bytes_per_second, 1)));
  }
  GM_CO_RETURN_IF_ERROR(co_await writer_.durable());
  switch_over(sequence, moves);
  ++counters_.rewritten_segments;
  GM_LOG_DEBUG("log {}: moved {} bytes out of {}", options_.label(), before,
               segment_name(segment->slot));
  if (!segment->freed && segment->live_bytes >= before && !met_removed_) {
    co_return Status::Corruption("nothing that lives in it was found");
  }
  co_return Status::ok();
}

// Without a pause between finding a record alive and copying it.
Status LogReclaim::copy_block(const LogSegment& segment, const CachedBlock& block, Moves& moves) {
  if (writer_.failed()) return writer_.failure();
  const std::uint64_t sequence = segment.sequence();
  RecordWalk walk({block.data(), block.size}, block.begin, segment.seed, segment.header.alignment);
  const auto damaged = [&] {
    return Status::Corruption(fmt::format("{} offset {}: a record is damaged",
                                          segment_name(segment.slot), walk.offset()));
  };
  for (auto step = walk.next(); step != RecordWalk::Step::End; step = walk.next()) {
    if (step == RecordWalk::Step::Bad) return damaged();
    const auto& header = walk.header();
    if (header.kind != Kind::Entry && header.kind != Kind::Created) continue;
    const auto ledger = lookup_(header.ledger);
    if (!ledger) continue;
    if (ledger->removed) {
      met_removed_ = true;  // its bytes go when its removal is durable
      continue;
    }
    std::uint64_t to = 0;
    if (header.kind == Kind::Created) {
      if (ledger->created_in != sequence) continue;
      if (!walk.payload_valid()) return damaged();
      to = writer_.add_moved_created(*ledger, walk.payload());
      auto& move = moves[header.ledger];
      move.ledger = ledger;
      move.created_in = to;
    } else {
      const Extent* extent = ledger->extent_of(header.entry);
      if (extent == nullptr || extent->segment != sequence) continue;
      if (!walk.payload_valid()) return damaged();
      to = writer_.add_moved_entry(ledger, header, walk.payload());
      auto& move = moves[header.ledger];
      move.ledger = ledger;
      auto& extents = move.extents;
      if (extents.empty() || extents.back().segment != to ||
          extents.back().last + 1 != header.entry) {
        extents.push_back({header.entry, header.entry, to, 0, 0, 0, true});
      }
      extents.back().last = header.entry;
      extents.back().payload_bytes += header.length;
      extents.back().record_bytes += header.bytes();
      extents.back().messages_through = header.messages_through;
    }
    counters_.rewritten_bytes += header.bytes();
  }
  return Status::ok();
}

void LogReclaim::switch_over(std::uint64_t from, Moves& moves) {
  for (auto& [id, move] : moves) {
    LedgerState& ledger = *move.ledger;
    if (ledger.removed) {
      // Its old extents are dropped by whoever deletes it; the copies were for nothing.
      for (const Extent& copy : move.extents) {
        segments_.drop_live(copy.segment, static_cast<std::int64_t>(copy.record_bytes));
      }
      if (move.created_in != 0) segments_.drop_live(move.created_in, ledger.created_bytes);
      continue;
    }
    std::int64_t left = 0;
    for (const Extent& extent : ledger.extents) {
      if (extent.segment == from) left += static_cast<std::int64_t>(extent.record_bytes);
    }
    std::erase_if(ledger.extents, [from](const Extent& extent) { return extent.segment == from; });
    ledger.extents.insert(ledger.extents.end(), move.extents.begin(), move.extents.end());
    std::sort(ledger.extents.begin(), ledger.extents.end(),
              [](const Extent& a, const Extent& b) { return a.first < b.first; });
    if (move.created_in != 0) {
      ledger.created_in = move.created_in;
      left += ledger.created_bytes;
    }
    // Last: may free the segment, and with it the runs of this ledger.
    segments_.drop_live(from, left);
  }
}

}  // namespace geminga
