// An ordered map from Position to a small value, for what a cursor or a subscription must remember
// of single entries: redelivery counts, pending acknowledgements, entries to send again.
//
// Sorted items in chunks of at most kChunk, so that an item costs its own size and little more,
// appending (the usual case: positions rise) is cheap, and inserting or erasing in the middle moves
// at most one chunk. No node is allocated per item. Values; used on one shard. Pointers are valid
// until the next change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/position.h"

namespace geminga {

template <typename Value>
class PositionMap {
 public:
  struct Item {
    Position position;
    Value value;
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  void clear() {
    chunks_.clear();
    size_ = 0;
  }

  // False, and nothing changes, if the position is there already.
  bool insert(Position position, Value value) {
    if (chunks_.empty()) chunks_.emplace_back();
    Chunk& last = chunks_.back();
    if (last.empty() || last.back().position < position) {
      if (last.size() < kChunk) {
        last.push_back({position, std::move(value)});
      } else {
        chunks_.emplace_back().push_back({position, std::move(value)});
      }
      ++size_;
      return true;
    }
    std::size_t at = chunk_of(position);
    auto it = lower(chunks_[at], position);
    if (it->position == position) return false;
    if (chunks_[at].size() == kChunk) {
      const auto offset = static_cast<std::size_t>(it - chunks_[at].begin());
      Chunk upper(std::make_move_iterator(chunks_[at].begin() + kChunk / 2),
                  std::make_move_iterator(chunks_[at].end()));
      chunks_[at].resize(kChunk / 2);
      chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
      if (offset > kChunk / 2) ++at;
      it = lower(chunks_[at], position);
    }
    chunks_[at].insert(it, {position, std::move(value)});
    ++size_;
    return true;
  }

  Value* find(Position position) {
    Item* item = at_or_after(position);
    return item != nullptr && item->position == position ? &item->value : nullptr;
  }
  const Value* find(Position position) const {
    return const_cast<PositionMap*>(this)->find(position);
  }
  bool contains(Position position) const { return find(position) != nullptr; }

  std::optional<Value> erase(Position position) {
    if (empty()) return std::nullopt;
    const std::size_t at = chunk_of(position);
    if (at == chunks_.size()) return std::nullopt;
    auto it = lower(chunks_[at], position);
    if (it->position != position) return std::nullopt;
    Value value = std::move(it->value);
    chunks_[at].erase(it);
    // The only chunk stays when it empties: one entry in flight at a time shall not allocate each
    // time.
    if (chunks_[at].empty() && chunks_.size() > 1) {
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    --size_;
    return value;
  }

  Item* first() { return empty() ? nullptr : &chunks_.front().front(); }
  const Item* first() const { return empty() ? nullptr : &chunks_.front().front(); }
  Item* at_or_after(Position position) {
    if (empty()) return nullptr;
    const std::size_t at = chunk_of(position);
    return at == chunks_.size() ? nullptr : &*lower(chunks_[at], position);
  }

  template <typename F>  // f(Position, Value&)
  void for_each(F f) {
    for (Chunk& chunk : chunks_) {
      for (Item& item : chunk) f(item.position, item.value);
    }
  }
  template <typename F>
  void for_each(F f) const {
    for (const Chunk& chunk : chunks_) {
      for (const Item& item : chunk) f(item.position, item.value);
    }
  }

  // Drops all items at or before `last`.
  void erase_through(Position last) {
    std::size_t gone = 0;
    while (gone < chunks_.size() && !chunks_[gone].empty() &&
           chunks_[gone].back().position <= last) {
      size_ -= chunks_[gone++].size();
    }
    chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(gone));
    if (empty()) return;
    Chunk& first = chunks_.front();
    const auto end = std::partition_point(first.begin(), first.end(),
                                          [&](const Item& item) { return item.position <= last; });
    size_ -= static_cast<std::size_t>(end - first.begin());
    first.erase(first.begin(), end);
  }

  // Drops every item for which `drop(position, value)` is true.
  template <typename F>
  void erase_if(F drop) {
    for (Chunk& chunk : chunks_) {
      std::erase_if(chunk, [&](Item& item) { return drop(item.position, item.value); });
    }
    std::erase_if(chunks_, [](const Chunk& chunk) { return chunk.empty(); });
    size_ = 0;
    for (const Chunk& chunk : chunks_) size_ += chunk.size();
  }

 private:
  static constexpr std::size_t kChunk = 64;
  using Chunk = std::vector<Item>;

  // The chunk that holds the first item >= position; chunks_.size() if there is none. Not empty().
  std::size_t chunk_of(Position position) const {
    const auto it = std::partition_point(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
      return chunk.empty() || chunk.back().position < position;
    });
    return static_cast<std::size_t>(it - chunks_.begin());
  }
  static typename Chunk::iterator lower(Chunk& chunk, Position position) {
    return std::partition_point(chunk.begin(), chunk.end(),
                                [&](const Item& item) { return item.position < position; });
  }

  std::vector<Chunk> chunks_;  // ascending; none empty, except a single one
  std::size_t size_ = 0;
};

}  // namespace geminga
