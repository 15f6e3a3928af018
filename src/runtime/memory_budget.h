// The memory of the process as a budget (DESIGN §2): what is large or grows with load (socket
// buffers, publishes in flight, log blocks, read-ahead, deliveries) draws from it before it
// allocates and gives back after. At the limit publishers' sockets stop being read; nothing is
// dropped. All numbers are bytes. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace geminga {

enum class MemoryUse : std::uint8_t {
  Connection,  // socket buffers
  Publish,     // messages read and not yet in the log
  LogWrite,    // blocks being filled or flushed
  Cache,       // blocks kept for reading
  Delivery,    // frames queued towards consumers
  Metadata,    // RocksDB
  kCount
};
std::string_view to_string(MemoryUse use);

class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit) : limit_(limit) {}

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }
  std::size_t used(MemoryUse use) const {
    return by_use_[static_cast<std::size_t>(use)].load(std::memory_order_relaxed);
  }
  // Share of the limit in use, above which producers are held back (their sockets are not read).
  static constexpr double kHoldAt = 0.85;
  bool pressed() const {
    return static_cast<double>(used()) > kHoldAt * static_cast<double>(limit_);
  }

  // False, and nothing is taken, if it would pass the limit.
  bool try_take(MemoryUse use, std::size_t bytes);
  // Takes in any case: for what must go on (an entry already accepted, a reply).
  void take(MemoryUse use, std::size_t bytes);
  void give_back(MemoryUse use, std::size_t bytes);

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
  std::array<std::atomic<std::size_t>, static_cast<std::size_t>(MemoryUse::kCount)> by_use_{};
};

}  // namespace geminga
