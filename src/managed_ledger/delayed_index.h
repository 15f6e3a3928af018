// The delayed index of a topic: the positions of messages that are held back until their time, in
// order of due time, shared by all subscriptions of the topic.
//
//   add() -> buffer_ -> (full) frozen_ -> a run on disk -> (several alike) merged into a larger run
//
// What is held is a set of positions (held_): exactly these a subscription passes over when it
// reads the log, and gets from collect() when they are due. Whatever is not in the set is read from
// the log: so nothing must be known of what is in the index but the set itself, and a lost buffer
// (a crash) or a damaged run (lost() is counted in revision()) costs a reading of the log, no
// message. Items in the buffer or in runs that are not in the set are left-overs and passed over.
// An item leaves the set when done() says that nobody needs it any more.
//
// Time: ripe_ms() is how far the clock was when the timer last fired; it never goes back. add()
// takes only what is due later than that, so a subscription that has collected everything up to
// some time never has to look there again.
//
// Memory: 34 bytes an item in the buffer (at most twice max_buffered of them), 24 a block of 4096
// on disk, the set (an eighth of a byte to 4 bytes an item), and a bounded number of blocks that
// are due soon. Work in the background yields after each block.
//
// Owned by the topic, on its shard. Before it is destroyed, close() or remove() is awaited (or
// nothing was ever done with it).
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_function.h"
#include "managed_ledger/delayed_items.h"
#include "managed_ledger/delayed_run.h"
#include "managed_ledger/managed_ledger.h"
#include "managed_ledger/position_set.h"
#include "runtime/gate.h"

namespace geminga {

struct DelayedIndexOptions {
  std::size_t max_buffered = 64 << 10;    // items; then a run is written
  std::size_t merge_runs = 8;             // so many runs of about the same size become one
  std::size_t blocks_in_memory = 32;      // at most, or two a run
  std::size_t buffer_worth_closing = 64;  // fewer are not written at close(), but read again
  std::int64_t check_ms = 5'000;          // how often what is done with is looked for
  std::int64_t read_ahead_ms = 10'000;    // blocks that are due in that time are in memory
  std::int64_t retry_ms = 1'000;          // after a failed read or write
};

class DelayedIndex {
 public:
  // The entry is acknowledged by everybody who could get it, or gone.
  using Done = UniqueFunction<bool(Position)>;
  // Something is due, or can be collected now, or there is room again. Never from inside a call.
  using Wake = UniqueFunction<void()>;

  DelayedIndex(ManagedLedgerEnv env, std::string ledger_name, DelayedIndexOptions options,
               Done done, Wake wake);
  ~DelayedIndex();
  DelayedIndex(const DelayedIndex&) = delete;
  DelayedIndex& operator=(const DelayedIndex&) = delete;

  // Is there an index of this ledger on disk?
  static Task<Result<bool>> stored(MetadataStore& metadata, std::string ledger_name);
  // Once, before all else, if it is stored. Runs that are damaged are dropped, with all the others:
  // the index begins anew. An error: the stores cannot be read now.
  Task<Status> load();

  bool empty() const { return held_.empty(); }
  std::int64_t size() const { return held_.size(); }
  bool contains(Position position) const { return held_.contains(position); }
  // The first position at or after `from`, in its ledger, that is not held.
  Position next_not_held(Position from) const { return held_.next_missing(from); }

  // False: no room now. True also if it is held already. `due_ms` is later than ripe_ms().
  bool add(std::int64_t due_ms, Position position);
  bool full() const { return buffer_.size() + frozen_.size() >= 2 * options_.max_buffered; }

  std::int64_t ripe_ms() const { return ripe_ms_; }
  struct Collected {
    enum class Next : std::uint8_t {
      Nothing,  // that was all that is due
      More,     // call again
      Wait,     // for a read: wake() is called
    } next = Next::Nothing;
    DelayedItem through;  // nothing more is to come up to here
  };
  // Adds to `out`, in order, held items behind `after` that are due by ripe_ms(): at most
  // `at_most`, and after a bounded amount of work.
  Collected collect(const DelayedItem& after, std::size_t at_most, std::vector<DelayedItem>& out);
  // Rises when the index was emptied: subscriptions read the log again.
  std::uint64_t revision() const { return revision_; }
  // Empties it so (delayed delivery was switched off).
  void clear();

  // Held and due after `time_ms`. O(log) for each run; exact but for left-overs and, where a block
  // that is not in memory is cut, half a block.
  std::int64_t due_after(std::int64_t time_ms) const;
  // Calls f(item) for each item that is due after `time_ms` while it returns true, if all are in
  // the buffer; false if they are not.
  template <typename F>
  bool for_each_buffered_after(std::int64_t time_ms, F f) const {
    if (!runs_.empty() || !frozen_.empty()) return false;
    for (auto at = buffer_.after(DelayedItem::end_of(time_ms)); buffer_.at(at) != nullptr;
         buffer_.step(at)) {
      if (!f(*buffer_.at(at))) break;
    }
    return true;
  }
  std::size_t memory_bytes() const;
  std::size_t runs() const { return runs_.size(); }
  std::int64_t run_bytes() const;        // on disk
  std::int64_t items_in_memory() const;  // left-overs included
  // Since it was made.
  struct Counters {
    std::uint64_t added = 0, refused = 0, written = 0, merged = 0, write_errors = 0,
                  read_errors = 0, rebuilt = 0;
  };
  const Counters& counters() const { return counters_; }

  // Writes what is worth it, and ends. No call after it.
  Task<void> close();
  // Deletes it from the stores, and ends.
  Task<void> remove();

  // Its key in the metadata store, and below which the keys are.
  static std::string path_of(std::string_view ledger_name);
  static constexpr std::string_view kRoot = "/geminga/delayed-index";
  // The ledgers named by the value of a key. Corruption: it is no such value.
  static Result<std::vector<LedgerId>> ledgers_in(std::string_view value, std::string_view path);

 private:
  using Runs = std::vector<std::shared_ptr<DelayedRun>>;
  using Block = std::shared_ptr<const std::vector<DelayedItem>>;
  struct Loaded {
    std::shared_ptr<DelayedRun> run;
    std::size_t block = 0;
    Block items;  // null while it is read
    std::uint64_t used = 0;
  };

  // ---- delayed_index.cc ----
  Block loaded(const std::shared_ptr<DelayedRun>& run, std::size_t block, bool start_read);
  void start_read(const std::shared_ptr<DelayedRun>& run, std::size_t block);
  Task<void> read(std::shared_ptr<DelayedRun> run, std::size_t block, std::uint64_t revision);
  void make_room_for_block();
  std::optional<std::int64_t> next_due() const;
  void arm();
  void fire();
  void read_ahead();
  bool sweep();
  void wake_later();
  void tell_of_room();

  // ---- delayed_index_store.cc ----
  void work();
  bool work_left() const;
  Task<void> do_work();
  Task<Status> work_once();
  bool any_dead_run() const;
  Task<Status> drop_dead_runs();
  void freeze_buffer();
  bool still_needed(Position position);
  Task<Status> write_frozen();
  Task<Status> merge(Runs from);
  Runs runs_to_merge() const;
  // The new run takes the place of `replaced`.
  Task<Status> install(DelayedRunWriter& writer, Runs replaced, std::uint64_t revision);
  Task<Status> put_runs(Runs runs);
  Task<Status> remove_dropped();
  Task<void> stop();
  bool done(Position position) { return done_(position); }
  std::map<std::string, std::string> ledger_metadata() const;

  const ManagedLedgerEnv env_;
  const std::string ledger_name_;
  const std::string path_;
  const DelayedIndexOptions options_;
  Done done_;
  Wake wake_;

  PositionSet held_;
  DelayedBuffer buffer_;
  DelayedBuffer frozen_;  // is being written
  Runs runs_;
  std::vector<LedgerId> dropped_;  // ledgers to remove, once the key does not name them
  std::int64_t version_ = -1;      // of the key
  bool key_behind_ = false;        // the key may name other ledgers than those of runs_
  std::int64_t ripe_ms_ = 0;
  std::uint64_t revision_ = 0;

  std::vector<Loaded> blocks_;
  std::uint64_t uses_ = 0;
  std::optional<asio::steady_timer> timer_;
  std::int64_t armed_ms_ = 0;  // 0: not running
  std::int64_t checked_ms_ = 0;
  std::size_t next_swept_ = 0;
  std::int64_t read_retry_ms_ = 0;  // not before
  std::int64_t write_retry_ms_ = 0;
  bool refused_ = false;  // somebody waits for room
  bool wake_posted_ = false;
  bool working_ = false;
  bool closing_ = false;
  Gate gate_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Counters counters_;
};

}  // namespace geminga
