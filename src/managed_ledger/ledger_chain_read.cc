#include <algorithm>

#include "managed_ledger/ledger_chain.h"

namespace geminga {

namespace {

// Entries before the answer of a binary search that are looked at one by one, because publish times
// are not quite in order; and how often that is repeated while earlier ones are found.
constexpr std::int64_t kNeighbours = 64;
constexpr int kMaxWidenings = 4;
constexpr std::size_t kSearchReadBytes = 1 << 20;

}  // namespace

std::size_t LedgerChain::read_cached(Position from, std::size_t max_entries, std::size_t max_bytes,
                                     std::vector<Entry>& out) {
  // Kept between calls, so that delivering does not allocate.
  static thread_local std::vector<LedgerEntry> scratch;
  std::size_t added = 0;
  std::size_t bytes = 0;
  Position at = list_.normalize(from);
  while (added < max_entries && (added == 0 || bytes < max_bytes)) {
    const LedgerSlot* slot = list_.find(at.ledger);
    if (slot == nullptr || at.entry >= slot->entries) break;
    Ledger* ledger = handles_.cached(at.ledger);
    if (ledger == nullptr) break;
    const auto left = static_cast<std::size_t>(slot->entries - at.entry);
    scratch.clear();
    const std::size_t got = ledger->read_cached(at.entry, std::min(max_entries - added, left),
                                                max_bytes - bytes, scratch);
    if (got == 0) break;
    for (LedgerEntry& entry : scratch) {
      bytes += entry.data.size();
      out.push_back({{at.ledger, entry.id}, std::move(entry.data), entry.messages});
    }
    added += got;
    at = list_.normalize({at.ledger, at.entry + static_cast<EntryId>(got)});
  }
  scratch.clear();
  return added;
}

Task<Result<std::vector<Entry>>> LedgerChain::read(Position from, std::size_t max_entries,
                                                   std::size_t max_bytes) {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  std::vector<Entry> out;
  while (true) {
    const Position at = list_.normalize(from);
    const LedgerSlot* slot = list_.find(at.ledger);
    if (slot == nullptr || at.entry >= slot->entries || max_entries == 0) co_return out;
    if (read_cached(at, max_entries, max_bytes, out) > 0) co_return out;

    const auto left = static_cast<std::size_t>(slot->entries - at.entry);
    auto ledger = co_await handles_.get(at.ledger);
    Status status = ledger.status();
    if (ledger) {
      auto entries = co_await (*ledger)->read(at.entry, std::min(max_entries, left), max_bytes);
      if (entries) {
        out.reserve(entries->size());
        for (LedgerEntry& entry : *entries) {
          out.push_back({{at.ledger, entry.id}, std::move(entry.data), entry.messages});
        }
        co_return out;
      }
      status = entries.status();
    }
    // Trimmed while it was read: go on after it.
    if (list_.find(at.ledger) != nullptr) {
      handles_.drop(at.ledger);
      if (current_ && current_->id() == at.ledger) handles_.keep(current_);
      co_return status.with_context("reading " + at.to_string() + " of " + name_);
    }
    from = at;
  }
}

Task<Result<Position>> LedgerChain::find_first(UniqueFunction<bool(const Entry&)> reached) {
  auto inside = gate_.hold();
  if (!inside) co_return closed_status();
  std::int64_t low = list_.first_index();
  std::int64_t high = list_.end_index();
  while (true) {
    low = std::max(low, list_.first_index());  // ledgers may be dropped while one reads
    if (low >= high) break;
    const std::int64_t middle = low + (high - low) / 2;
    auto entries = co_await read(list_.position_at(middle), 1, 1);
    if (!entries) co_return entries.status();
    if (middle < list_.first_index()) continue;
    if (!entries->empty() && reached(entries->front())) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::int64_t found = low;
  for (int widening = 0; widening < kMaxWidenings; ++widening) {
    std::int64_t earlier = found;
    for (std::int64_t at = found - kNeighbours; at < found && earlier == found;) {
      at = std::max(at, list_.first_index());
      if (at >= found) break;
      auto entries = co_await read(list_.position_at(at), static_cast<std::size_t>(found - at),
                                   kSearchReadBytes);
      if (!entries) co_return entries.status();
      if (at < list_.first_index()) continue;
      if (entries->empty()) break;
      for (const Entry& entry : *entries) {
        if (reached(entry)) {
          earlier = at;
          break;
        }
        ++at;
      }
    }
    if (earlier == found) break;
    found = earlier;
  }
  found = std::max(found, list_.first_index());
  co_return found >= list_.end_index() ? list_.end_position() : list_.position_at(found);
}

Task<Result<std::int64_t>> LedgerChain::messages_through(Position position) {
  if (const auto known = list_.messages_through(position)) co_return *known;
  const LedgerSlot* slot = list_.find(position.ledger);  // there: all else is known
  const std::int64_t before = slot->messages_before;
  auto ledger = co_await handles_.get(position.ledger);
  if (!ledger) co_return ledger.status();
  auto within = co_await (*ledger)->messages_through(position.entry);
  if (!within) co_return within.status();
  co_return before + *within;
}

}  // namespace geminga
