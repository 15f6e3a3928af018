// The documents about managed ledgers that internalStats of topics and of transactions' logs have
// in common. On the ledger's shard.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>

#include "managed_ledger/managed_ledger.h"

namespace geminga {

boost::json::object ledger_json(LedgerId id, std::int64_t entries, std::int64_t bytes);
// `active`: somebody reads with it.
boost::json::object cursor_json(const ManagedLedger& log, const ManagedCursor& cursor, bool active);
// Counts and ledgers, not the cursors.
boost::json::object managed_ledger_json(const ManagedLedger& log);

}  // namespace geminga
