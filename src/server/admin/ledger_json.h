// Managed ledgers and cursors as the admin API's internal stats show them (reference:
// stats-fields). On the managed ledger's shard.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>

#include "managed_ledger/managed_ledger.h"

namespace geminga {

boost::json::object ledger_json(LedgerId id, std::int64_t entries, std::int64_t bytes);
// `connected`: does anybody read by it now?
boost::json::object cursor_json(const ManagedLedger& log, const ManagedCursor& cursor,
                                bool connected);
// Its ledgers; "cursors" is left to the caller.
boost::json::object managed_ledger_json(const ManagedLedger& log);
// Its cursors as if nobody was connected, by their names.
boost::json::object cursors_json(const ManagedLedger& log);

}  // namespace geminga
