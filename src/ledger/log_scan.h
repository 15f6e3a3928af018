// Walks over the records of a block in memory or of a segment on disk. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "ledger/log_file.h"
#include "ledger/log_format.h"

namespace geminga {

// A part of a file in memory that moves with its reader, so that a segment is read in order without
// being in memory as a whole. Blocking.
class FileWindow {
 public:
  explicit FileWindow(LogFile& file) : file_(file), memory_(kBytes) {}
  // Bytes [offset, offset + size); valid until the next call. Corruption if the file is shorter.
  Result<const std::byte*> at(std::uint64_t offset, std::size_t size);

 private:
  static constexpr std::size_t kBytes = 1 << 20;
  LogFile& file_;
  AlignedMemory memory_;
  std::uint64_t begin_ = 0;
  std::size_t valid_ = 0;
};

// Steps from record to record in [begin, end) of a segment; `begin` is aligned.
class RecordWalk {
 public:
  RecordWalk(std::span<const std::byte> bytes, std::uint64_t begin, std::uint32_t seed,
             std::uint32_t alignment)
      : memory_(bytes.data()),
        begin_(begin),
        end_(begin + bytes.size()),
        seed_(seed),
        alignment_(alignment),
        at_(begin),
        next_(begin) {}
  RecordWalk(FileWindow& window, std::uint64_t begin, std::uint64_t end, std::uint32_t seed,
             std::uint32_t alignment)
      : window_(&window),
        begin_(begin),
        end_(end),
        seed_(seed),
        alignment_(alignment),
        at_(begin),
        next_(begin) {}

  enum class Step {
    Record,  // header() and payload() are there; the header's checksum is right
    Bad,     // neither a record nor padding at offset()
    End,     // no more bytes, or the file cannot be read: error()
  };
  // The next record behind this one; skips padding. After Bad: goes on with resync().
  Step next();
  // Moves to the next aligned offset behind this one where a valid header stands; End if there is
  // none.
  Step resync();

  const log_format::RecordHeader& header() const { return header_; }
  std::uint64_t offset() const { return at_; }  // in the segment
  std::uint32_t offset_in_block() const { return static_cast<std::uint32_t>(at_ - begin_); }
  // Valid until the next step.
  std::span<const std::byte> payload() const {
    return {record_ + log_format::kRecordHeader, header_.length};
  }
  bool payload_valid() const { return log_format::payload_valid(header_, payload(), seed_, at_); }
  const Status& error() const { return error_; }

 private:
  const std::byte* bytes(std::uint64_t offset, std::size_t size);
  bool try_header();
  Step step_or_error(Step step) { return error_ ? step : Step::End; }

  const std::byte* memory_ = nullptr;
  FileWindow* window_ = nullptr;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  const std::uint32_t seed_;
  const std::uint32_t alignment_;
  std::uint64_t at_;    // the record, or where one should be
  std::uint64_t next_;  // behind it
  const std::byte* record_ = nullptr;
  log_format::RecordHeader header_;
  Status error_;
};

}  // namespace geminga
