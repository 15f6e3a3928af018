// Where one durable cursor is kept: its key in the metadata store and, once something is
// acknowledged, a ledger of its own that takes one entry for each state that is persisted; only the
// last one counts (docs/format/managed-ledger.md).
//
// The ledger begins with the first write(); it is replaced by a new one when it is full or fails,
// and removed after the key points elsewhere, so at every moment the key names a complete state.
// When no ledger can be written (disk full, failing log), small states go into the key itself, so
// that acknowledgements go on. Every write of the key is a compare-and-set; a version that somebody
// else has changed is answered with Fenced.
//
// Belongs to its cursor, which makes one call at a time, on the ledger's shard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "MLDataFormats.pb.h"
#include "base/status.h"
#include "ledger/ledger_store.h"
#include "managed_ledger/cursor_state.h"
#include "managed_ledger/managed_ledger.h"
#include "managed_ledger/stored_form.h"
#include "runtime/task.h"

namespace geminga {

class CursorStore {
 public:
  using Properties = std::map<std::string, std::string>;

  CursorStore(ManagedLedgerEnv env, std::string ledger_name, std::string cursor_name);

  // Writes a new key. A key that exists (an earlier create that was applied although it failed) is
  // replaced.
  Task<Status> create(const CursorState& state, Properties properties, std::int64_t last_active_ms);
  // Reads the key and, if the state is there, the last entry of the cursor's ledger (which fences
  // whoever wrote to it). A ledger that is gone, empty or damaged leaves the snapshot in the key.
  Task<Status> load(CursorState& state, PositionProperties& position_properties);

  const Properties& properties() const { return properties_; }
  std::int64_t stored_last_active_ms() const { return info_.lastactive(); }

  // Persists the state as it is at the call.
  Task<Status> write(const CursorState& state, const PositionProperties& position_properties,
                     StoredStateLimits limits, std::int64_t last_active_ms);
  // The same, all of it in the key. For states without holes.
  Task<Status> write_in_key(const CursorState& state, const PositionProperties& position_properties,
                            std::int64_t last_active_ms);
  Task<Status> set_properties(Properties properties, std::int64_t last_active_ms);
  // The clean end: everything into the key and the ledger away, or, if the state is large, one last
  // entry. `changed`: since the last write(). Does nothing if the key says it all.
  Task<Status> close(const CursorState& state, const PositionProperties& position_properties,
                     StoredStateLimits limits, std::int64_t last_active_ms, bool changed);
  // The key, then the ledger.
  Task<Status> remove();

  // For those who remove the key themselves.
  const std::string& path() const { return path_; }
  LedgerId ledger_id() const { return info_.cursorsledgerid(); }
  // Bytes of the last state written.
  std::size_t last_state_bytes() const { return last_state_bytes_; }

 private:
  Task<Status> put(pulsar::ml::ManagedCursorInfo info);
  Task<Status> write_to_new_ledger(std::string state, pulsar::ml::ManagedCursorInfo snapshot);
  Task<Status> write_to_key(pulsar::ml::ManagedCursorInfo whole);
  Task<void> remove_ledger(LedgerId id);
  bool ledger_full() const;

  ManagedLedgerEnv env_;
  std::string ledger_name_;
  std::string cursor_name_;
  std::string path_;
  pulsar::ml::ManagedCursorInfo info_;  // what the key holds
  std::int64_t version_ = -1;
  Properties properties_;           // info_'s cursorProperties
  std::shared_ptr<Ledger> ledger_;  // null: none written to since the cursor was opened
  std::int64_t ledger_entries_ = 0;
  std::int64_t ledger_bytes_ = 0;
  std::size_t last_state_bytes_ = 0;
  bool incomplete_told_ = false;
};

}  // namespace geminga
