#include "managed_ledger/entry_set.h"

#include <algorithm>
#include <bit>

namespace geminga {

// ---- one chunk ----

std::size_t EntrySet::Chunk::run_at_or_after(std::uint32_t i) const {
  const auto at =
      std::lower_bound(runs_.begin(), runs_.end(), i,
                       [](const Run& run, std::uint32_t wanted) { return run.last < wanted; });
  return static_cast<std::size_t>(at - runs_.begin());
}

bool EntrySet::Chunk::contains(std::uint32_t i) const {
  if (words_) return ((*words_)[i / 64] >> (i % 64) & 1) != 0;
  const std::size_t at = run_at_or_after(i);
  return at < runs_.size() && runs_[at].first <= i;
}

bool EntrySet::Chunk::insert(std::uint32_t i) {
  if (contains(i)) return false;
  const auto id = static_cast<std::uint16_t>(i);
  if (words_) {
    const bool left = i > 0 && contains(i - 1);
    const bool right = i + 1 < kChunkSize && contains(i + 1);
    (*words_)[i / 64] |= std::uint64_t{1} << (i % 64);
    run_count_ = static_cast<std::uint16_t>(run_count_ + 1 - (left ? 1 : 0) - (right ? 1 : 0));
    ++count_;
    if (run_count_ <= kFewRuns) to_runs();
    return true;
  }
  const std::size_t at = run_at_or_after(i);
  const bool joins_left = at > 0 && runs_[at - 1].last + 1U == i;
  const bool joins_right = at < runs_.size() && runs_[at].first == i + 1U;
  if (joins_left && joins_right) {
    runs_[at - 1].last = runs_[at].last;
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (joins_left) {
    runs_[at - 1].last = id;
  } else if (joins_right) {
    runs_[at].first = id;
  } else {
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(at), Run{id, id});
  }
  ++count_;
  if (runs_.size() > kMaxRuns) to_words();
  return true;
}

std::uint32_t EntrySet::Chunk::insert_range(std::uint32_t first, std::uint32_t last) {
  std::uint32_t added = 0;
  if (count_ == 0) {  // the usual case when a stored state is loaded
    runs_.push_back(Run{static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)});
    added = last - first + 1;
    count_ = static_cast<std::uint16_t>(added);
    return added;
  }
  for (std::uint32_t i = first; i <= last; ++i) added += insert(i) ? 1 : 0;
  return added;
}

std::uint32_t EntrySet::Chunk::erase_through(std::uint32_t last) {
  std::uint32_t removed = 0;
  if (words_) {
    std::uint32_t runs = 0;
    for (std::uint32_t w = 0; w < words_->size(); ++w) {
      std::uint64_t& word = (*words_)[w];
      if (w < last / 64) {
        removed += static_cast<std::uint32_t>(std::popcount(word));
        word = 0;
      } else if (w == last / 64) {
        const std::uint64_t low =
            last % 64 == 63 ? ~std::uint64_t{0} : (std::uint64_t{2} << (last % 64)) - 1;
        removed += static_cast<std::uint32_t>(std::popcount(word & low));
        word &= ~low;
      }
      // A run begins at each 1 whose lower neighbour is 0.
      const std::uint64_t carry = w > 0 ? (*words_)[w - 1] >> 63 : 0;
      runs += static_cast<std::uint32_t>(std::popcount(word & ~(word << 1 | carry)));
    }
    run_count_ = static_cast<std::uint16_t>(runs);
    count_ = static_cast<std::uint16_t>(count_ - removed);
    if (run_count_ <= kFewRuns) to_runs();
    return removed;
  }
  std::size_t gone = 0;
  for (Run& run : runs_) {
    if (run.first > last) break;
    if (run.last > last) {
      removed += last - run.first + 1U;
      run.first = static_cast<std::uint16_t>(last + 1);
      break;
    }
    removed += run.last - run.first + 1U;
    ++gone;
  }
  runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(gone));
  count_ = static_cast<std::uint16_t>(count_ - removed);
  return removed;
}

bool EntrySet::Chunk::erase(std::uint32_t i) {
  if (!contains(i)) return false;
  --count_;
  if (words_) {
    const bool left = i > 0 && contains(i - 1);
    const bool right = i + 1 < kChunkSize && contains(i + 1);
    (*words_)[i / 64] &= ~(std::uint64_t{1} << (i % 64));
    run_count_ = static_cast<std::uint16_t>(run_count_ - 1 + (left ? 1 : 0) + (right ? 1 : 0));
    if (run_count_ <= kFewRuns) to_runs();
    return true;
  }
  const auto at = runs_.begin() + static_cast<std::ptrdiff_t>(run_at_or_after(i));
  if (at->first == at->last) {
    runs_.erase(at);
  } else if (at->first == i) {
    ++at->first;
  } else if (at->last == i) {
    --at->last;
  } else {
    const Run upper{static_cast<std::uint16_t>(i + 1), at->last};
    at->last = static_cast<std::uint16_t>(i - 1);
    runs_.insert(at + 1, upper);
    if (runs_.size() > kMaxRuns) to_words();
  }
  return true;
}

std::uint32_t EntrySet::Chunk::next_missing(std::uint32_t i) const {
  if (!words_) {
    const std::size_t at = run_at_or_after(i);
    return at < runs_.size() && runs_[at].first <= i ? runs_[at].last + 1U : i;
  }
  for (std::uint32_t w = i / 64; w < words_->size(); ++w) {
    std::uint64_t missing = ~(*words_)[w];
    if (w == i / 64) missing &= ~std::uint64_t{0} << (i % 64);
    if (missing != 0) return w * 64 + static_cast<std::uint32_t>(std::countr_zero(missing));
  }
  return kChunkSize;
}

std::uint32_t EntrySet::Chunk::next_present(std::uint32_t i) const {
  if (!words_) {
    const std::size_t at = run_at_or_after(i);
    return at < runs_.size() ? std::max<std::uint32_t>(i, runs_[at].first) : kChunkSize;
  }
  for (std::uint32_t w = i / 64; w < words_->size(); ++w) {
    std::uint64_t present = (*words_)[w];
    if (w == i / 64) present &= ~std::uint64_t{0} << (i % 64);
    if (present != 0) return w * 64 + static_cast<std::uint32_t>(std::countr_zero(present));
  }
  return kChunkSize;
}

std::size_t EntrySet::Chunk::memory_bytes() const {
  return runs_.capacity() * sizeof(Run) + (words_ ? sizeof(Words) : 0);
}

void EntrySet::Chunk::to_words() {
  words_ = std::make_unique<Words>();
  for (const Run& run : runs_) {
    for (std::uint32_t i = run.first; i <= run.last; ++i)
      (*words_)[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  run_count_ = static_cast<std::uint16_t>(runs_.size());
  runs_ = {};
}

void EntrySet::Chunk::to_runs() {
  std::vector<Run> runs;
  runs.reserve(run_count_);
  for (std::uint32_t i = next_present(0); i < kChunkSize;) {
    const std::uint32_t end = next_missing(i);
    runs.push_back(Run{static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(end - 1)});
    i = end < kChunkSize ? next_present(end) : kChunkSize;
  }
  runs_ = std::move(runs);
  words_.reset();
}

// ---- the set ----

bool EntrySet::insert(EntryId entry) {
  Chunk& chunk = chunks_[entry >> kChunkBits];
  if (!chunk.insert(static_cast<std::uint32_t>(entry) & (kChunkSize - 1))) return false;
  ++size_;
  ranges_ += 1 - (entry > 0 && contains(entry - 1) ? 1 : 0) - (contains(entry + 1) ? 1 : 0);
  return true;
}

void EntrySet::insert_range(EntryId first, EntryId last) {
  // All runs that touch [first - 1, last + 1] become one.
  std::int64_t joined = 0;
  for (EntryId at = next_present(std::max<EntryId>(first - 1, 0)); at >= 0 && at <= last + 1;) {
    ++joined;
    at = next_present(next_missing(at));
  }
  for (EntryId at = first; at <= last;) {
    const EntryId chunk_end = ((at >> kChunkBits) + 1) << kChunkBits;
    const EntryId until = std::min(last, chunk_end - 1);
    size_ += chunks_[at >> kChunkBits].insert_range(
        static_cast<std::uint32_t>(at) & (kChunkSize - 1),
        static_cast<std::uint32_t>(until) & (kChunkSize - 1));
    at = until + 1;
  }
  ranges_ += 1 - joined;
}

bool EntrySet::erase(EntryId entry) {
  const auto at = chunks_.find(entry >> kChunkBits);
  if (at == chunks_.end() ||
      !at->second.erase(static_cast<std::uint32_t>(entry) & (kChunkSize - 1))) {
    return false;
  }
  if (at->second.empty()) chunks_.erase(at);
  --size_;
  ranges_ += (entry > 0 && contains(entry - 1) ? 1 : 0) + (contains(entry + 1) ? 1 : 0) - 1;
  return true;
}

bool EntrySet::contains(EntryId entry) const {
  const auto at = chunks_.find(entry >> kChunkBits);
  return at != chunks_.end() &&
         at->second.contains(static_cast<std::uint32_t>(entry) & (kChunkSize - 1));
}

EntryId EntrySet::next_missing(EntryId from) const {
  auto at = chunks_.find(from >> kChunkBits);
  std::uint32_t i = static_cast<std::uint32_t>(from) & (kChunkSize - 1);
  EntryId key = from >> kChunkBits;
  for (; at != chunks_.end() && at->first == key; ++at, ++key, i = 0) {
    i = at->second.next_missing(i);
    if (i < kChunkSize) break;
  }
  return (key << kChunkBits) + (i < kChunkSize ? i : 0);
}

EntryId EntrySet::next_present(EntryId from) const {
  auto at = chunks_.lower_bound(from >> kChunkBits);
  if (at == chunks_.end()) return -1;
  std::uint32_t i =
      at->first == from >> kChunkBits ? static_cast<std::uint32_t>(from) & (kChunkSize - 1) : 0;
  for (; at != chunks_.end(); ++at, i = 0) {
    i = at->second.next_present(i);
    if (i < kChunkSize) return (at->first << kChunkBits) + i;
  }
  return -1;
}

std::int64_t EntrySet::erase_through(EntryId last) {
  std::int64_t runs_gone = 0;
  for (EntryId first = next_present(0); first >= 0 && first <= last;) {
    const EntryId end = next_missing(first);
    if (end - 1 > last) break;  // cut, but a run still
    ++runs_gone;
    first = next_present(end);
  }
  std::int64_t removed = 0;
  while (!chunks_.empty()) {
    const auto at = chunks_.begin();
    const EntryId base = at->first << kChunkBits;
    if (base > last) break;
    const EntryId within = std::min<EntryId>(last - base, kChunkSize - 1);
    removed += at->second.erase_through(static_cast<std::uint32_t>(within));
    if (!at->second.empty()) break;
    chunks_.erase(at);
  }
  size_ -= removed;
  ranges_ -= runs_gone;
  return removed;
}

EntryId EntrySet::largest() const {
  if (chunks_.empty()) return -1;
  const auto& [key, chunk] = *chunks_.rbegin();
  EntryId largest = -1;
  for (std::uint32_t i = chunk.next_present(0); i < kChunkSize;) {
    const std::uint32_t end = chunk.next_missing(i);
    largest = (key << kChunkBits) + end - 1;
    i = end < kChunkSize ? chunk.next_present(end) : kChunkSize;
  }
  return largest;
}

std::size_t EntrySet::memory_bytes() const {
  std::size_t bytes = 0;
  // 48: what a map node and its heap block take beside the value.
  for (const auto& [key, chunk] : chunks_) bytes += sizeof(chunk) + 48 + chunk.memory_bytes();
  return bytes;
}

}  // namespace geminga
