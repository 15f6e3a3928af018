// Where a shard encodes outgoing frames: one block after another, filled from the front, shared by
// all outboxes of the shard and kept alive by the pieces that were cut from it. A piece that grows
// stays contiguous while nobody else has taken memory behind it. Belongs to one thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/buffer.h"

namespace geminga {

class FrameArena {
 public:
  static constexpr std::size_t kBlock = 64 * 1024;

  FrameArena() = default;
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;
  ~FrameArena() { drop(); }

  static FrameArena& of_this_thread() {
    thread_local FrameArena arena;
    return arena;
  }

  // A piece being written: [begin, used) is filled, [used, end) is free for its owner.
  struct Piece {
    Block* block = nullptr;  // one reference of its own
    std::size_t begin = 0;
    std::size_t used = 0;
    std::size_t end = 0;
  };

  // Makes room for `size` more bytes in `piece`; false if it cannot grow where it is.
  bool grow(Piece& piece, std::size_t size) {
    if (piece.end - piece.used >= size) return true;
    if (piece.block == nullptr || piece.block != block_ || piece.end != top_) return false;
    const std::size_t wanted = size - (piece.end - piece.used);
    if (block_->capacity() - top_ < wanted) return false;
    // Twice what it has, so that many small frames ask seldom.
    const std::size_t more =
        std::min(std::max(wanted, piece.end - piece.begin), block_->capacity() - top_);
    top_ += more;
    piece.end += more;
    return true;
  }

  // A new piece with room for `size` bytes.
  Piece take(std::size_t size) {
    const std::size_t room = std::max<std::size_t>(size, 256);
    if (room > kBlock / 4) {
      Block* own = Block::allocate(room);
      return {own, 0, 0, room};
    }
    if (block_ == nullptr || block_->capacity() - top_ < room) {
      drop();
      block_ = Block::allocate(kBlock);
      top_ = 0;
    }
    block_->ref();
    Piece piece{block_, top_, top_, top_ + room};
    top_ = piece.end;
    return piece;
  }

  // The finished bytes of `piece`, which is empty afterwards; what it did not use is given back if
  // it can be.
  Buffer seal(Piece& piece) {
    if (piece.block == block_ && piece.end == top_) top_ = piece.used;
    Buffer bytes = Buffer::adopt(piece.block, piece.begin, piece.used - piece.begin);
    piece = Piece();
    return bytes;
  }

 private:
  void drop() {
    if (block_ != nullptr) block_->unref();
    block_ = nullptr;
  }

  Block* block_ = nullptr;
  std::size_t top_ = 0;
};

}  // namespace geminga
