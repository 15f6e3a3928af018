#include "server/read_block.h"

#include <vector>

namespace geminga {

namespace {

struct Spare {
  static constexpr std::size_t kMost = 16;
  std::vector<Block*> blocks;
  ~Spare() {
    for (Block* block : blocks) Block::destroy(block);
  }
};
Spare& spare() {
  thread_local Spare instance;
  return instance;
}

void give_back(Block* block, void* owner) {
  static_cast<MemoryBudget*>(owner)->give_back(MemoryUse::Connection, block->capacity());
  auto& blocks = spare().blocks;
  if (block->capacity() == kReadBlock && blocks.size() < Spare::kMost) {
    blocks.push_back(block);
  } else {
    Block::destroy(block);
  }
}

}  // namespace

Block* take_read_block(MemoryBudget& memory, std::size_t capacity) {
  memory.take(MemoryUse::Connection, capacity);
  auto& blocks = spare().blocks;
  if (capacity == kReadBlock && !blocks.empty()) {
    Block* block = blocks.back();
    blocks.pop_back();
    block->reset_refs();
    return block;
  }
  return Block::allocate(capacity, 16, give_back, &memory);
}

}  // namespace geminga
