// Which messages of a topic may be read: what open transactions have sent holds back everything
// from their first message on, what aborted ones have sent is never shown.
//
// A transaction's messages are ordinary entries with its id in their metadata; a marker entry says
// how it ended. All is derived from the log: the internal cursor kCursor keeps a snapshot of what
// is known up to its mark-delete position (as numbers beside it: aborted transactions with the
// ledger of their marker, open ones with their first message), and at load the entries behind it
// are read again. A snapshot is due every kSnapshotEntries entries, so that is how long a replay
// gets. Aborted transactions are forgotten when their marker is trimmed.
//
// Belongs to a PersistentTopic, made with the first transaction that announces itself, used on its
// shard. It writes nothing itself: the topic appends the markers and tells what became durable, in
// the order of the log. Memory: about 150 bytes an open or aborted transaction.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"
#include "wire/command.h"

namespace geminga {

class TransactionBuffer {
 public:
  static constexpr std::string_view kCursor = "pulsar.txn";
  static constexpr std::int64_t kSnapshotEntries = 1000;
  static constexpr std::size_t kMaxInSnapshot = 10'000;  // of each kind; the rest is replayed
  static constexpr std::size_t kRememberEnded = 1000;

  // Makes the cursor if it is missing, and reads what its snapshot does not cover. `ledger`
  // outlives it.
  static Task<Result<std::unique_ptr<TransactionBuffer>>> open(ManagedLedger& ledger);

  // --- publishing ---
  // May the transaction still send? NotAllowed once it has ended here.
  Status check_open(const TxnId& txn) const;
  // One of its messages was appended; then one of the two below follows.
  void message_appended(const TxnId& txn) { ++open_[txn].in_flight; }
  void message_persisted(const TxnId& txn, Position position);
  void message_failed(const TxnId& txn);
  // Any other entry.
  void entry_persisted(Position position);

  // --- ending ---
  struct Ending {
    Event done;
    Status status;
  };
  bool is_open(const TxnId& txn) const { return open_.contains(txn); }
  // That it ends, seen by all who come for the same: `first` is true for the one who has to append
  // the marker. Only if is_open().
  std::shared_ptr<Ending> start_end(const TxnId& txn, bool& first);
  void end_persisted(const TxnId& txn, bool committed, Position marker);
  void end_failed(const TxnId& txn, const Status& status);
  // Nothing of it is here; it must not begin to send any more.
  void remember_ended(const TxnId& txn);
  // All transactions of this coordinator up to `least_bits` have ended.
  void set_low_watermark(std::uint64_t coordinator, std::int64_t least_bits);
  // Open ones that the watermark says have ended: their coordinator will not come for them.
  std::vector<TxnId> orphans() const;
  std::vector<TxnId> open_transactions() const;

  // --- reading ---
  // Entries beyond it may not be read yet.
  Position max_read_position() const {
    return firsts_.empty() ? Position::latest()
                           : Position{firsts_.begin()->ledger, firsts_.begin()->entry - 1};
  }
  bool is_aborted(const TxnId& txn) const { return !aborted_.empty() && aborted_.contains(txn); }
  // The first message of an open transaction.
  std::optional<Position> first_message(const TxnId& txn) const;

  // Everything so far is in the cursor (not yet flushed).
  void snapshot();
  Task<Status> flush() { return cursor_->flush(); }
  bool snapshot_due() const { return since_snapshot_ > 0; }

  std::int64_t recover_start_ms() const { return recover_start_ms_; }
  std::int64_t recover_end_ms() const { return recover_end_ms_; }
  std::int64_t last_snapshot_ms() const { return last_snapshot_ms_; }
  const std::map<std::uint64_t, std::int64_t>& low_watermarks() const { return low_watermarks_; }
  // Of the last entry that nothing holds back.
  Position last_readable() const {
    return firsts_.empty() ? last_ : ledger_.previous(*firsts_.begin());
  }
  std::size_t open_count() const { return open_.size(); }
  std::size_t aborted_count() const { return aborted_.size(); }
  std::int64_t committed_total() const { return committed_total_; }
  std::int64_t aborted_total() const { return aborted_total_; }

 private:
  struct Open {
    std::optional<Position> first;
    std::uint32_t in_flight = 0;
    std::shared_ptr<Ending> ending;
  };

  TransactionBuffer(ManagedLedger& ledger, std::shared_ptr<ManagedCursor> cursor)
      : ledger_(ledger), cursor_(std::move(cursor)) {}
  void restore();
  Task<Status> replay();
  void replay(const Entry& entry);
  void count(Position position);
  void forget_trimmed();

  ManagedLedger& ledger_;
  const std::shared_ptr<ManagedCursor> cursor_;
  std::map<TxnId, Open> open_;
  std::set<Position> firsts_;          // of open transactions
  std::map<TxnId, Position> aborted_;  // with their markers
  std::set<TxnId> ended_;              // the last ones, so that a late message is refused
  std::deque<TxnId> ended_in_order_;
  std::map<std::uint64_t, std::int64_t> low_watermarks_;  // by coordinator
  Position last_;
  std::int64_t since_snapshot_ = 0;
  std::int64_t committed_total_ = 0;
  std::int64_t aborted_total_ = 0;
  std::int64_t recover_start_ms_ = 0;
  std::int64_t recover_end_ms_ = 0;
  std::int64_t last_snapshot_ms_ = 0;
};

}  // namespace geminga
