// The shards of the process and the threads for blocking work (RocksDB, compression of cold data).
// Owned by main; starts in start(), ends in stop(). Everything that lives on a shard must have been
// closed (on its shard) before stop().
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/async.h"
#include "runtime/memory_budget.h"
#include "runtime/shard.h"

namespace geminga {

struct RuntimeOptions {
  unsigned shards = 0;           // 0: one a core that this process may use
  std::size_t memory_limit = 0;  // bytes; the caller resolves the default
  bool pin_threads = true;
  unsigned blocking_threads = 2;
};

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options);
  ~Runtime();

  void start();
  void stop();

  unsigned shard_count() const { return static_cast<unsigned>(shards_.size()); }
  Shard& shard(unsigned i) { return *shards_[i]; }
  MemoryBudget& memory() { return memory_; }
  asio::thread_pool& blocking() { return blocking_; }

  // Runs `function` (returns Task<T>) on `shard` and waits for it. From a thread that is no shard.
  template <typename F>
  auto run_and_wait(unsigned shard, F function) {
    return asio::co_spawn(this->shard(shard).executor(), std::move(function), asio::use_future)
        .get();
  }

 private:
  RuntimeOptions options_;
  MemoryBudget memory_;
  std::vector<std::unique_ptr<Shard>> shards_;
  asio::thread_pool blocking_;
};

// Cores this process may run on (affinity and cgroup quota), at least 1.
unsigned usable_cores();
// Bytes of memory this process may use: the cgroup's limit, else the machine's memory.
std::size_t usable_memory();

}  // namespace geminga
