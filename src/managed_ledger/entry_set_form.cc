// The stored form of an EntrySet, and sets joined chunk by chunk.
#include <bit>
#include <cstring>

#include "base/endian.h"
#include "managed_ledger/entry_set.h"
#include "managed_ledger/varint.h"

namespace geminga {

void EntrySet::Chunk::count_words() {
  std::uint32_t count = 0;
  std::uint32_t runs = 0;
  for (std::size_t w = 0; w < words_->size(); ++w) {
    const std::uint64_t word = (*words_)[w];
    const std::uint64_t carry = w > 0 ? (*words_)[w - 1] >> 63 : 0;
    count += static_cast<std::uint32_t>(std::popcount(word));
    runs += static_cast<std::uint32_t>(std::popcount(word & ~(word << 1 | carry)));
  }
  count_ = static_cast<std::uint16_t>(count);
  run_count_ = static_cast<std::uint16_t>(runs);
  if (runs <= kFewRuns) to_runs();
}

void EntrySet::Chunk::merge(const Chunk& other) {
  if (!words_) to_words();
  if (other.words_) {
    for (std::size_t w = 0; w < words_->size(); ++w) (*words_)[w] |= (*other.words_)[w];
  } else {
    for (const Run& run : other.runs_) {
      for (std::uint32_t i = run.first; i <= run.last; ++i)
        (*words_)[i / 64] |= std::uint64_t{1} << (i % 64);
    }
  }
  count_words();
}

void EntrySet::Chunk::append_to(std::string& bytes) const {
  if (words_) {
    put_varint(bytes, 0);
    for (const std::uint64_t word : *words_) {
      char raw[8];
      store_le64(raw, word);
      bytes.append(raw, sizeof raw);
    }
    return;
  }
  put_varint(bytes, runs_.size());
  std::uint32_t end = 0;
  for (const Run& run : runs_) {
    put_varint(bytes, run.first - end);
    put_varint(bytes, static_cast<std::uint32_t>(run.last - run.first));
    end = run.last + 1U;
  }
}

bool EntrySet::Chunk::read_from(std::string_view& bytes) {
  std::uint64_t runs = 0;
  if (!get_varint(bytes, runs)) return false;
  if (runs == 0) {
    words_ = std::make_unique<Words>();
    if (bytes.size() < sizeof(Words)) return false;
    for (std::uint64_t& word : *words_) {
      word = load_le64(bytes.data());
      bytes.remove_prefix(8);
    }
    count_words();
    return count_ > 0;
  }
  if (runs > kMaxRuns) return false;
  runs_.reserve(runs);
  std::uint64_t end = 0;
  std::uint32_t count = 0;
  for (; runs > 0; --runs) {
    std::uint64_t gap = 0;
    std::uint64_t more = 0;
    if (!get_varint(bytes, gap) || !get_varint(bytes, more)) return false;
    if (gap >= kChunkSize || more >= kChunkSize || end + gap + more >= kChunkSize) return false;
    if (gap == 0 && end > 0) return false;  // would be one run with the last
    runs_.push_back(
        Run{static_cast<std::uint16_t>(end + gap), static_cast<std::uint16_t>(end + gap + more)});
    count += static_cast<std::uint32_t>(more + 1);
    end += gap + more + 1;
  }
  count_ = static_cast<std::uint16_t>(count);
  return true;
}

void EntrySet::count_again() {
  size_ = 0;
  ranges_ = 0;
  const Chunk* before = nullptr;
  std::int64_t key_before = 0;
  for (const auto& [key, chunk] : chunks_) {
    size_ += chunk.count();
    ranges_ += chunk.run_count();
    const bool joined = before != nullptr && key == key_before + 1 &&
                        before->contains(kChunkSize - 1) && chunk.contains(0);
    if (joined) --ranges_;
    before = &chunk;
    key_before = key;
  }
}

void EntrySet::merge(const EntrySet& other) {
  for (const auto& [key, chunk] : other.chunks_) chunks_[key].merge(chunk);
  count_again();
}

std::vector<std::string> EntrySet::encode(std::size_t part_bytes) const {
  std::vector<std::string> parts;
  std::int64_t key_before = 0;
  for (const auto& [key, chunk] : chunks_) {
    if (parts.empty() || parts.back().size() >= part_bytes) {
      parts.emplace_back();
      key_before = 0;
    }
    put_varint(parts.back(), static_cast<std::uint64_t>(key - key_before));
    chunk.append_to(parts.back());
    key_before = key;
  }
  return parts;
}

Status EntrySet::merge_encoded(std::string_view bytes) {
  std::int64_t key = 0;
  bool sound = true;
  while (sound && !bytes.empty()) {
    std::uint64_t step = 0;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
    Chunk chunk;
    sound = get_varint(bytes, step) && step < kMost &&
            static_cast<std::uint64_t>(key) + step < kMost && chunk.read_from(bytes);
    if (!sound) break;
    key += static_cast<std::int64_t>(step);
    const auto [at, added] = chunks_.try_emplace(key);
    if (added) {
      at->second = std::move(chunk);
    } else {
      at->second.merge(chunk);
    }
  }
  count_again();
  return sound ? Status::ok() : Status::Corruption("a stored set of entries is malformed");
}

}  // namespace geminga
