// The bytes of managed ledgers and cursors in the metadata store and in cursor ledgers, as Pulsar
// writes them (docs/format/managed-ledger.md). Pure functions; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "MLDataFormats.pb.h"
#include "base/status.h"
#include "managed_ledger/cursor_state.h"

namespace geminga {

// "/managed-ledgers/<name>", and below it the cursor's key. `name` is encoded already, `cursor` is
// not.
std::string managed_ledger_path(std::string_view name);
std::string cursor_path(std::string_view name, std::string_view cursor);

// Values of the two kinds of keys, plain or compressed; empty is an empty message. Corruption names
// `path`. We write them plain (SerializeAsString).
Result<pulsar::ml::ManagedLedgerInfo> parse_ledger_info(std::string_view value,
                                                        std::string_view path);
Result<pulsar::ml::ManagedCursorInfo> parse_cursor_info(std::string_view value,
                                                        std::string_view path);

using PositionProperties = std::map<std::string, std::int64_t>;

struct StoredStateLimits {
  std::int64_t max_ranges = 10'000;         // more: all ledgers as bit sets
  std::int64_t max_batch_indexes = 10'000;  // more: the later ones are left out
  std::int64_t max_bytes = 4LL << 20;       // more: the later ledgers' bit sets are left out
};

// One entry of a cursor ledger. `complete` is set to false if a limit made it leave something out,
// which a crash would then deliver again.
std::string encode_position_info(const CursorState& state, const PositionProperties& properties,
                                 const StoredStateLimits& limits, bool* complete);
// Loads such an entry. Corruption: it is none.
Status decode_position_info(std::string_view bytes, CursorState& state,
                            PositionProperties& properties);

// The same state inside the cursor's key. `with_acks` false: the mark-delete position only (a
// snapshot, while the state is in a cursor ledger). More than so many redelivery counts are left
// out of a key.
constexpr std::size_t kMaxRedeliveriesInKey = 1000;
void put_state(const CursorState& state, const PositionProperties& properties, bool with_acks,
               pulsar::ml::ManagedCursorInfo* info);
void load_state(const pulsar::ml::ManagedCursorInfo& info, CursorState& state,
                PositionProperties& properties);

}  // namespace geminga
