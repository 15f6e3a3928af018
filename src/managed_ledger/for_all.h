// Runs a task for each of `count` things, at most kAtOnce of them at a time, so that their writes
// share the stores' flushes and a topic with ten thousand cursors opens and closes in a moment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/status.h"
#include "runtime/async.h"

namespace geminga {

// `task(i)` returns Task<Status>. All are run; the first error is returned. Call on `shard`.
template <typename F>
Task<Status> for_all(Shard& shard, std::size_t count, F task) {
  constexpr std::size_t kAtOnce = 64;
  Status first;
  std::size_t next = 0;
  Gate running;
  for (std::size_t i = 0; i < std::min(count, kAtOnce); ++i) {
    spawn(shard, running, [&]() -> Task<void> {
      while (next < count) {
        Status status = co_await task(next++);
        if (!status && first) first = std::move(status);
      }
    });
  }
  co_await running.close();
  co_return first;
}

}  // namespace geminga
