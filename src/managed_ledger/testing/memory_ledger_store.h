// For tests: a LedgerStore in memory. Entries become durable, and are told so, a turn after
// append(), or when the test lets them (hold_appends). What is durable lives in MemoryLedgers,
// which outlasts the store: a new store on the same ledgers is a restarted process. One shard only.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ledger/ledger_store.h"
#include "managed_ledger/testing/faults.h"
#include "runtime/shard.h"

namespace geminga::testing {

struct MemoryLedgers {
  struct Stored {
    std::map<std::string, std::string> metadata;
    std::vector<LedgerEntry> entries;
    std::int64_t bytes = 0;
    std::int64_t messages = 0;
    bool sealed = false;
    bool removed = false;
    int writer = 0;  // raised by open(): earlier writers are fenced
  };
  std::map<LedgerId, std::shared_ptr<Stored>> ledgers;
  LedgerId next_id = 0;
};

class MemoryLedgerStore final : public LedgerStore {
 public:
  explicit MemoryLedgerStore(
      Shard& shard, std::shared_ptr<MemoryLedgers> ledgers = std::make_shared<MemoryLedgers>(),
      std::shared_ptr<Faults> faults = std::make_shared<Faults>())
      : world_(std::make_shared<World>(World{shard, std::move(ledgers), std::move(faults)})) {}
  // Appends still queued are lost and never told, as in a crash.
  ~MemoryLedgerStore() override { world_->queue.clear(); }

  MemoryLedgers& ledgers() { return *world_->ledgers; }
  Faults& faults() { return *world_->faults; }
  // While held, appends are queued and neither durable nor told.
  void hold_appends(bool hold) {
    world_->held = hold;
    if (!hold) complete_soon(world_);
  }
  void set_writable(bool writable) { world_->writable = writable; }
  void set_after_crash(bool after_crash) { after_crash_ = after_crash; }
  // Nothing is in memory: read_cached() gives nothing.
  void set_cached(bool cached) { world_->cached = cached; }
  int reads() const { return world_->reads; }

  Task<Result<std::shared_ptr<Ledger>>> create(
      std::map<std::string, std::string> metadata) override {
    co_await turn();
    const auto fault = faults().next("create", "");
    if (fault && !fault->applied) co_return fault->status;
    const LedgerId id = ledgers().next_id++;
    auto stored = std::make_shared<MemoryLedgers::Stored>();
    stored->metadata = std::move(metadata);
    ledgers().ledgers[id] = stored;
    if (fault) co_return fault->status;
    co_return std::shared_ptr<Ledger>(std::make_shared<MemoryLedger>(world_, id, stored, false));
  }

  Task<Result<std::shared_ptr<Ledger>>> open(LedgerId id) override {
    co_await turn();
    if (auto fault = faults().next("open", std::to_string(id))) co_return fault->status;
    const auto at = ledgers().ledgers.find(id);
    if (at == ledgers().ledgers.end())
      co_return Status::NotFound("there is no ledger " + std::to_string(id));
    at->second->sealed = true;
    ++at->second->writer;
    co_return std::shared_ptr<Ledger>(std::make_shared<MemoryLedger>(world_, id, at->second, true));
  }

  bool after_crash() const override { return after_crash_; }

  Task<Status> remove(LedgerId id) override {
    co_await turn();
    const auto fault = faults().next("remove_ledger", std::to_string(id));
    if (fault && !fault->applied) co_return fault->status;
    if (const auto at = ledgers().ledgers.find(id); at != ledgers().ledgers.end()) {
      at->second->removed = true;
      ledgers().ledgers.erase(at);
    }
    co_return fault ? fault->status : Status::ok();
  }

  std::vector<LedgerId> list() const override {
    std::vector<LedgerId> ids;
    for (const auto& [id, stored] : world_->ledgers->ledgers) ids.push_back(id);
    return ids;
  }
  LedgerStats stats() const override {
    LedgerStats stats;
    for (const auto& [id, stored] : world_->ledgers->ledgers) {
      ++stats.ledgers;
      stats.live_bytes += stored->bytes;
    }
    stats.disk_bytes = stats.live_bytes;
    return stats;
  }
  bool writable() const override { return world_->writable; }
  Task<Status> close() override { co_return Status::ok(); }

 private:
  class MemoryLedger;
  struct World {
    Shard& shard;
    std::shared_ptr<MemoryLedgers> ledgers;
    std::shared_ptr<Faults> faults;
    bool held = false;
    bool writable = true;
    bool cached = true;
    bool scheduled = false;
    int reads = 0;
    std::deque<std::pair<std::shared_ptr<MemoryLedger>, std::size_t>> queue{};  // appends in order
  };

  static Task<void> turn_of(Shard& shard) {
    co_await asio::post(shard.executor(), asio::use_awaitable);
  }
  Task<void> turn() { return turn_of(world_->shard); }

  static void complete_soon(const std::shared_ptr<World>& world) {
    if (world->scheduled || world->held) return;
    world->scheduled = true;
    world->shard.post([weak = std::weak_ptr<World>(world)] {
      const auto alive = weak.lock();
      if (!alive) return;
      alive->scheduled = false;
      std::size_t left = alive->queue.size();
      while (left-- > 0 && !alive->held) {
        const auto ledger = std::move(alive->queue.front().first);
        alive->queue.pop_front();
        ledger->complete_one();
      }
      if (!alive->queue.empty()) complete_soon(alive);
    });
  }

  class MemoryLedger final : public Ledger, public std::enable_shared_from_this<MemoryLedger> {
   public:
    MemoryLedger(std::shared_ptr<World> world, LedgerId id,
                 std::shared_ptr<MemoryLedgers::Stored> stored, bool sealed)
        : world_(std::move(world)),
          id_(id),
          stored_(std::move(stored)),
          writer_(stored_->writer),
          closed_(sealed) {}

    LedgerId id() const override { return id_; }
    EntryId last_confirmed() const override {
      return static_cast<EntryId>(stored_->entries.size()) - 1;
    }
    std::int64_t bytes() const override { return stored_->bytes; }
    std::int64_t messages() const override { return stored_->messages; }
    bool sealed() const override { return stored_->sealed; }

    Result<EntryId> append(const Buffer& data, std::uint32_t messages, AppendSink* sink) override {
      if (closed_ || failed_)
        return Status::Closed("ledger " + std::to_string(id_) + " takes no entries");
      if (!world_->writable) return Status::DiskFull("the disk is full");
      const EntryId id = last_confirmed() + 1 + static_cast<EntryId>(pending_.size());
      pending_.push_back({{id, Buffer::copy_of(data.span()), messages}, sink});
      world_->queue.emplace_back(shared_from_this(), 0);
      complete_soon(world_);
      return id;
    }

    void complete_one() {
      Append append = std::move(pending_.front());
      pending_.pop_front();
      const EntryId id = append.entry.id;
      Status status;
      if (failed_) {
        status = Status::Io("an earlier append failed");
      } else if (stored_->writer != writer_) {
        status = Status::Fenced("ledger " + std::to_string(id_) + " was opened by someone else");
      } else if (const auto fault = world_->faults->next("append", std::to_string(id_))) {
        status = fault->status;
        if (fault->applied) store(std::move(append.entry));
      } else {
        store(std::move(append.entry));
      }
      if (!status) failed_ = true;
      append.sink->append_done(id_, id, status);
    }

    std::size_t read_cached(EntryId first, std::size_t max_entries, std::size_t max_bytes,
                            std::vector<LedgerEntry>& out) override {
      return world_->cached ? copy(first, max_entries, max_bytes, out) : 0;
    }
    Task<Result<std::vector<LedgerEntry>>> read(EntryId first, std::size_t max_entries,
                                                std::size_t max_bytes) override {
      const auto self = shared_from_this();
      co_await turn_of(world_->shard);
      ++world_->reads;
      if (auto fault = world_->faults->next("read", std::to_string(id_))) co_return fault->status;
      if (stored_->removed)
        co_return Status::Closed("ledger " + std::to_string(id_) + " was removed");
      if (first < 0 || first > last_confirmed()) co_return Status::NotFound("beyond the end");
      std::vector<LedgerEntry> out;
      copy(first, max_entries, max_bytes, out);
      co_return out;
    }
    Task<Result<std::int64_t>> messages_through(EntryId entry) override {
      const auto self = shared_from_this();
      co_await turn_of(world_->shard);
      if (auto fault = world_->faults->next("read", std::to_string(id_))) co_return fault->status;
      if (stored_->removed)
        co_return Status::Closed("ledger " + std::to_string(id_) + " was removed");
      if (entry > last_confirmed()) co_return Status::InvalidArgument("not durable");
      std::int64_t sum = 0;
      for (EntryId i = 0; i <= entry; ++i)
        sum += stored_->entries[static_cast<std::size_t>(i)].messages;
      co_return sum;
    }
    Task<Status> seal() override {
      const auto self = shared_from_this();
      co_await turn_of(world_->shard);
      closed_ = true;
      while (!pending_.empty()) co_await turn_of(world_->shard);
      const auto fault = world_->faults->next("seal", std::to_string(id_));
      if (fault && !fault->applied) co_return fault->status;
      if (stored_->writer != writer_ && !stored_->sealed)
        co_return Status::Fenced("opened by someone else");
      stored_->sealed = true;
      co_return fault ? fault->status : Status::ok();
    }

   private:
    struct Append {
      LedgerEntry entry;
      AppendSink* sink = nullptr;
    };
    void store(LedgerEntry entry) {
      stored_->bytes += static_cast<std::int64_t>(entry.data.size());
      stored_->messages += entry.messages;
      stored_->entries.push_back(std::move(entry));
    }
    std::size_t copy(EntryId first, std::size_t max_entries, std::size_t max_bytes,
                     std::vector<LedgerEntry>& out) const {
      std::size_t n = 0;
      std::size_t bytes = 0;
      for (auto i = static_cast<std::size_t>(first); i < stored_->entries.size() && n < max_entries;
           ++i, ++n) {
        const LedgerEntry& entry = stored_->entries[i];
        if (n > 0 && bytes + entry.data.size() > max_bytes) break;
        bytes += entry.data.size();
        out.push_back(entry);
      }
      return n;
    }

    const std::shared_ptr<World> world_;
    const LedgerId id_;
    const std::shared_ptr<MemoryLedgers::Stored> stored_;
    const int writer_;
    bool closed_;
    bool failed_ = false;
    std::deque<Append> pending_;
  };

  std::shared_ptr<World> world_;
  bool after_crash_ = false;
};

}  // namespace geminga::testing
