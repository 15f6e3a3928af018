// Positions of messages that are held back until their time, earliest first. In memory only, 32
// bytes each, and its owner bounds it; after a restart it is made again by reading the log. Values;
// one shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/position.h"

namespace geminga {

class DelayedIndex {
 public:
  struct Item {
    std::int64_t due_ms;
    Position position;
    std::uint16_t slot;
  };

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  void clear() { heap_.clear(); }
  std::int64_t first_due() const { return heap_.front().due_ms; }

  void add(Item item) {
    heap_.push_back(item);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  template <typename F>
  void erase_if(F drop) {
    std::erase_if(heap_, drop);
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  // Not empty.
  Item pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Item item = heap_.back();
    heap_.pop_back();
    return item;
  }

 private:
  // Messages due at the same time keep their order in the log.
  static bool later(const Item& a, const Item& b) {
    return a.due_ms != b.due_ms ? a.due_ms > b.due_ms : a.position > b.position;
  }
  std::vector<Item> heap_;
};

}  // namespace geminga
