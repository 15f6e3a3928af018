// What control-flow coroutines need: spawn with an owner, hop to another shard, blocking work off
// the loop, sleep, a one-shot event, a mutex.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "runtime/gate.h"
#include "runtime/shard.h"

namespace geminga {

namespace async_internal {
// An exception out of a task is a programming error: say where and abort.
[[noreturn]] void die_of(std::exception_ptr exception);
}  // namespace async_internal

// Starts `function` (a callable that returns Task<void>, moved into the task's own frame) on
// `shard`, owned by `gate`: gate.close() waits for it. Call on `shard`. False, and nothing is
// started, if the gate is closed.
template <typename F>
bool spawn(Shard& shard, Gate& gate, F function) {
  auto holder = gate.hold();
  if (!holder) return false;
  asio::co_spawn(
      shard.executor(),
      [holder = std::move(*holder), function = std::move(function)]() mutable -> Task<void> {
        co_await function();
      },
      [](std::exception_ptr exception) {
        if (exception) async_internal::die_of(exception);
      });
  return true;
}

// Runs `function` (returns Task<T>) on `target` and gives its result to the calling coroutine,
// which comes back on its own shard. On `target` itself it is a plain call.
template <typename F>
std::invoke_result_t<F> on_shard(Shard& target, F function) {
  if (target.is_current()) co_return co_await function();
  co_return co_await asio::co_spawn(target.executor(), std::move(function), asio::use_awaitable);
}

// Runs `function` (plain, may block) on a thread of `pool`; the caller comes back on its own shard.
template <typename F>
Task<std::invoke_result_t<F>> run_blocking(asio::thread_pool& pool, F function) {
  // Named: GCC 12 copies a closure that is made inside an awaited expression byte by byte.
  auto task = [function = std::move(function)]() mutable -> Task<std::invoke_result_t<F>> {
    co_return function();
  };
  co_return co_await asio::co_spawn(pool.get_executor(), std::move(task), asio::use_awaitable);
}

// Comes back after `duration`, on the same shard.
Task<void> sleep_for(Millis duration);

// Something that happens once: set() lets all present and future waiters go on. Belongs to one
// shard.
class Event {
 public:
  bool is_set() const { return set_; }
  void set();
  Task<void> wait();

 private:
  bool set_ = false;
  std::shared_ptr<asio::steady_timer> timer_;
};

// Mutual exclusion between coroutines of one shard, first come first served.
class AsyncMutex {
 public:
  class Lock {
   public:
    Lock() = default;
    explicit Lock(AsyncMutex* mutex) : mutex_(mutex) {}
    Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Lock& operator=(Lock&& other) noexcept {
      std::swap(mutex_, other.mutex_);
      return *this;
    }
    ~Lock() { unlock(); }
    void unlock() {
      if (mutex_ != nullptr) std::exchange(mutex_, nullptr)->release();
    }

   private:
    AsyncMutex* mutex_ = nullptr;
  };

  Task<Lock> lock();

 private:
  void release();

  bool locked_ = false;
  std::deque<std::shared_ptr<Event>> waiters_;
};

}  // namespace geminga
