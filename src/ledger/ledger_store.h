// Ledgers: append-only sequences of entries with one writer, as Apache BookKeeper defines them.
//
// A `LedgerStore` belongs to one shard (the embedded one has one log a shard); it, its ledgers and
// all callbacks are used on that shard's thread only. Entries are opaque bytes, numbered from 0
// without gaps. An append is confirmed only when it is durable, and appends of a ledger are
// confirmed in order. Beside its bytes an entry carries a count of messages; the store keeps the
// running sum, so that "how many messages lie between two entries" is answered without reading what
// lies between.
//
// Implementations: LogStore (embedded, DESIGN §3), later BookKeeper and object stores.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/metrics.h"
#include "base/position.h"
#include "base/status.h"
#include "runtime/task.h"

namespace geminga {

struct LedgerEntry {
  EntryId id = -1;
  Buffer data;
  std::uint32_t messages = 0;
};

// Who is told that appends are done. Implemented by the managed ledger, called in entry order.
// Never called from inside append(). Must outlive the ledger's pending appends.
class AppendSink {
 public:
  // `status` OK: entry `id` of `ledger` is durable and readable. Otherwise it and all later ones of
  // this ledger are not (they may or may not appear after a crash); the ledger takes no further
  // appends.
  virtual void append_done(LedgerId ledger, EntryId id, const Status& status) = 0;

 protected:
  ~AppendSink() = default;
};

class Ledger {
 public:
  virtual ~Ledger() = default;

  virtual LedgerId id() const = 0;
  // The last durable entry, -1 if none.
  virtual EntryId last_confirmed() const = 0;
  // Sum of the payload bytes and of the messages of the durable entries.
  virtual std::int64_t bytes() const = 0;
  virtual std::int64_t messages() const = 0;
  virtual bool sealed() const = 0;

  // Queues one entry; the bytes are copied before the call returns. Its id is known at once, its
  // durability through `sink`. Errors at once (nothing queued): Closed (sealed, or failed before),
  // DiskFull, InvalidArgument (larger than the store's limit).
  virtual Result<EntryId> append(const Buffer& data, std::uint32_t messages, AppendSink* sink) = 0;

  // Copies out entries from `first` on while they are in memory: at most `max_entries`, and at most
  // `max_bytes` (but at least one entry). Returns how many were added to `out`; 0 = not in memory
  // (use read()). The buffers share the store's memory. Never waits.
  virtual std::size_t read_cached(EntryId first, std::size_t max_entries, std::size_t max_bytes,
                                  std::vector<LedgerEntry>& out) = 0;
  // The same from disk, with read-ahead. first <= last_confirmed(). Errors: Corruption, Io,
  // NotFound (first beyond the end or negative).
  virtual Task<Result<std::vector<LedgerEntry>>> read(EntryId first, std::size_t max_entries,
                                                      std::size_t max_bytes) = 0;

  // Messages in entries [0, entry]; entry -1 gives 0. `entry` must be durable.
  virtual Task<Result<std::int64_t>> messages_through(EntryId entry) = 0;

  // No further appends; waits for those queued; durable when it returns. Idempotent.
  virtual Task<Status> seal() = 0;
};

struct LedgerStats {
  std::int64_t ledgers = 0;
  std::int64_t live_bytes = 0;  // payload and headers of entries of existing ledgers
  std::int64_t disk_bytes = 0;  // space taken by segments
  std::int64_t segments_in_use = 0;
  std::int64_t segments_free = 0;  // kept for use again
  // Since it was opened.
  std::uint64_t appends = 0;
  std::uint64_t append_bytes = 0;             // payload
  std::uint64_t flushes = 0;                  // groups written and synced
  const TimeHistogram* flush_time = nullptr;  // the store's own; readable on any thread
};

class LedgerStore {
 public:
  virtual ~LedgerStore() = default;

  // A new, empty, writable ledger. `metadata`: BookKeeper's custom metadata ("application",
  // "component", "pulsar/managed-ledger", "pulsar/cursor"), kept and shown by tools.
  virtual Task<Result<std::shared_ptr<Ledger>>> create(
      std::map<std::string, std::string> metadata) = 0;
  // Opens an existing ledger for reading and makes sure that no one can append to it any more
  // (fencing and recovery): afterwards it is sealed at its last durable entry. NotFound if there is
  // none.
  virtual Task<Result<std::shared_ptr<Ledger>>> open(LedgerId id) = 0;
  // Frees its space, in time. OK if it is gone already. Open handles answer Closed afterwards.
  virtual Task<Status> remove(LedgerId id) = 0;
  // All ids, ascending: to find ledgers that nobody refers to any more after a crash.
  virtual std::vector<LedgerId> list() const = 0;
  // True: its last user did not end with close(), so there may be such ledgers.
  virtual bool after_crash() const = 0;

  virtual LedgerStats stats() const = 0;
  // False: the disk has only its reserve left; append() answers DiskFull, all else goes on.
  virtual bool writable() const = 0;

  // Drains, flushes, closes. Once, on the store's shard; no other call is running.
  virtual Task<Status> close() = 0;
};

}  // namespace geminga
