// The segments in use, listed in a file at a clean shutdown and compared at the next start.
//
// A log looks whole without its newest segment, and a log without any looks new: its ids would be
// given out again. After a clean shutdown the list tells; after a crash there is none. Bytes in
// docs/format/log.md. Blocking calls, for the thread that opens or closes the log.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ledger/log_file.h"

namespace geminga {

inline constexpr char kCleanList[] = "CLEAN";

struct ListedSegment {
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
};

// The text of a list: a title, a line a segment, a checksum; and back, if `text` begins with a
// whole one that is followed by nothing but zeros.
std::string segment_list_text(std::span<const ListedSegment> segments);
std::optional<std::vector<ListedSegment>> parse_segment_list(std::string_view text);

// Durable when it returns OK.
Status write_clean_list(LogFolder& folder, std::span<const ListedSegment> segments);
// Corruption if it is cut short or changed.
Result<std::vector<ListedSegment>> read_clean_list(LogFolder& folder);

}  // namespace geminga
