// A gate counts what is running on behalf of an owner, so that the owner can refuse new work and
// wait for the rest. Work enters with hold(); close() lets nobody in any more and completes when
// the last has left. Belongs to one shard.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "runtime/task.h"

namespace geminga {

class Gate {
 public:
  // One piece of work inside; leaves when destroyed.
  class Holder {
   public:
    Holder() = default;
    explicit Holder(Gate* gate) : gate_(gate) { ++gate_->inside_; }
    Holder(Holder&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Holder& operator=(Holder&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Holder() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    Gate* gate_ = nullptr;
  };

  // Empty once the gate is closed.
  std::optional<Holder> hold() {
    if (closed_) return std::nullopt;
    return Holder(this);
  }
  bool closed() const { return closed_; }
  std::size_t inside() const { return inside_; }

  // May be awaited more than once. Must not be awaited from inside.
  Task<void> close();

 private:
  void leave() {
    if (--inside_ == 0 && waiter_) waiter_->cancel();
  }

  std::size_t inside_ = 0;
  bool closed_ = false;
  std::optional<asio::steady_timer> waiter_;
};

}  // namespace geminga
