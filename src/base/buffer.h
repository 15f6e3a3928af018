// Reference-counted bytes.
//
// A `Block` is one piece of memory, allocated once, that many `Buffer`s may point into; the last
// Buffer to go frees it (through its owner's release hook, so that pools and the memory budget hear
// of it). A Buffer is a view (pointer, length) that keeps its Block alive: copying one copies no
// bytes. Bytes that were handed out through a Buffer are never written again, with one exception:
// the owner of a Block may append behind everything handed out so far. The count is atomic: Buffers
// may be copied and dropped on any thread; one Buffer object belongs to one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace geminga {

class Block {
 public:
  using Release = void (*)(Block* block, void* owner);

  // A block of `capacity` bytes on the heap, its reference count 1 (the caller's, to be given to
  // Buffer::adopt or dropped by unref()). `alignment` is a power of two (4096 for O_DIRECT).
  // `release`, if given, is called instead of destroy() when the count falls to zero; it must call
  // destroy() or keep the block for reuse (then reset_refs()).
  static Block* allocate(std::size_t capacity, std::size_t alignment = 16,
                         Release release = nullptr, void* owner = nullptr);
  static void destroy(Block* block);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

  void ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) released();
  }
  bool unique() const { return refs_.load(std::memory_order_acquire) == 1; }
  void reset_refs() { refs_.store(1, std::memory_order_relaxed); }

 private:
  Block(std::byte* data, std::size_t capacity, Release release, void* owner)
      : data_(data), capacity_(capacity), release_(release), owner_(owner) {}
  void released();

  std::atomic<std::uint32_t> refs_{1};
  std::byte* data_;
  std::size_t capacity_;
  Release release_;
  void* owner_;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) : block_(other.block_), data_(other.data_), size_(other.size_) {
    if (block_ != nullptr) block_->ref();
  }
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (block_ != nullptr) block_->unref();
  }

  // A view of [offset, offset + size) of `block`; takes over one reference / adds one of its own.
  static Buffer adopt(Block* block, std::size_t offset, std::size_t size) {
    return Buffer(block, block->data() + offset, size);
  }
  static Buffer share(Block* block, std::size_t offset, std::size_t size) {
    block->ref();
    return adopt(block, offset, size);
  }
  static Buffer copy_of(std::span<const std::byte> bytes);
  static Buffer copy_of(std::string_view text) { return copy_of(std::as_bytes(std::span(text))); }
  // Bytes that live for ever (literals, static tables): no block behind them.
  static Buffer of_static(std::string_view text) {
    return Buffer(nullptr, reinterpret_cast<const std::byte*>(text.data()), text.size());
  }

  const std::byte* data() const { return data_; }
  const std::uint8_t* bytes() const { return reinterpret_cast<const std::uint8_t*>(data_); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> span() const { return {data_, size_}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // The part [offset, offset + size), sharing the block. offset + size <= this->size().
  Buffer slice(std::size_t offset, std::size_t size) const;
  Buffer slice(std::size_t offset) const { return slice(offset, size_ - offset); }

 private:
  Buffer(Block* block, const std::byte* data, std::size_t size)
      : block_(block), data_(data), size_(size) {}

  Block* block_ = nullptr;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace geminga
