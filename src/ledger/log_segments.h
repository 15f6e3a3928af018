// The segments of a log: which exist, how much of each is live, which slots are free, and the files
// behind them.
//
//   free slot / new file --prepare--> spare --begin()--> open --seal--> sealed --nothing live-->
//   free slot
//
// Preparing (allocate, fill with zeros, write the header) blocks and runs off the shard, ahead of
// use; begin() gives out the segment at once, and records wait in memory until it is ready. A
// sealed segment is freed when its footer is durable, no live byte is in it, and a newer checkpoint
// stands in the log. On the log's shard only.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ledger/ledger_state.h"
#include "ledger/log_footer.h"
#include "ledger/log_options.h"
#include "ledger/log_segment_file.h"
#include "runtime/async.h"
#include "runtime/shard.h"

namespace geminga {

struct LogSegment {
  log_format::SegmentHeader header;
  std::uint32_t seed = 0;
  std::uint32_t slot = 0;
  bool ready = false;   // the header is durable: records may be written
  bool sealed = false;  // no record will follow
  bool footed = false;  // the footer is durable
  bool freed = false;   // the slot may be in use for something else
  bool rewriting = false;
  bool filled = true;  // written to before: a flush changes no metadata of the file system
  std::int64_t live_bytes = 0;
  std::uint64_t data_end = log_format::kDataStart;
  std::shared_ptr<LogFile> file;  // while it is open; LogSegments::file() opens it

  // Present from the first record until the footer is durable.
  struct Building {
    SegmentSummary summary;  // extents: only of moved records; the others are the ledgers' own
    std::vector<std::shared_ptr<LedgerState>> touched;  // ledgers with points in this segment
    std::size_t points = 0;
    std::size_t extents = 0;
    std::size_t events = 0;
  };
  std::unique_ptr<Building> building;
  // The open segment's blocks; the whole index once sealed, as long as it is in memory.
  std::shared_ptr<SegmentIndex> index;
  std::list<LogSegment*>::iterator
      index_place;  // if footed and index is set: among the cached ones

  std::uint64_t sequence() const { return header.sequence; }
};

class LogSegments {
 public:
  LogSegments(Shard& shard, LogIo& io, LogFolder& folder, const LogStoreOptions& options,
              LogCounters& counters);
  ~LogSegments();

  // Recovery hands over what it found; all sealed and footed.
  void adopt(std::shared_ptr<LogSegment> segment);
  void adopt_free(std::uint32_t slot);
  void set_next(std::uint64_t next_sequence, std::uint32_t next_slot);

  // Called when a segment is ready, or could not be made for now.
  void on_ready(std::function<void()> hook) { on_ready_ = std::move(hook); }
  // Called when a segment was freed, before its slot is used again.
  void on_free(std::function<void(LogSegment&)> hook) { on_free_ = std::move(hook); }

  // The next open segment; ready now or later.
  std::shared_ptr<LogSegment> begin();
  // Have a spare made, if there is none.
  void prepare_spare();
  // `at` bytes of the open segment are used, by so many flushes: a spare is made ahead of its end,
  // filled with zeros at a pace that neither delays the flushes nor comes too late.
  void progress(const LogSegment& open, std::uint64_t at, std::uint64_t flushes);
  // The first segment of a new log is wanted at once and not filled, so each of its flushes waits
  // for the file system's journal as well: better to leave it for a filled one that is ready.
  bool should_leave(const LogSegment& open, std::uint64_t at, std::uint64_t flushes) const;
  // The open segment's first record is durable: from now on the log is not whole without it.
  void note_newest(const LogSegment& open);
  // Leave what is being prepared as it is: the log closes.
  void finish_preparing();

  std::shared_ptr<LogSegment> find(std::uint64_t sequence) const;
  const std::map<std::uint64_t, std::shared_ptr<LogSegment>>& all() const { return segments_; }
  Result<std::shared_ptr<LogFile>> file(LogSegment& segment);

  void add_live(LogSegment& segment, std::int64_t bytes) { segment.live_bytes += bytes; }
  void drop_live(std::uint64_t sequence, std::int64_t bytes);
  void footer_durable(LogSegment& segment);
  // Segments before this one may be freed: a checkpoint that starts in `sequence` is durable.
  void set_floor(std::uint64_t sequence);
  std::uint64_t floor() const { return floor_; }

  // Space for data? Two segments more than the open one must be at hand or free on the disk: what
  // else is written (cursors, the ledger table, moves) goes on, also after a restart, which seals
  // the open segment; and the reserve must be left.
  bool writable() const { return writable_; }
  void check_space();
  std::int64_t disk_bytes() const;
  // A segment is asked for and the disk has no room for it.
  bool starved() const { return starved_; }
  bool spare_ready() const { return spare_ && spare_->ready; }
  // The next attempt to make a segment has succeeded or failed.
  Task<void> next_attempt();
  std::size_t free_slots() const { return free_.size(); }

  // Keeps the index of a footed segment in memory, within the bound.
  void cache_index(LogSegment& segment, std::shared_ptr<SegmentIndex> index);
  void used_index(LogSegment& segment);

 private:
  struct Preparation;
  // Free bytes that no segment is made of: the metadata store's, first of all.
  std::uint64_t kept_for_others() const { return reserve_bytes_ / 2; }
  std::shared_ptr<LogSegment> new_segment();
  void start_preparing(const std::shared_ptr<LogSegment>& segment);
  void prepared(const std::shared_ptr<LogSegment>& segment, const std::shared_ptr<Preparation>& how,
                const Status& status);
  void retry_later(const std::shared_ptr<LogSegment>& segment);
  void watch_space();
  void maybe_free(LogSegment& segment);
  void marked_free(std::uint32_t slot, bool fits, const Status& status);
  void delete_file(std::uint32_t slot);
  void drop_surplus();
  void remember_open(LogSegment& segment);

  Shard& shard_;
  LogIo& io_;
  LogFolder& folder_;
  const LogStoreOptions& options_;
  LogCounters& counters_;
  std::function<void()> on_ready_;
  std::function<void(LogSegment&)> on_free_;

  std::map<std::uint64_t, std::shared_ptr<LogSegment>> segments_;  // by sequence; in use
  std::vector<std::uint32_t> free_;                                // slots with a file
  std::size_t freeing_ = 0;                                        // being marked free
  std::shared_ptr<LogSegment> spare_;
  std::shared_ptr<Preparation> preparing_;
  std::uint64_t next_sequence_ = 1;
  std::uint32_t next_slot_ = 0;
  std::uint64_t floor_ = 0;
  std::uint64_t reserve_bytes_ = 0;
  bool writable_ = true;
  bool starved_ = false;
  bool first_ = true;
  std::vector<std::shared_ptr<LogSegment>> waiting_;  // could not be prepared yet
  std::shared_ptr<Event> attempted_;
  asio::steady_timer retry_timer_;
  asio::steady_timer space_timer_;
  bool watching_space_ = false;
  std::list<std::weak_ptr<LogSegment>> open_files_;  // oldest first
  std::list<LogSegment*> indexes_;                   // least recently used first
  std::size_t index_bytes_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace geminga
