#include "broker/dispatcher_shared.h"

#include <algorithm>

namespace geminga {

void DispatcherShared::remove(Consumer& consumer) {
  if (current_ == &consumer) current_ = nullptr;
  DispatcherMultiple::remove(consumer);
}

void DispatcherShared::deliver() {
  quota_ = 0;  // with each turn it is the next one's: single messages go to one after the other
  DispatcherMultiple::deliver();
}

// Who asks for one message at a time shall not cost a batch of entries each time.
std::size_t DispatcherShared::wanted_from_log() const {
  const std::size_t most = env_.config.max_read_batch_size;
  std::size_t wanted = 0;
  for (const auto& consumer : consumers_) {
    if (ready(*consumer)) wanted += consumer->entries_wanted(most);
    if (wanted >= most) return most;
  }
  return std::max<std::size_t>(wanted, 1);
}

Consumer* DispatcherShared::next_ready() {
  if (quota_ > 0 && ready(*current_)) return current_;
  const std::size_t n = consumers_.size();
  std::size_t last = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (consumers_[i].get() == current_) last = i;
  }
  for (std::size_t begin = 0; begin < n;) {
    std::size_t end = begin + 1;
    while (end < n && consumers_[end]->priority() == consumers_[begin]->priority()) ++end;
    // Within a priority, start behind the last one.
    const std::size_t size = end - begin;
    const std::size_t first = last >= begin && last < end ? last + 1 - begin : 0;
    for (std::size_t i = 0; i < size; ++i) {
      Consumer* candidate = consumers_[begin + (first + i) % size].get();
      if (!ready(*candidate)) continue;
      current_ = candidate;
      quota_ = std::max<std::int64_t>(env_.config.max_round_robin_batch_size, 1);
      return candidate;
    }
    begin = end;
  }
  return nullptr;
}

DispatcherMultiple::Verdict DispatcherShared::dispatch(const Entry& entry) {
  const auto metadata = admit_entry(entry);
  if (!metadata) {
    spend(0);
    return Verdict::Taken;
  }
  if (skip_headless(entry, *metadata)) return Verdict::Taken;
  if (hold_for_transaction(entry.position, 0)) return Verdict::Taken;
  if (Verdict verdict; hold_if_early(entry, *metadata, 0, verdict)) return verdict;
  Consumer* consumer = bound_to(*metadata);
  if (consumer != nullptr && !ready(*consumer)) {
    return park(*consumer, entry.position, {0, true}) ? Verdict::Taken : Verdict::NoRoom;
  }
  if (consumer == nullptr) consumer = next_ready();
  if (consumer == nullptr) return Verdict::NoRoom;
  const std::int64_t before = consumer->permits();
  deliver_to(*consumer, entry, 0);
  if (consumer == current_) quota_ -= before - consumer->permits();
  bind_chunks(*metadata, *consumer);
  return Verdict::Taken;
}

}  // namespace geminga
