// A managed ledger: the log of one topic as a list of ledgers, with its cursors.
//
// Opened by the topic that owns it, on the topic's shard; every call and callback is on that shard.
// The layout in the metadata store is Pulsar's (docs/format/managed-ledger.md), so that the same
// code runs on ZooKeeper beside Java brokers. If someone else takes the ledger over (bad version,
// fenced) it fails all further writes with Fenced: the owner must close and forget the topic.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/position.h"
#include "base/status.h"
#include "base/unique_function.h"
#include "ledger/ledger_store.h"
#include "managed_ledger/managed_cursor.h"
#include "metadata/metadata_store.h"
#include "runtime/shard.h"

namespace geminga {

struct Entry {
  Position position;
  Buffer data;
  std::uint32_t messages = 0;
};

// Names of the fields are those of Pulsar's configuration keys, in the units given.
struct ManagedLedgerConfig {
  std::int64_t max_entries_per_ledger = 50'000;
  std::int64_t max_bytes_per_ledger = 2048LL << 20;
  std::int64_t min_rollover_ms = 10 * 60 * 1000;  // not before, unless the maximum time is up
  std::int64_t max_rollover_ms = 240 * 60 * 1000;
  std::int64_t retention_ms = 0;     // keep consumed ledgers so long; -1 for ever; 0 none
  std::int64_t retention_bytes = 0;  // and so many bytes of them; -1 unlimited; 0 none
  std::int64_t cursor_flush_ms = 100;
  std::int64_t max_acked_ranges_to_persist = 10'000;
  std::int64_t max_batch_indexes_to_persist = 10'000;
};

// Who is told about persisted entries: the topic. Calls come in the order of append().
class PersistSink {
 public:
  // OK: the entry is durable at `position` and readable. Otherwise it is not stored as far as
  // anybody may rely on.
  virtual void persisted(Position position, const Status& status) = 0;
  // Properties of the managed ledger are about to be stored, because they were set, a ledger ended
  // or some are dropped: here is the place to add what must outlive the entries.
  virtual void add_properties(std::map<std::string, std::string>&) {}

 protected:
  ~PersistSink() = default;
};

enum class InitialPosition : std::uint8_t { Latest, Earliest };

struct LedgerSummary {  // for stats-internal
  LedgerId id = -1;
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
  std::int64_t closed_ms = 0;  // 0: the current one
};

class ManagedLedger {
 public:
  virtual ~ManagedLedger() = default;

  virtual const std::string& name() const = 0;  // "tenant/ns/persistent/ENC"
  virtual const ManagedLedgerConfig& config() const = 0;
  virtual void set_config(const ManagedLedgerConfig& config) = 0;  // acts at once

  // Appends one entry (bytes copied before return). The outcome reaches the sink given to open(),
  // never from inside the call. While a ledger rolls over, entries wait in order. An entry counts
  // at least one message.
  virtual void append(const Buffer& entry, std::uint32_t messages) = 0;

  // Last durable entry; (first ledger, -1) if there is none at all.
  virtual Position last_confirmed() const = 0;
  // The first entry's position, or where it will be.
  virtual Position first_position() const = 0;
  // The first valid position after / at or after `position`: steps over ends of ledgers and trimmed
  // ones. May be one past the last entry.
  virtual Position next(Position position) const = 0;
  virtual Position normalize(Position position) const = 0;
  // The last valid entry before `position`; (first ledger, -1) if none.
  virtual Position previous(Position position) const = 0;
  virtual bool exists(Position position) const = 0;
  // Entries in (from, to], both clipped to what exists.
  virtual std::int64_t entries_between(Position from, Position to) const = 0;
  virtual std::int64_t total_entries() const = 0;
  virtual std::int64_t total_messages() const = 0;
  virtual std::int64_t total_bytes() const = 0;
  virtual std::vector<LedgerSummary> ledgers() const = 0;
  // Totals since the process started.
  virtual std::int64_t entries_added() const = 0;

  // Entries from `from` on, not beyond last_confirmed(), across ledgers. read_cached: only while in
  // memory, returns how many were added. read: from disk; empty if `from` is beyond the end. An
  // entry whose ledger was trimmed is skipped.
  virtual std::size_t read_cached(Position from, std::size_t max_entries, std::size_t max_bytes,
                                  std::vector<Entry>& out) = 0;
  virtual Task<Result<std::vector<Entry>>> read(Position from, std::size_t max_entries,
                                                std::size_t max_bytes) = 0;
  // The first entry for which `reached` is true, by binary search, reading O(log n) entries;
  // `reached` must be false up to some entry and true after it (where it is not quite, because
  // publish times are not in order, the answer may be a few neighbours early, never late: the
  // search widens over the ledger boundaries). One past the last entry if none is.
  virtual Task<Result<Position>> find_first(UniqueFunction<bool(const Entry&)> reached) = 0;

  // Cursors. Durable ones are opened with the ledger.
  virtual std::vector<std::shared_ptr<ManagedCursor>> cursors() const = 0;  // durable ones
  virtual std::shared_ptr<ManagedCursor> cursor(const std::string& name) const = 0;
  // The durable cursor `name`, created durably if missing. `start`, if given, overrides `initial`:
  // next entry to deliver.
  virtual Task<Result<std::shared_ptr<ManagedCursor>>> open_cursor(
      std::string name, InitialPosition initial, std::map<std::string, std::string> properties,
      std::optional<Position> start = {}) = 0;
  // A cursor in memory whose next entry is the first at or after `start`. It holds back trimming
  // until it is dropped by remove_non_durable().
  virtual std::shared_ptr<ManagedCursor> new_non_durable_cursor(std::string name,
                                                                Position start) = 0;
  virtual void remove_non_durable(const std::shared_ptr<ManagedCursor>& cursor) = 0;
  virtual Task<Status> delete_cursor(std::string name) = 0;

  // Ends the log after the entries appended so far: appends fail with TopicTerminated from now on.
  // Gives the last position. Durable; idempotent.
  virtual Task<Result<Position>> terminate() = 0;
  virtual bool terminated() const = 0;
  virtual Position terminated_position() const = 0;

  // Text kept with the ledger ("pulsar.topic.epoch", ...). Durable when it returns.
  virtual const std::map<std::string, std::string>& properties() const = 0;
  virtual Task<Status> set_properties(std::map<std::string, std::string> properties) = 0;

  // Drops ledgers that all cursors have consumed and that retention does not keep; first starts a
  // new ledger if the current one has been written to for the maximum rollover time. Runs by itself
  // after rollover and when cursors advance to another ledger; retention by time needs a call now
  // and then (there is no timer).
  virtual Task<Status> trim() = 0;
  // Moves every cursor to the end, then drops all ledgers (admin "truncate").
  virtual Task<Status> truncate() = 0;
  // Starts a new ledger now (for tests and admin).
  virtual Task<Status> rollover() = 0;

  // Waits for appends, persists cursors into the metadata store, seals the ledger. No call after
  // it.
  virtual Task<Status> close() = 0;
  // close(), and everything is deleted from metadata and ledgers.
  virtual Task<Status> remove() = 0;
};

// What a managed ledger stands on; all outlive it.
struct ManagedLedgerEnv {
  Shard* shard = nullptr;
  LedgerStore* ledgers = nullptr;
  MetadataStore* metadata = nullptr;
};

// Opens (or creates, if `create_if_missing`) the managed ledger `name` and its durable cursors.
// NotFound if it does not exist and may not be created. `sink` outlives the managed ledger.
Task<Result<std::unique_ptr<ManagedLedger>>> open_managed_ledger(ManagedLedgerEnv env,
                                                                 std::string name,
                                                                 ManagedLedgerConfig config,
                                                                 PersistSink* sink,
                                                                 bool create_if_missing);

// Does the managed ledger exist, and which ones are below "tenant/ns/persistent"? Names as given to
// open.
Task<Result<bool>> managed_ledger_exists(MetadataStore& metadata, std::string name);
Task<Result<std::vector<std::string>>> list_managed_ledgers(MetadataStore& metadata,
                                                            std::string prefix);

// The ids of all ledgers that managed ledgers, cursors and delayed indexes name, ascending. A
// ledger that was in a LedgerStore before the first topic was opened, and that neither this nor
// schema_ledgers() names, was left by a crash between two steps and may be removed: a ledger is
// named only by the run that made it. Reads every key below /managed-ledgers and
// /geminga/delayed-index; ends with Closed soon after `stopped` is true.
Task<Result<std::vector<LedgerId>>> referenced_ledgers(MetadataStore& metadata,
                                                       std::shared_ptr<const bool> stopped = {});

}  // namespace geminga
