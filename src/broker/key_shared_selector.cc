#include "broker/key_shared_selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "broker/consumer.h"
#include "broker/dispatcher_config.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {

constexpr std::int32_t kLastSlot = 65535;

class HashRingSelector final : public KeySharedSelector {
 public:
  explicit HashRingSelector(std::uint32_t points) : points_(points) {}

  KeySlot slot_of(std::uint32_t hash) const override { return ring_slot(hash); }

  Status add(Consumer& consumer) override {
    // Consumers of one name need different points: each takes the smallest number free among them.
    auto& taken = names_[consumer.name()];
    std::uint32_t number = 0;
    while (taken.contains(number)) ++number;
    taken.insert(number);
    numbers_[&consumer] = number;
    for (std::uint32_t i = 0; i < points_; ++i) {
      owners_[point(consumer, number, i)].push_back(&consumer);
    }
    rebuild();
    return Status::ok();
  }

  void remove(Consumer& consumer) override {
    const auto it = numbers_.find(&consumer);
    if (it == numbers_.end()) return;
    for (std::uint32_t i = 0; i < points_; ++i) {
      const auto owner = owners_.find(point(consumer, it->second, i));
      auto& queue = owner->second;
      // Two of its points may fall on one another: one is taken out for each.
      if (const auto at = std::find(queue.begin(), queue.end(), &consumer); at != queue.end())
        queue.erase(at);
      if (queue.empty()) owners_.erase(owner);
    }
    auto& taken = names_[consumer.name()];
    taken.erase(it->second);
    if (taken.empty()) names_.erase(consumer.name());
    numbers_.erase(it);
    rebuild();
  }

  Consumer* select(KeySlot slot) const override {
    if (ring_.empty()) return nullptr;
    const auto it = std::partition_point(ring_.begin(), ring_.end(),
                                         [slot](const Point& point) { return point.slot < slot; });
    return it == ring_.end() ? ring_.front().owner : it->owner;
  }

  std::vector<std::pair<HashRange, Consumer*>> ranges() const override {
    std::vector<std::pair<HashRange, Consumer*>> result;
    std::int32_t start = 1;
    const auto put = [&](std::int32_t end, Consumer* owner) {
      if (!result.empty() && result.back().second == owner) {
        result.back().first.end = end;
      } else {
        result.push_back({{start, end}, owner});
      }
      start = end + 1;
    };
    for (const Point& point : ring_) put(point.slot, point.owner);
    if (!ring_.empty() && ring_.back().slot != kLastSlot) put(kLastSlot, ring_.front().owner);
    return result;
  }

 private:
  struct Point {
    KeySlot slot;
    Consumer* owner;
  };

  static KeySlot point(const Consumer& consumer, std::uint32_t number, std::uint32_t i) {
    std::string key = consumer.name();
    key.push_back('\0');
    key += std::to_string(number);
    key.push_back('\0');
    key += std::to_string(i);
    return ring_slot(sticky_key_hash(key));
  }

  void rebuild() {
    ring_.clear();
    ring_.reserve(owners_.size());
    for (const auto& [slot, queue] : owners_) ring_.push_back({slot, queue.front()});
  }

  const std::uint32_t points_;
  // Who wants each point, in the order they came; the first has it.
  std::map<KeySlot, std::vector<Consumer*>> owners_;
  std::vector<Point> ring_;  // the same, first owners only, for select()
  std::unordered_map<std::string, std::set<std::uint32_t>> names_;
  std::unordered_map<Consumer*, std::uint32_t> numbers_;
};

// Ranges (previous end, end], kept by their ends.
class AutoSplitSelector final : public KeySharedSelector {
 public:
  KeySlot slot_of(std::uint32_t hash) const override { return range_slot(hash); }

  Status add(Consumer& consumer) override {
    if (ends_.empty()) {
      ends_[kSize] = &consumer;
      return Status::ok();
    }
    std::int32_t widest_start = 0;
    std::int32_t widest_end = 0;
    std::int32_t start = 0;
    for (const auto& [end, owner] : ends_) {
      if (end - start > widest_end - widest_start) {
        widest_start = start;
        widest_end = end;
      }
      start = end;
    }
    const std::int32_t half = (widest_end - widest_start) >> 1;
    if (half <= 0) return Status::ConsumerAssign("No more range can assigned to new consumer");
    // The newcomer takes the lower half.
    ends_[widest_end - half] = &consumer;
    return Status::ok();
  }

  void remove(Consumer& consumer) override {
    const auto it = std::find_if(ends_.begin(), ends_.end(),
                                 [&](const auto& range) { return range.second == &consumer; });
    if (it == ends_.end()) return;
    // The range above takes it over; the last one goes to the range below.
    if (std::next(it) == ends_.end() && it != ends_.begin()) {
      const auto below = std::prev(it);
      it->second = below->second;
      ends_.erase(below);
    } else {
      ends_.erase(it);
    }
  }

  Consumer* select(KeySlot slot) const override {
    const auto it = ends_.lower_bound(slot);
    return it == ends_.end() ? nullptr : it->second;
  }

  std::vector<std::pair<HashRange, Consumer*>> ranges() const override {
    std::vector<std::pair<HashRange, Consumer*>> result;
    std::int32_t start = 0;
    for (const auto& [end, owner] : ends_) {
      result.push_back({{start, std::min(end, kLastSlot)}, owner});
      start = end + 1;
    }
    return result;
  }

 private:
  static constexpr std::int32_t kSize = 65536;
  std::map<std::int32_t, Consumer*> ends_;
};

class StickySelector final : public KeySharedSelector {
 public:
  KeySlot slot_of(std::uint32_t hash) const override { return range_slot(hash); }

  Status add(Consumer& consumer) override {
    if (!consumer.key_shared() || consumer.key_shared()->ranges.empty()) {
      return Status::ConsumerAssign("Ranges for KeyShared policy must not be empty.");
    }
    std::vector<HashRange> ranges = consumer.key_shared()->ranges;
    std::sort(ranges.begin(), ranges.end(),
              [](const HashRange& a, const HashRange& b) { return a.start < b.start; });
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const HashRange& range = ranges[i];
      if (range.start < 0 || range.end > kLastSlot || range.start > range.end) {
        return Status::ConsumerAssign(fmt::format(
            "Ranges must be [start, end] within [0, 65535] but provided range is [{}, {}]",
            range.start, range.end));
      }
      if (i > 0 && range.start <= ranges[i - 1].end) {
        return Status::ConsumerAssign(
            "Ranges for KeyShared policy with overlap between each other.");
      }
      if (const auto* taken = overlapping(range); taken != nullptr) {
        return Status::ConsumerAssign(fmt::format("Range conflict with consumer {}: [{}, {}]",
                                                  taken->second->name(), range.start, range.end));
      }
    }
    for (const HashRange& range : ranges) ranges_.push_back({range, &consumer});
    std::sort(ranges_.begin(), ranges_.end(),
              [](const auto& a, const auto& b) { return a.first.start < b.first.start; });
    return Status::ok();
  }

  void remove(Consumer& consumer) override {
    std::erase_if(ranges_, [&](const auto& range) { return range.second == &consumer; });
  }

  Consumer* select(KeySlot slot) const override {
    const auto* range = overlapping({slot, slot});
    return range == nullptr ? nullptr : range->second;
  }

  std::vector<std::pair<HashRange, Consumer*>> ranges() const override { return ranges_; }

 private:
  const std::pair<HashRange, Consumer*>* overlapping(const HashRange& range) const {
    const auto it = std::partition_point(ranges_.begin(), ranges_.end(),
                                         [&](const auto& r) { return r.first.end < range.start; });
    return it != ranges_.end() && it->first.start <= range.end ? &*it : nullptr;
  }

  std::vector<std::pair<HashRange, Consumer*>> ranges_;  // ascending
};

}  // namespace

std::unique_ptr<KeySharedSelector> make_hash_ring_selector(std::uint32_t points_per_consumer) {
  return std::make_unique<HashRingSelector>(std::max<std::uint32_t>(points_per_consumer, 1));
}
std::unique_ptr<KeySharedSelector> make_auto_split_selector() {
  return std::make_unique<AutoSplitSelector>();
}
std::unique_ptr<KeySharedSelector> make_sticky_selector() {
  return std::make_unique<StickySelector>();
}

std::unique_ptr<KeySharedSelector> make_selector(KeySharedMode mode,
                                                 const DispatcherConfig& config) {
  if (mode == KeySharedMode::Sticky) return make_sticky_selector();
  if (!config.key_shared_consistent_hashing) return make_auto_split_selector();
  return make_hash_ring_selector(config.key_shared_points);
}

std::vector<std::string> ranges_text(const KeySharedSelector& selector, const Consumer& consumer) {
  std::vector<std::string> text;
  for (const auto& [range, owner] : selector.ranges()) {
    if (owner == &consumer) text.push_back(fmt::format("[{}, {}]", range.start, range.end));
  }
  return text;
}

}  // namespace geminga
