// The compaction of one topic: its compacted data, the runs that make them, and what is told about
// both.
//
// State on disk is the cursor `__compaction`, as in Pulsar: its mark-delete position is the
// horizon, its number CompactedTopicLedger the ledger of the compacted data. It holds back
// trimming, so that nothing is dropped that compaction has not seen. A run (compactor.h) writes a
// ledger of its own, then both change in one write of the cursor's key, then the superseded ledger
// goes. Whenever a run is cut off, the old data and horizon hold: before it writes, its cursor's
// property kRunProperty names the ledgers concerned, so that the topic, when it opens the next
// time, removes the one that is not in use and starts the run anew. A run that fails by itself is
// not repeated; its error is kept for compaction-status.
//
// Made and owned by the topic, used on its shard. stop() before the topic's gate is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/compacted_ledger.h"
#include "broker/compactor.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"
#include "runtime/gate.h"
#include "runtime/shard.h"

namespace geminga {

inline constexpr char kCompactionCursor[] = "__compaction";
// Where a client reads that subscribes to the name above.
inline constexpr char kCompactionReader[] = "__compaction-reader";

class TopicCompaction {
 public:
  static constexpr char kRunProperty[] = "geminga.compaction.run";

  struct Env {  // all outlive it
    Shard& shard;
    LedgerStore& ledgers;
    ManagedLedger& log;
    Gate& gate;  // of the topic: runs are inside
    std::string topic;
    CompactorOptions options;
    std::function<void(std::shared_ptr<ManagedCursor>)> cursor_made;  // not for one found by open()
    std::function<Position()> max_read_position = {};  // open transactions hold back what follows
  };
  explicit TopicCompaction(Env env) : env_(std::move(env)) {}

  // Once, when the topic is opened: takes up what is there, and begins a run that was cut off anew.
  Task<Status> open();
  // Makes the cursor if there is none, so that nothing is trimmed before the first run.
  Task<Status> hold_log();
  // Begins a run. Conflict if one is under way.
  Status start();
  // Until the run is sure to be done, should the process die (or has ended).
  Task<void> marked();
  // No more runs; one that is under way ends soon, and is done anew when the topic is opened again.
  void stop() { stopped_ = true; }
  // The cursor was deleted: the compacted data go, too.
  Task<Status> cursor_deleted();
  // start(), if more than `threshold` bytes (0: never) are not compacted.
  void start_if_over(std::int64_t threshold);

  // The compacted data; null if there are none.
  const std::shared_ptr<CompactedLedger>& current() const { return current_; }
  // The last message that a reader of the compacted topic can get, given the log's.
  Topic::LastMessage last_message(Topic::LastMessage of_log) const;
  std::int64_t cursor_bytes_read() const { return bytes_read_; }
  std::int64_t cursor_messages_read() const { return messages_read_; }

  enum class State : std::uint8_t { NotRun, Running, Success, Error };
  State state() const { return state_; }
  const std::string& last_error() const { return last_error_; }
  CompactionStats stats() const;

 private:
  Task<Status> open_current(const ManagedCursor* cursor);
  void trim_later();
  Task<Status> remove_leftovers(const ManagedCursor* cursor);
  Task<Status> mark_run(std::string value);
  Task<void> run();
  Task<Status> run_once();
  Task<Status> write(Compactor* compactor, Position last);
  Task<void> remove_ledger(LedgerId id);
  std::shared_ptr<ManagedCursor> cursor() const { return env_.log.cursor(kCompactionCursor); }

  const Env env_;
  bool stopped_ = false;
  std::shared_ptr<Event> marked_;  // while a run begins
  std::shared_ptr<CompactedLedger> current_;
  State state_ = State::NotRun;
  std::string last_error_;
  CompactionStats stats_;  // without what meters_ and current_ tell
  CompactionMeters meters_;
  std::int64_t bytes_read_ = 0;
  std::int64_t messages_read_ = 0;
};

}  // namespace geminga
