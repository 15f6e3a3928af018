// Blocks that connections read into. The common size is kept for reuse by the thread that lets go
// of it; what is in use counts against the memory budget. Any shard.
#pragma once

#include <cstddef>

#include "base/buffer.h"
#include "runtime/memory_budget.h"

namespace geminga {

inline constexpr std::size_t kReadBlock = 64 * 1024;

// At least `capacity` bytes, one reference for the caller.
Block* take_read_block(MemoryBudget& memory, std::size_t capacity);

}  // namespace geminga
