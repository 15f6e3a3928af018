#include "base/buffer.h"

#include <cassert>
#include <new>

namespace geminga {

namespace {
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) & ~(to - 1); }
}  // namespace

// The header stands behind the data, so that the data has the alignment asked for without a gap.
Block* Block::allocate(std::size_t capacity, std::size_t alignment, Release release, void* owner) {
  if (alignment < alignof(Block)) alignment = alignof(Block);
  const std::size_t header_at = round_up(capacity, alignof(Block));
  const std::size_t total = round_up(header_at + sizeof(Block), alignment);
  void* memory = std::aligned_alloc(alignment, total);
  if (memory == nullptr) throw std::bad_alloc();
  auto* data = static_cast<std::byte*>(memory);
  return new (data + header_at) Block(data, capacity, release, owner);
}

void Block::destroy(Block* block) {
  std::byte* data = block->data_;
  block->~Block();
  std::free(data);
}

void Block::released() {
  if (release_ != nullptr) {
    release_(this, owner_);
  } else {
    destroy(this);
  }
}

Buffer Buffer::copy_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  Block* block = Block::allocate(bytes.size());
  std::memcpy(block->data(), bytes.data(), bytes.size());
  return adopt(block, 0, bytes.size());
}

Buffer Buffer::slice(std::size_t offset, std::size_t size) const {
  assert(offset <= size_ && size <= size_ - offset);
  if (block_ != nullptr) block_->ref();
  return Buffer(block_, data_ + offset, size);
}

}  // namespace geminga
