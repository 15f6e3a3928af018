// Mutual exclusion between coroutines of one shard in 24 bytes (AsyncMutex holds a queue of half a
// kilobyte; there is one of these a cursor). Waiters are not served in order.
#pragma once

#include <memory>
#include <utility>

#include "runtime/async.h"

namespace geminga {

class SlimMutex {
 public:
  class Lock {
   public:
    Lock() = default;
    explicit Lock(SlimMutex* mutex) : mutex_(mutex) {}
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
    SlimMutex* mutex_ = nullptr;
  };

  bool locked() const { return locked_; }
  Task<Lock> lock() {
    while (locked_) {
      if (!freed_) freed_ = std::make_shared<Event>();
      auto freed = freed_;
      co_await freed->wait();
    }
    locked_ = true;
    co_return Lock(this);
  }

 private:
  void release() {
    locked_ = false;
    if (auto freed = std::move(freed_)) freed->set();
  }

  bool locked_ = false;
  std::shared_ptr<Event> freed_;
};

}  // namespace geminga
