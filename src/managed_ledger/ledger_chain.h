// The managed ledger over a LedgerStore and a MetadataStore: a chain of ledgers, the last of which
// is appended to.
//
//   append() -> pending_ -> current_ -> append_done() -> list_ grows, sink_->persisted()
//
// States (State): Open: entries go straight to current_. Switching: the current ledger ends (it is
// full, it has failed, somebody asked) and its successor is being made; entries wait in pending_.
// NoLedger: that failed; entries are refused for a moment, then the next one tries again. Fenced:
// somebody else owns the key; everything fails. Closed: close() is running or done. Terminated is
// apart: the last ledger is closed for good.
//
// pending_ holds what has no outcome yet, in order of append(): entries submitted to current_, then
// those that wait, with refused ones anywhere between; outcomes leave at the front only, so they
// are told in order. Its bound is the caller's (bytes in flight a topic).
//
// The key in the metadata store is written by compare-and-set only, under structure_, and a ledger
// enters it only together with the numbers of its predecessor (a Java broker deletes a ledger
// without numbers that is not the last). What the key says is info_ at version_; list_ is ahead of
// it by the open ledger's entries.
//
// Files: ledger_chain_open.cc (opening, closing), _append.cc (the path of entries, the end of a
// ledger), _read.cc, _cursors.cc, _trim.cc (retention, truncation, termination), ledger_chain.cc
// (the rest).
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "MLDataFormats.pb.h"
#include "managed_ledger/chain_cursor.h"
#include "managed_ledger/ledger_handles.h"
#include "managed_ledger/ledger_list.h"
#include "managed_ledger/managed_ledger.h"
#include "managed_ledger/ring_queue.h"
#include "managed_ledger/slim_mutex.h"
#include "runtime/gate.h"

namespace geminga {

class LedgerChain final : public ManagedLedger, private AppendSink, private Deferred {
 public:
  LedgerChain(ManagedLedgerEnv env, std::string name, ManagedLedgerConfig config,
              PersistSink* sink);
  ~LedgerChain() override;

  // Once, before all else. After an error only to be destroyed.
  Task<Status> open(bool create_if_missing);

  const std::string& name() const override { return name_; }
  const ManagedLedgerConfig& config() const override { return config_; }
  void set_config(const ManagedLedgerConfig& config) override { config_ = config; }

  void append(const Buffer& entry, std::uint32_t messages) override;

  Position last_confirmed() const override { return list_.last_confirmed(); }
  Position first_position() const override { return list_.first_position(); }
  Position next(Position position) const override { return list_.next(position); }
  Position normalize(Position position) const override { return list_.normalize(position); }
  Position previous(Position position) const override { return list_.previous(position); }
  bool exists(Position position) const override { return list_.exists(position); }
  std::int64_t entries_between(Position from, Position to) const override {
    return list_.entries_between(from, to);
  }
  std::int64_t total_entries() const override { return list_.total_entries(); }
  std::int64_t total_messages() const override { return list_.total_messages(); }
  std::int64_t total_bytes() const override { return list_.total_bytes(); }
  std::vector<LedgerSummary> ledgers() const override;
  std::int64_t entries_added() const override { return entries_added_; }

  std::size_t read_cached(Position from, std::size_t max_entries, std::size_t max_bytes,
                          std::vector<Entry>& out) override;
  Task<Result<std::vector<Entry>>> read(Position from, std::size_t max_entries,
                                        std::size_t max_bytes) override;
  Task<Result<Position>> find_first(UniqueFunction<bool(const Entry&)> reached) override;

  std::vector<std::shared_ptr<ManagedCursor>> cursors() const override;
  std::shared_ptr<ManagedCursor> cursor(const std::string& name) const override;
  Task<Result<std::shared_ptr<ManagedCursor>>> open_cursor(
      std::string name, InitialPosition initial, std::map<std::string, std::string> properties,
      std::optional<Position> start) override;
  std::shared_ptr<ManagedCursor> new_non_durable_cursor(std::string name, Position start) override;
  void remove_non_durable(const std::shared_ptr<ManagedCursor>& cursor) override;
  Task<Status> delete_cursor(std::string name) override;

  Task<Result<Position>> terminate() override;
  bool terminated() const override { return terminated_; }
  Position terminated_position() const override {
    return terminated_ ? terminated_position_ : Position{};
  }

  const std::map<std::string, std::string>& properties() const override { return properties_; }
  Task<Status> set_properties(std::map<std::string, std::string> properties) override;

  Task<Status> trim() override;
  Task<Status> truncate() override;
  Task<Status> rollover() override;
  Task<Status> close() override;
  Task<Status> remove() override;

  // For the cursors.
  const LedgerList& list() const { return list_; }
  Shard& shard() { return *env_.shard; }
  Gate& gate() { return gate_; }
  bool fenced() const { return state_ == State::Fenced; }
  const Status& fence_status() const { return refusal_; }
  // Somebody else owns the ledger: fails everything from now on with `why` (Fenced).
  void fence(const Status& why);
  void cursor_changed(ChainCursor& cursor, bool moved_to_another_ledger);
  // Messages at or before `position`, from the list's origin.
  Task<Result<std::int64_t>> messages_through(Position position);

 private:
  enum class State : std::uint8_t { Opening, Open, Switching, NoLedger, Fenced, Closed };

  struct Pending {
    enum class Stage : std::uint8_t { Waiting, Submitted, Refused };
    Buffer data;
    std::uint32_t messages = 0;
    Stage stage = Stage::Waiting;
    EntryId entry = -1;  // in current_, once submitted to it
    std::unique_ptr<Status> refusal;
  };

  using Info = pulsar::ml::ManagedLedgerInfo;

  // ---- ledger_chain.cc ----
  void append_done(LedgerId ledger, EntryId id, const Status& status) override;
  void run_deferred() override;
  Task<Status> put_info(Info info);
  std::map<std::string, std::string> ledger_metadata() const;
  Status closed_status() const;

  // ---- ledger_chain_open.cc ----
  Task<Result<std::vector<LedgerSlot>>> learn_ledgers(Info& info, std::vector<LedgerId>& dropped);
  Task<Result<bool>> learn_ledger(Info::LedgerInfo& info, bool last, LedgerSlot& slot);
  Task<Status> start_first_ledger(Info info);
  Task<Status> load_cursors();
  Task<Status> load_cursor(std::string key);
  Task<Status> remove_ledger(LedgerId id);
  Task<void> remove_ledgers(std::vector<LedgerId> ids);
  Task<void> stop_work();
  Task<Status> remove_keys();

  // ---- ledger_chain_append.cc ----
  bool current_is_full();
  void submit(Pending& entry);
  void refuse(Pending& entry, Status why);
  void refuse_all(const Status& why);
  void tell_refused();
  void start_switch();
  void current_failed(const Status& why);
  Task<void> drained();
  // The current ledger is sealed, what it really holds is known and told. Under structure_.
  Task<Status> end_current();
  Task<Status> switch_ledger();  // under structure_
  void begin_writing(std::shared_ptr<Ledger> ledger);
  void no_ledger(const Status& why);
  // `info` with the numbers of the ended ledger (or without it, if it is empty).
  void put_ended(Info& info) const;
  // put_info() with `properties` and what the sink adds to them, which hold from then on.
  Task<Status> put_with_properties(Info info, std::map<std::string, std::string> properties);

  // ---- ledger_chain_cursors.cc ----
  void schedule_flush();
  void flush_cursors();
  Position start_position(InitialPosition initial, std::optional<Position> start) const;

  // ---- ledger_chain_trim.cc ----
  void schedule_trim();
  LedgerId first_needed_ledger() const;
  LedgerId first_kept_ledger() const;
  // Under structure_: out of the list and the key. Gives the ledgers to remove, which need not be
  // waited for under the lock.
  Task<Result<std::vector<LedgerId>>> drop_before(LedgerId id);

  const ManagedLedgerEnv env_;
  const std::string name_;
  const std::string path_;
  ManagedLedgerConfig config_;
  PersistSink* const sink_;

  State state_ = State::Opening;
  Status refusal_;  // why entries are refused: Fenced, or the error behind NoLedger
  bool closing_ = false;
  bool terminating_ = false;
  bool terminated_ = false;
  Position terminated_position_;

  Info info_;
  std::int64_t version_ = -1;
  std::map<std::string, std::string> properties_;  // those of info_
  LedgerList list_;
  LedgerHandles handles_;

  std::shared_ptr<Ledger> current_;     // null if opened as terminated
  std::int64_t created_ms_ = 0;         // of current_
  std::int64_t submitted_entries_ = 0;  // to current_, and their bytes
  std::int64_t submitted_bytes_ = 0;
  int failed_ledgers_ = 0;     // in a row without one durable entry between
  std::int64_t retry_ms_ = 0;  // NoLedger: not before
  std::int64_t entries_added_ = 0;

  RingQueue<Pending> pending_;
  std::size_t in_flight_ = 0;        // of them Submitted
  std::shared_ptr<Event> progress_;  // set when in_flight_ or pending_ becomes empty

  std::map<std::string, std::shared_ptr<ChainCursor>> cursors_;
  std::vector<std::shared_ptr<ChainCursor>> non_durable_;
  std::vector<std::shared_ptr<ChainCursor>> dirty_;
  std::optional<asio::steady_timer> flush_timer_;
  bool flush_scheduled_ = false;
  bool trim_wanted_ = false;
  bool trim_running_ = false;

  SlimMutex structure_;  // held by whoever changes the list, the key or the set of cursors
  Gate gate_;
};

}  // namespace geminga
