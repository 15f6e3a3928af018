// The one writer of a log: group commit without a timer.
//
//   add_*() copies a record into the current write block and the open batch
//        |  end of the loop turn, no flush in flight
//        v
//   batch closed (padded to the alignment) --write + sync--> durable: acknowledged, next batch
//   starts
//
// While one flush is in flight the next batch collects; its end starts the next. So the batch grows
// by itself with the load, and a lone append waits for nothing. A batch never crosses a segment;
// when a record does not fit the open segment is sealed and the next one begins
// (LogSegments::begin), in the middle of a turn if need be. After a failed flush nothing can be
// told of what the disk holds: everything pending fails and the writer takes nothing more
// (failure()). On the log's shard only. Callbacks run from the loop, never inside add_*().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/metrics.h"
#include "ledger/ledger_store.h"
#include "ledger/log_cache.h"
#include "ledger/log_segments.h"
#include "runtime/async.h"

namespace geminga {

class LogWriter final : public Deferred {
 public:
  using Waiter = UniqueFunction<void(const Status&)>;

  LogWriter(Shard& shard, LogIo& io, LogSegments& segments, LogCache& cache,
            const LogStoreOptions& options, LogCounters& counters);
  ~LogWriter();

  // What a checkpoint is made of: the ledgers that exist now.
  void on_checkpoint(UniqueFunction<std::vector<log_format::CheckpointLedger>()> hook) {
    snapshot_ = std::move(hook);
  }
  // Where the log goes on: the newest segment of the last run and its end, the last ledger id, the
  // checkpoint.
  void resume(std::uint64_t previous, std::uint64_t previous_end, LedgerId last_id,
              std::uint64_t checkpoint);

  // One more entry of `ledger`; `sink` hears when it is durable.
  EntryId add_entry(const std::shared_ptr<LedgerState>& ledger, std::span<const std::byte> payload,
                    std::uint32_t messages, AppendSink* sink);
  // What happened to a ledger: Created, Sealed or Deleted. Gives the segment.
  std::uint64_t add_event(log_format::Kind kind, const LedgerState& ledger,
                          std::span<const std::byte> payload);
  // Copies of what stands in an older segment, whose sequence is given first. Each gives the
  // segment it went to.
  void begin_moves(std::uint64_t sequence);
  std::uint64_t add_moved_entry(const std::shared_ptr<LedgerState>& ledger,
                                const log_format::RecordHeader& header,
                                std::span<const std::byte> payload);
  std::uint64_t add_moved_created(const LedgerState& ledger, std::span<const std::byte> payload);
  // Waits until a segment takes records. DiskFull if there is none and no room for one.
  Task<Status> room();
  void when_durable(Waiter waiter);
  Task<Status> durable();

  LedgerId last_id() const { return last_id_; }
  LedgerId take_id();
  std::size_t max_payload() const { return max_payload_; }
  // OK, or why the log takes no more.
  const Status& failure() const { return failure_; }
  bool failed() const { return !failure_.is_ok(); }
  const TimeHistogram& flush_time() const { return flush_time_; }
  // Bytes that are not durable yet.
  std::size_t pending_bytes() const { return pending_bytes_; }

  // Stops without writing anything more; what is not on its way fails.
  void abandon();
  // Waits for everything added, then seals the open segment. The writer takes nothing after it.
  Task<Status> close();

  void run_deferred() override;
  // The open segment, if one is begun.
  const LogSegment* open_segment() const { return open_.get(); }

 private:
  struct Ack {
    std::shared_ptr<LedgerState> ledger;
    AppendSink* sink;
    EntryId entry;
    std::uint32_t messages;
    std::uint32_t bytes;
  };
  struct Batch {
    std::shared_ptr<LogSegment> segment;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t bytes = 0;                           // of records
    std::vector<std::shared_ptr<CachedBlock>> blocks;  // kept until durable
    std::vector<IoSlice> slices;
    std::vector<std::shared_ptr<CachedBlock>> finished;  // blocks that end in this batch
    std::vector<Ack> acks;
    std::vector<Waiter> waiters;
    std::int64_t started_ns = 0;
  };
  struct Place {
    std::uint64_t offset;  // in the segment
    CachedBlock* block;
  };

  std::uint64_t add_event(const log_format::RecordHeader& header, bool reserve,
                          std::span<const std::byte> payload);
  Place place(const log_format::RecordHeader& header, std::span<const std::byte> payload);
  bool fits(std::uint64_t bytes) const;
  void begin_segment();
  void write_start(const std::vector<std::vector<std::byte>>& checkpoint);
  void seal_segment();
  void write_footer(const std::shared_ptr<LogSegment>& segment);
  void begin_block(std::uint64_t bytes);
  void end_block();
  void end_slice();
  void close_batch();
  void flush();
  void flushed(const Status& status);
  void acknowledge(Batch& batch, const Status& status);
  void fail(const Status& status);
  void fail_pending();
  void note_point(const std::shared_ptr<LedgerState>& ledger, EntryId entry);

  Shard& shard_;
  LogIo& io_;
  LogSegments& segments_;
  LogCache& cache_;
  const LogStoreOptions& options_;
  LogCounters& counters_;
  UniqueFunction<std::vector<log_format::CheckpointLedger>()> snapshot_;
  const std::size_t max_payload_;

  std::shared_ptr<LogSegment> open_;
  std::uint64_t open_flushes_ = 0;
  TimeHistogram flush_time_;
  std::shared_ptr<CachedBlock> block_;
  std::uint64_t at_ = 0;           // where the next record goes
  std::uint64_t slice_begin_ = 0;  // first byte of the open batch in the current block
  std::unique_ptr<Batch> batch_;   // collecting
  std::deque<std::unique_ptr<Batch>> closed_;
  std::unique_ptr<Batch> flushing_;
  std::size_t pending_bytes_ = 0;
  std::vector<std::shared_ptr<LogSegment>> footers_in_flight_;

  std::uint64_t previous_ = 0;
  std::uint64_t previous_end_ = 0;
  LedgerId last_id_ = -1;
  std::uint64_t checkpoint_ = 0;
  std::uint64_t checkpoint_bytes_ = 0;
  std::uint64_t since_checkpoint_ = 0;
  std::uint16_t moves_from_ = 0;
  bool split_moved_ = false;
  bool closing_ = false;
  Status failure_;
  std::shared_ptr<Event> idle_;
};

}  // namespace geminga
