// The newest segment in use, noted in a file of its own when its first record is durable.
//
// A log looks whole without its newest segment, and after a crash there is no list of all
// (log_clean_list.h): the note tells. It is written beside the log's flushes, so it may be one
// segment behind, never ahead. Bytes in docs/format/log.md. Blocking calls, for the thread that
// does the log's file work.
#pragma once

#include <optional>

#include "base/status.h"
#include "ledger/log_clean_list.h"
#include "ledger/log_file.h"

namespace geminga {

inline constexpr char kNewestNote[] = "NEWEST";

// Durable when it returns OK. The note before this one stays readable until then.
Status note_newest_segment(LogFolder& folder, ListedSegment newest);
// What the file says; empty if it holds no whole note (it was torn when it was first written). The
// file exists.
Result<std::optional<ListedSegment>> read_newest_note(LogFolder& folder);

}  // namespace geminga
