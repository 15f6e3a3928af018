// The cursors of a LedgerChain: a CursorState, and for durable ones the CursorStore that keeps it.
//
// An acknowledgement changes the state and marks the cursor dirty; the chain's one timer then calls
// flush(). A cursor that nothing happens to costs no timer and no I/O. Between flushes the state is
// ahead of what is stored, never behind. Shared by the chain and the subscription; once the chain
// is closed, only destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "managed_ledger/cursor_state.h"
#include "managed_ledger/cursor_store.h"
#include "managed_ledger/managed_cursor.h"
#include "managed_ledger/slim_mutex.h"

namespace geminga {

class LedgerChain;

class ChainCursor final : public ManagedCursor, public std::enable_shared_from_this<ChainCursor> {
 public:
  // Without `store`: non-durable. `chain` outlives every call.
  ChainCursor(LedgerChain& chain, std::string name, std::unique_ptr<CursorStore> store);

  // Begins with everything through `mark_delete` acknowledged.
  Task<Status> create(Position mark_delete, std::map<std::string, std::string> properties);
  Task<Status> load();
  void begin_at(Position mark_delete);

  const std::string& name() const override { return name_; }
  bool durable() const override { return store_ != nullptr; }
  Position mark_delete() const override { return state_.mark_delete(); }
  Position first_unacked() const override { return state_.next_unacked(state_.mark_delete()); }
  bool is_acked(Position position) const override { return state_.is_acked(position); }
  Position next_unacked(Position from) const override { return state_.next_unacked(from); }
  const AckSet* ack_set(Position position) const override { return state_.ack_set(position); }

  using ManagedCursor::ack;
  bool ack(Position position, std::uint32_t messages) override;
  bool ack_partly(Position position, std::span<const std::uint64_t> remaining,
                  std::uint32_t batch_size, std::uint32_t* newly_acked) override;
  void ack_cumulative(Position position) override;

  bool backlog_is_exact() const override { return state_.exact(); }
  std::int64_t backlog_entries() const override { return state_.backlog_entries(); }
  std::int64_t backlog_messages() const override { return state_.backlog_messages(); }
  std::int64_t backlog_bytes() const override { return state_.backlog_bytes(); }
  std::size_t acked_range_count() const override { return state_.acked_range_count(); }
  const RedeliveryCounts& redeliveries() const override { return state_.redeliveries(); }
  void count_redelivery(Position position) override;
  std::int64_t last_active_ms() const override { return last_active_ms_; }
  void touch() override;

  Task<Status> reset(Position position) override;
  Task<Status> flush() override;

  const std::map<std::string, std::string>& properties() const override;
  Task<Status> set_properties(std::map<std::string, std::string> properties) override;
  const std::map<std::string, std::int64_t>& position_properties() const override {
    return position_properties_;
  }
  void set_position_properties(std::map<std::string, std::int64_t> properties) override;
  Task<Status> commit(Position mark_delete,
                      std::map<std::string, std::int64_t> properties) override;

  // For the chain.
  bool dirty() const { return !removed_ && changes_ != persisted_; }
  void ledgers_dropped();
  Task<Status> close_store();
  Task<Status> remove_store();
  const CursorStore* store() const { return store_.get(); }
  const CursorState& state() const { return state_; }
  // When the chain's timer may flush it: large states are written less often (see chain_cursor.cc).
  bool flush_due(std::int64_t now) const { return now >= next_flush_ms_; }
  bool listed_dirty = false;  // in the chain's list

 private:
  // Messages of the entry, 0 if it is not in memory.
  std::uint32_t batch_size_of(Position position);
  void ack_partly_later(Position position, AckSet remaining);
  void changed(LedgerId ledger_before);
  void count_if_needed();
  Task<void> count();
  Task<Result<std::int64_t>> count_share(CursorState::Share share);
  StoredStateLimits limits() const;

  LedgerChain& chain_;
  const std::string name_;
  CursorState state_;
  PositionProperties position_properties_;
  std::map<std::string, std::string> own_properties_;  // of a non-durable cursor
  std::unique_ptr<CursorStore> store_;
  SlimMutex writing_;
  std::uint64_t changes_ = 0;
  std::uint64_t persisted_ = 0;
  std::int64_t last_active_ms_ = 0;
  std::int64_t next_flush_ms_ = 0;
  bool counting_ = false;
  bool removed_ = false;
};

}  // namespace geminga
