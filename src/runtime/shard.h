// A shard: one thread, one event loop, and everything that lives on it. What belongs to a shard is
// touched by its thread only and needs no lock; other threads reach it by post().
//
// A turn of the loop: ready handlers and timers, then the mailboxes, then the deferred work (flush
// what the turn has gathered: receipts, deliveries, log writes). Deferred work may defer again; it
// runs in the same turn.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/mailbox.h"
#include "runtime/task.h"

namespace geminga {

// Something that wants to be called once at the end of the turn. Its owner keeps it alive while
// scheduled (Shard::forget() unschedules it).
class Deferred {
 public:
  virtual void run_deferred() = 0;
  bool scheduled() const { return scheduled_; }

 protected:
  ~Deferred() = default;

 private:
  friend class Shard;
  bool scheduled_ = false;
};

class Shard {
 public:
  using Work = UniqueFunction<void()>;
  using Executor = asio::io_context::executor_type;

  Shard(unsigned id, unsigned shards);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  unsigned id() const { return id_; }
  Executor executor() { return io_.get_executor(); }
  asio::io_context& io() { return io_; }

  // The shard whose thread this is, or nullptr.
  static Shard* current();
  bool is_current() const { return current() == this; }

  // Run `work` on this shard, in the order of posts from the same thread. Any thread. Between
  // shards it goes through the mailbox of the pair. Work posted after the loop has ended is
  // destroyed unrun.
  void post(Work work);
  // This shard's thread only.
  void defer(Deferred& what);
  void forget(Deferred& what);

  // Starts the thread (pinned to `cpu` if not negative). stop() ends the loop after the turn and
  // joins; handlers that are left are destroyed, not run. Both from the thread that owns the shard
  // object.
  void start(int cpu);
  void stop();

  // Share of time spent working, 0 to 1, since the last call. This shard's thread only.
  double take_load();

 private:
  void run();
  void drain_mailboxes();
  void run_deferred();

  const unsigned id_;
  asio::io_context io_;
  std::vector<std::unique_ptr<Mailbox>> inboxes_;  // by sending shard
  std::atomic<bool> woken_{false};
  std::atomic<bool> stopping_{false};
  std::vector<Deferred*> deferred_;
  std::thread thread_;
  std::int64_t busy_ns_ = 0;
  std::int64_t load_since_ns_ = 0;
};

}  // namespace geminga
