#include "ledger/log_scan.h"

#include <fmt/format.h>

#include <algorithm>

namespace geminga {

namespace {
constexpr std::uint64_t kPage = 4096;
}  // namespace

Result<const std::byte*> FileWindow::at(std::uint64_t offset, std::size_t size) {
  if (offset >= begin_ && offset + size <= begin_ + valid_) {
    return static_cast<const std::byte*>(memory_.span().data() + (offset - begin_));
  }
  begin_ = offset / kPage * kPage;
  valid_ = 0;
  const std::uint64_t need = log_format::align_up(offset + size - begin_, kPage);
  if (need > memory_.span().size()) memory_ = AlignedMemory(static_cast<std::size_t>(need));
  GM_ASSIGN_OR_RETURN(valid_, file_.read(begin_, memory_.span()));
  if (offset + size > begin_ + valid_) {
    return Status::Corruption(
        fmt::format("{} ends at offset {}, too early", file_.path(), begin_ + valid_));
  }
  return static_cast<const std::byte*>(memory_.span().data() + (offset - begin_));
}

const std::byte* RecordWalk::bytes(std::uint64_t offset, std::size_t size) {
  if (window_ == nullptr) return memory_ + (offset - begin_);
  auto read = window_->at(offset, size);
  if (read) return *read;
  error_ = read.status();
  return nullptr;
}

bool RecordWalk::try_header() {
  if (end_ - at_ < log_format::kRecordHeader) return false;
  const std::byte* p = bytes(at_, log_format::kRecordHeader);
  if (p == nullptr) return false;
  const auto header = log_format::decode_record({p, log_format::kRecordHeader}, seed_, at_);
  if (!header || header->bytes() > end_ - at_) return false;
  record_ = bytes(at_, static_cast<std::size_t>(header->bytes()));
  if (record_ == nullptr) return false;
  header_ = *header;
  next_ = at_ + header_.bytes();
  return true;
}

RecordWalk::Step RecordWalk::next() {
  at_ = next_;
  if (at_ >= end_) return Step::End;
  if (try_header()) return Step::Record;
  const std::uint64_t boundary = std::min(log_format::align_up(at_, alignment_), end_);
  if (boundary == at_) return step_or_error(Step::Bad);
  const std::byte* padding = bytes(at_, static_cast<std::size_t>(boundary - at_));
  if (padding == nullptr) return Step::End;
  if (!log_format::all_zero({padding, static_cast<std::size_t>(boundary - at_)}))
    return step_or_error(Step::Bad);
  at_ = next_ = boundary;
  if (at_ >= end_) return Step::End;
  return step_or_error(try_header() ? Step::Record : Step::Bad);
}

RecordWalk::Step RecordWalk::resync() {
  while (error_) {
    at_ = log_format::align_up(at_ + 1, alignment_);
    if (at_ >= end_) break;
    if (try_header()) return Step::Record;
  }
  at_ = next_ = end_;
  return Step::End;
}

}  // namespace geminga
