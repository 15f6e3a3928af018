#include "ledger/log_scan.h"

#include <algorithm>

namespace geminga {

bool RecordWalk::try_header() {
  const auto header = log_format::decode_record(bytes_.subspan(at_), seed_, begin_ + at_);
  if (!header || header->bytes() > bytes_.size() - at_) return false;
  header_ = *header;
  next_ = at_ + static_cast<std::size_t>(header_.bytes());
  return true;
}

RecordWalk::Step RecordWalk::next() {
  at_ = next_;
  if (at_ >= bytes_.size()) return Step::End;
  if (try_header()) return Step::Record;
  const std::size_t boundary = std::min<std::size_t>(
      static_cast<std::size_t>(log_format::align_up(begin_ + at_, alignment_) - begin_),
      bytes_.size());
  if (boundary == at_ || !log_format::all_zero(bytes_.subspan(at_, boundary - at_)))
    return Step::Bad;
  at_ = boundary;
  if (at_ >= bytes_.size()) {
    next_ = at_;
    return Step::End;
  }
  if (try_header()) return Step::Record;
  return Step::Bad;
}

RecordWalk::Step RecordWalk::resync() {
  while (true) {
    const std::uint64_t boundary = log_format::align_up(begin_ + at_ + 1, alignment_) - begin_;
    if (boundary >= bytes_.size()) {
      at_ = next_ = bytes_.size();
      return Step::End;
    }
    at_ = static_cast<std::size_t>(boundary);
    if (try_header()) return Step::Record;
  }
}

}  // namespace geminga
