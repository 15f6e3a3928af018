// Walks over the records of a block or a segment in memory. No state; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ledger/log_format.h"

namespace geminga {

// Steps from record to record in `bytes`, which begin at the aligned offset `begin` of a segment.
class RecordWalk {
 public:
  RecordWalk(std::span<const std::byte> bytes, std::uint64_t begin, std::uint32_t seed,
             std::uint32_t alignment)
      : bytes_(bytes), begin_(begin), seed_(seed), alignment_(alignment) {}

  enum class Step {
    Record,  // header() and payload() are valid; so is the header's checksum
    Bad,     // neither a record nor padding at offset()
    End,     // no more bytes
  };
  // The next record behind this one; skips padding. After Bad: goes on with resync().
  Step next();
  // Moves to the next aligned offset behind this one where a valid header stands; End if there is
  // none.
  Step resync();

  const log_format::RecordHeader& header() const { return header_; }
  std::uint64_t offset() const { return begin_ + at_; }  // in the segment
  std::uint32_t offset_in_block() const { return static_cast<std::uint32_t>(at_); }
  std::span<const std::byte> payload() const {
    return bytes_.subspan(at_ + log_format::kRecordHeader, header_.length);
  }
  bool payload_valid() const {
    return log_format::payload_valid(header_, payload(), seed_, offset());
  }

 private:
  bool try_header();

  std::span<const std::byte> bytes_;
  const std::uint64_t begin_;
  const std::uint32_t seed_;
  const std::uint32_t alignment_;
  std::size_t at_ = 0;    // the record, or where one should be
  std::size_t next_ = 0;  // behind it
  log_format::RecordHeader header_;
};

}  // namespace geminga
