// A set of positions, compact within each ledger (entry_set.h). Pure data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "managed_ledger/entry_set.h"

namespace geminga {

class PositionSet {
 public:
  bool empty() const { return size_ == 0; }
  std::int64_t size() const { return size_; }
  const std::map<LedgerId, EntrySet>& ledgers() const { return ledgers_; }

  // False if it was in the set.
  bool insert(Position position) {
    if (!ledgers_[position.ledger].insert(position.entry)) return false;
    ++size_;
    return true;
  }
  // False if it was not in the set.
  bool erase(Position position) {
    const auto at = ledgers_.find(position.ledger);
    if (at == ledgers_.end() || !at->second.erase(position.entry)) return false;
    --size_;
    if (at->second.empty()) ledgers_.erase(at);
    return true;
  }
  bool contains(Position position) const {
    if (size_ == 0 || position.entry < 0) return false;
    const auto at = ledgers_.find(position.ledger);
    return at != ledgers_.end() && at->second.contains(position.entry);
  }
  // The first position at or after `from`, in its ledger, that is not in the set.
  Position next_missing(Position from) const {
    const auto at = ledgers_.find(from.ledger);
    return at == ledgers_.end() ? from : Position{from.ledger, at->second.next_missing(from.entry)};
  }
  Status merge_encoded(LedgerId ledger, std::string_view bytes) {
    EntrySet& set = ledgers_[ledger];
    const std::int64_t before = set.size();
    const Status status = set.merge_encoded(bytes);
    size_ += set.size() - before;
    if (set.empty()) ledgers_.erase(ledger);
    return status;
  }
  void drop_ledgers_before(LedgerId ledger) {
    while (!ledgers_.empty() && ledgers_.begin()->first < ledger) {
      size_ -= ledgers_.begin()->second.size();
      ledgers_.erase(ledgers_.begin());
    }
  }
  void clear() {
    ledgers_.clear();
    size_ = 0;
  }
  std::size_t memory_bytes() const {
    std::size_t bytes = 0;
    // 48: what a map node and its heap block take beside the value.
    for (const auto& [ledger, set] : ledgers_) bytes += sizeof set + 48 + set.memory_bytes();
    return bytes;
  }

 private:
  std::map<LedgerId, EntrySet> ledgers_;  // never empty ones
  std::int64_t size_ = 0;
};

}  // namespace geminga
