// I/O on a MemoryFolder whose requests overlap and end in an order that a seed decides: a write is
// recorded as begun at once and as ended some turns of the loop later. Blocking work runs in one
// piece, in order. One shard.
#pragma once

#include <cstdint>
#include <memory>

#include "ledger/log_io.h"
#include "ledger/memory_folder.h"

namespace geminga::crash {

std::unique_ptr<LogIo> make_shuffled_io(Shard& shard, std::shared_ptr<MemoryFolder> folder,
                                        std::uint64_t seed);

}  // namespace geminga::crash
