// A log of the broker's own (transactions of a coordinator, pending acknowledgements of a
// subscription): a managed ledger with one cursor, which knows the records that are no longer
// needed.
//
// An append completes when its record is durable. After a failed append nobody knows whether the
// record is there (unless is_refusal() says that it was not even tried): the owner must close the
// log and replay it before it goes on. Owned by whoever keeps state in it, used on one shard;
// close() or remove() is awaited before it is destroyed.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/position.h"
#include "base/status.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"

namespace geminga {

class InternalLog final : private PersistSink {
 public:
  // NotFound if it is missing and may not be created. `cursor` is the name of its cursor.
  static Task<Result<std::unique_ptr<InternalLog>>> open(ManagedLedgerEnv env, std::string name,
                                                         std::string cursor,
                                                         ManagedLedgerConfig config,
                                                         bool create_if_missing);

  // Gives every record that is still needed, oldest first. Reads a bounded piece at a time and lets
  // others run in between. An error of `each` ends it.
  Task<Status> replay(UniqueFunction<Status(Position, std::string_view)> each);
  Task<Result<Position>> append(std::string record);
  // These records are never needed again; acts within the cursor's flush interval.
  void forget(Position record) { cursor_->ack(record, 1); }
  void forget_until(Position last) { cursor_->ack_cumulative(last); }

  // The last durable record; entry -1 if there is none.
  Position last() const { return ledger_->last_confirmed(); }
  ManagedLedger& ledger() { return *ledger_; }
  const ManagedLedger& ledger() const { return *ledger_; }
  const ManagedCursor& cursor() const { return *cursor_; }
  static bool is_refusal(const Status& failure) {
    return failure.is(ErrorCode::DiskFull) || failure.is(ErrorCode::NoMemory);
  }

  Task<Status> close() { return ledger_->close(); }
  Task<Status> remove() { return ledger_->remove(); }

 private:
  struct Waiting {
    Event done;
    Position position;
    Status status;
  };

  void persisted(Position position, const Status& status) override;

  std::unique_ptr<ManagedLedger> ledger_;
  std::shared_ptr<ManagedCursor> cursor_;
  std::deque<std::shared_ptr<Waiting>> waiting_;
};

}  // namespace geminga
