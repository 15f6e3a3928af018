// What open transactions have acknowledged in one subscription and not committed: the rules of who
// may acknowledge what, without the log that keeps it (subscription_transactions.h).
//
// A message is acknowledged by one transaction at most; a batch may be shared message by message.
// Of cumulative acknowledgements there is one open one at most. Everything else is a conflict. What
// is pending is not delivered to anybody until its transaction ends. A value; used on the topic's
// shard. Memory: about 100 bytes an acknowledged entry, while its transaction is open.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "broker/subscription.h"
#include "managed_ledger/managed_cursor.h"
#include "wire/command.h"

namespace geminga {

class TransactionAcks {
 public:
  bool empty() const { return open_.empty(); }
  std::size_t transactions() const { return open_.size(); }
  std::vector<TxnId> open() const;
  bool contains(const TxnId& txn) const { return open_.contains(txn); }
  // Up to where the transaction has acknowledged cumulatively.
  std::optional<Position> cumulative_of(const TxnId& txn) const;
  // Has an open transaction acknowledged it, or message `batch_index` of it (-1: any)?
  bool is_pending(Position position, std::int32_t batch_index) const;

  // All or nothing. TransactionConflict: acknowledged already, or by another open transaction.
  Status acknowledge(const TxnId& txn, const AckRequest& request, const ManagedCursor& cursor);
  // The acknowledgement could not be made durable: takes exactly these back.
  void take_back(const TxnId& txn, const AckRequest& request);
  // What a log says happened; nothing is checked.
  void replay(const TxnId& txn, const AckRequest& request);

  struct Ended {
    std::vector<AckedMessage> individual;
    std::optional<AckedMessage> cumulative;
  };
  // Forgets the transaction and gives what it had acknowledged; nullopt if it is not known.
  std::optional<Ended> take(const TxnId& txn);

  // Nothing of the entry is left to deliver while transactions are open. `acked`: what the cursor
  // says of the entry (nullptr: nothing acknowledged).
  bool holds(Position position, const AckSet* acked) const;
  // True if part of the batch is pending: `left` (in: what is not acknowledged, empty for all) is
  // reduced by it.
  bool reduce(Position position, AckSet& left) const;

 private:
  // What one transaction acknowledged of an entry: all of it, or the messages whose bit is 0 in
  // `remaining`.
  struct Part {
    TxnId txn;
    AckSet remaining;  // empty: all
    std::uint32_t batch_size = 0;
  };
  struct Open {
    std::vector<Position> positions;
    std::optional<AckedMessage> cumulative;
    std::optional<AckedMessage> cumulative_before;  // what the last one replaced
  };

  Status check(const TxnId& txn, const AckedMessage& message, const ManagedCursor& cursor) const;
  Status check_cumulative(const TxnId& txn, const AckedMessage& message,
                          const ManagedCursor& cursor) const;
  void add(const TxnId& txn, const AckedMessage& message);
  void drop(const TxnId& txn, Position position);

  std::map<TxnId, Open> open_;
  std::map<Position, std::vector<Part>> pending_;
  std::optional<TxnId> cumulative_;  // who has a cumulative acknowledgement open
};

}  // namespace geminga
