// What is known of a message that is held back: when it is due, and where it is. DelayedBuffer
// keeps such items in order in memory, before they are written to disk.
//
// Sorted items in chunks of at most kChunk: appending (delays alike) is cheap, inserting or erasing
// in the middle moves at most one chunk, and no node is allocated per item. About 24 to 34 bytes an
// item. Values; used on one shard.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/position.h"

namespace geminga {

struct DelayedItem {  // ordered by due time, then by place in the log
  std::int64_t due_ms = 0;
  Position position;

  friend auto operator<=>(const DelayedItem&, const DelayedItem&) = default;

  static constexpr DelayedItem before_all() {
    return {std::numeric_limits<std::int64_t>::min(), Position::earliest()};
  }
  // Behind everything due at that time.
  static constexpr DelayedItem end_of(std::int64_t due_ms) { return {due_ms, Position::latest()}; }
};

class DelayedBuffer {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void clear() {
    chunks_.clear();
    size_ = 0;
  }

  // An item that is there already is left alone.
  void insert(const DelayedItem& item) {
    if (chunks_.empty() || chunks_.back().back() < item) {
      if (chunks_.empty() || chunks_.back().size() == kChunk) chunks_.emplace_back();
      chunks_.back().push_back(item);
      ++size_;
      return;
    }
    std::size_t at = chunk_from(item);
    auto it = std::lower_bound(chunks_[at].begin(), chunks_[at].end(), item);
    if (*it == item) return;
    if (chunks_[at].size() == kChunk) {
      const auto offset = static_cast<std::size_t>(it - chunks_[at].begin());
      Chunk upper(chunks_[at].begin() + kChunk / 2, chunks_[at].end());
      chunks_[at].resize(kChunk / 2);
      chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
      if (offset > kChunk / 2) ++at;
      it = std::lower_bound(chunks_[at].begin(), chunks_[at].end(), item);
    }
    chunks_[at].insert(it, item);
    ++size_;
  }

  // A place in the buffer; valid until the next change.
  struct Place {
    std::size_t chunk = 0;
    std::size_t item = 0;
  };
  Place after(const DelayedItem& item) const {
    const std::size_t at = static_cast<std::size_t>(
        std::partition_point(chunks_.begin(), chunks_.end(),
                             [&](const Chunk& chunk) { return chunk.back() <= item; }) -
        chunks_.begin());
    if (at == chunks_.size()) return {at, 0};
    const Chunk& chunk = chunks_[at];
    return {at, static_cast<std::size_t>(std::upper_bound(chunk.begin(), chunk.end(), item) -
                                         chunk.begin())};
  }
  const DelayedItem* at(Place place) const {
    return place.chunk < chunks_.size() ? &chunks_[place.chunk][place.item] : nullptr;
  }
  void step(Place& place) const {
    if (++place.item == chunks_[place.chunk].size()) place = {place.chunk + 1, 0};
  }

  std::int64_t count_after(std::int64_t due_ms) const {
    const Place from = after(DelayedItem::end_of(due_ms));
    if (from.chunk == chunks_.size()) return 0;
    std::size_t count = chunks_[from.chunk].size() - from.item;
    for (std::size_t i = from.chunk + 1; i < chunks_.size(); ++i) count += chunks_[i].size();
    return static_cast<std::int64_t>(count);
  }

  // Of the items due by `until`, drops those for which `drop(item)` is true, chunk by chunk from
  // the first on, until about `at_most` were looked at.
  template <typename F>
  void erase_due_if(std::int64_t until, std::size_t at_most, F drop) {
    for (std::size_t i = 0; i < chunks_.size() && at_most > 0;) {
      Chunk& chunk = chunks_[i];
      if (chunk.front().due_ms > until) return;
      at_most -= std::min(at_most, chunk.size());
      size_ -= std::erase_if(
          chunk, [&](const DelayedItem& item) { return item.due_ms <= until && drop(item); });
      if (chunk.empty()) {
        chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  std::size_t memory_bytes() const {
    std::size_t bytes = chunks_.capacity() * sizeof(Chunk);
    for (const Chunk& chunk : chunks_) bytes += chunk.capacity() * sizeof(DelayedItem);
    return bytes;
  }

 private:
  static constexpr std::size_t kChunk = 128;
  using Chunk = std::vector<DelayedItem>;

  // The first chunk whose last item is not before `item`.
  std::size_t chunk_from(const DelayedItem& item) const {
    return static_cast<std::size_t>(
        std::partition_point(chunks_.begin(), chunks_.end(),
                             [&](const Chunk& chunk) { return chunk.back() < item; }) -
        chunks_.begin());
  }

  std::vector<Chunk> chunks_;  // ascending, none empty
  std::size_t size_ = 0;
};

}  // namespace geminga
