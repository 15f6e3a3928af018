#include "server/admin/ledger_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "base/iso_time.h"
#include "base/url_encoding.h"

namespace geminga {

namespace json = boost::json;

namespace {

std::string acked_ranges(const ManagedLedger& log, const ManagedCursor& cursor) {
  // "[(28:2..28:4],(28:5..28:7]]": open below, closed above. Bounded, as a document has to be.
  constexpr std::size_t kMaxRanges = 1000;
  std::string out = "[";
  const Position end = log.last_confirmed();
  Position from = cursor.first_unacked();
  for (std::size_t shown = 0;
       shown < kMaxRanges && shown < cursor.acked_range_count() && from <= end; ++shown) {
    // `from` is not acknowledged; find the next one that is, then the next that is not.
    Position acked = log.next(from);
    std::size_t steps = 0;
    while (acked <= end && !cursor.is_acked(acked) && ++steps < 100'000) acked = log.next(acked);
    if (acked > end || !cursor.is_acked(acked)) break;
    const Position after = cursor.next_unacked(acked);
    const Position below = log.previous(acked);
    const Position last = log.previous(after);
    out += fmt::format("{}({}..{}]", shown == 0 ? "" : ",", below.to_string(), last.to_string());
    from = after;
  }
  return out + "]";
}

}  // namespace

json::object cursor_json(const ManagedLedger& log, const ManagedCursor& cursor, bool connected) {
  json::object out;
  out["markDeletePosition"] = cursor.mark_delete().to_string();
  out["readPosition"] = cursor.first_unacked().to_string();
  const bool at_end = cursor.backlog_entries() == 0;
  out["waitingReadOp"] = at_end && connected;
  out["pendingReadOps"] = 0;
  out["messagesConsumedCounter"] = log.total_entries() - cursor.backlog_entries();
  out["cursorLedger"] = -1;  // acknowledgements are kept in the metadata store
  out["cursorLedgerLastEntry"] = -1;
  out["individuallyDeletedMessages"] = acked_ranges(log, cursor);
  out["lastLedgerSwitchTimestamp"] = iso_time(cursor.last_active_ms());
  out["state"] = cursor.durable() ? "NoLedger" : "Open";
  out["active"] = connected;
  out["numberOfEntriesSinceFirstNotAckedMessage"] = cursor.backlog_entries();
  out["totalNonContiguousDeletedMessagesRange"] =
      static_cast<std::int64_t>(cursor.acked_range_count());
  out["subscriptionHavePendingRead"] = at_end && connected;
  out["subscriptionHavePendingReplayRead"] = false;
  json::object properties;
  for (const auto& [key, value] : cursor.position_properties()) properties[key] = value;
  out["properties"] = std::move(properties);
  return out;
}

json::object ledger_json(LedgerId id, std::int64_t entries, std::int64_t bytes) {
  json::object out;
  out["ledgerId"] = id;
  out["entries"] = entries;
  out["size"] = bytes;
  out["offloaded"] = false;
  out["underReplicated"] = false;
  return out;
}

json::object managed_ledger_json(const ManagedLedger& log) {
  json::object out;
  LedgerSummary current;
  std::int64_t last_closed = 0;
  json::array list;
  for (const LedgerSummary& ledger : log.ledgers()) {
    const bool open = ledger.closed_ms == 0;
    if (open) current = ledger;
    last_closed = std::max(last_closed, ledger.closed_ms);
    list.push_back(ledger_json(ledger.id, open ? 0 : ledger.entries, open ? 0 : ledger.bytes));
  }
  out["entriesAddedCounter"] = log.entries_added();
  out["numberOfEntries"] = log.total_entries();
  out["totalSize"] = log.total_bytes();
  out["currentLedgerEntries"] = current.entries;
  out["currentLedgerSize"] = current.bytes;
  out["lastLedgerCreatedTimestamp"] = iso_time(last_closed);
  out["waitingCursorsCount"] = 0;
  out["pendingAddEntriesCount"] = 0;
  out["lastConfirmedEntry"] = log.last_confirmed().to_string();
  out["state"] = log.terminated() ? "Terminated" : "LedgerOpened";
  out["ledgers"] = std::move(list);
  return out;
}

json::object cursors_json(const ManagedLedger& log) {
  json::object cursors;
  for (const auto& cursor : log.cursors())
    cursors[url_encode(cursor->name())] = cursor_json(log, *cursor, false);
  return cursors;
}

}  // namespace geminga
