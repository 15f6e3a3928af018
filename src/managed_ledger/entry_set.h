// A set of entry ids of one ledger, compact both when it is a few long runs and when it is riddled
// with holes: what a cursor remembers of entries acknowledged out of order, and the delayed index
// of entries held back. Pure data.
//
// The ids are cut into chunks of 4096. A chunk holds its ids as a sorted array of runs (4 bytes
// each) while there are few, and as a bit set (512 bytes) when there are more than kMaxRuns; it
// goes back to runs when they have grown together. So a random hole costs at most about 4 bytes,
// and an eighth of a byte an entry at worst. insert and contains: O(log chunks) plus at most 512
// bytes moved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/position.h"
#include "base/status.h"

namespace geminga {

class EntrySet {
 public:
  // False if it was in the set.
  bool insert(EntryId entry);
  // All of [first, last]; 0 <= first <= last.
  void insert_range(EntryId first, EntryId last);
  // False if it was not in the set.
  bool erase(EntryId entry);
  // All of `other` too.
  void merge(const EntrySet& other);
  bool contains(EntryId entry) const;
  // The first id >= `from` that is not in the set.
  EntryId next_missing(EntryId from) const;
  // The first id >= `from` that is in the set, -1 if there is none.
  EntryId next_present(EntryId from) const;
  // Removes all ids <= `last`; how many there were.
  std::int64_t erase_through(EntryId last);

  bool empty() const { return size_ == 0; }
  std::int64_t size() const { return size_; }
  // Maximal runs of consecutive ids.
  std::int64_t ranges() const { return ranges_; }
  // -1 if empty.
  EntryId largest() const;
  std::size_t memory_bytes() const;

  // The bytes of the set, in parts of at most about `part_bytes` each
  // (docs/format/delayed-index.md).
  std::vector<std::string> encode(std::size_t part_bytes) const;
  // Adds what encode() gave. Corruption: they are no such bytes; the set may then hold a part.
  Status merge_encoded(std::string_view bytes);

  // Calls f(first, last) for each maximal run in ascending order, until it returns false.
  template <typename F>
  void for_each_range(F f) const {
    for (EntryId first = next_present(0); first >= 0;) {
      const EntryId end = next_missing(first);
      if (!f(first, end - 1)) return;
      first = next_present(end);
    }
  }

 private:
  static constexpr int kChunkBits = 12;
  static constexpr std::uint32_t kChunkSize = 1U << kChunkBits;
  static constexpr std::size_t kMaxRuns = 128;  // beyond: a bit set, which takes as much memory
  static constexpr std::size_t kFewRuns = 48;   // below: back to runs

  class Chunk {
   public:
    bool contains(std::uint32_t i) const;
    bool insert(std::uint32_t i);  // false if present
    // Returns how many were new.
    std::uint32_t insert_range(std::uint32_t first, std::uint32_t last);
    bool erase(std::uint32_t i);  // false if not present
    void merge(const Chunk& other);
    std::uint32_t count() const { return count_; }
    std::uint32_t run_count() const {
      return words_ ? run_count_ : static_cast<std::uint32_t>(runs_.size());
    }
    void append_to(std::string& bytes) const;
    // False: malformed. Takes what it reads off `bytes`. The chunk is empty.
    bool read_from(std::string_view& bytes);
    std::uint32_t erase_through(std::uint32_t last);    // how many there were
    std::uint32_t next_missing(std::uint32_t i) const;  // kChunkSize if none
    std::uint32_t next_present(std::uint32_t i) const;  // kChunkSize if none
    bool empty() const { return count_ == 0; }
    std::size_t memory_bytes() const;

   private:
    struct Run {
      std::uint16_t first, last;
    };
    using Words = std::array<std::uint64_t, kChunkSize / 64>;

    // The first run that ends at or after `i`.
    std::size_t run_at_or_after(std::uint32_t i) const;
    void to_words();
    void to_runs();
    void count_words();

    std::uint16_t count_ = 0;
    std::uint16_t run_count_ = 0;  // kept while in words_; runs_.size() otherwise
    std::vector<Run> runs_;        // used while words_ is null
    std::unique_ptr<Words> words_;
  };

  void count_again();

  std::map<std::int64_t, Chunk> chunks_;  // by id >> kChunkBits, never empty ones
  std::int64_t size_ = 0;
  std::int64_t ranges_ = 0;
};

}  // namespace geminga
