// The files of a log's segments: their names and their headers. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "ledger/log_file.h"
#include "ledger/log_format.h"

namespace geminga {

std::string segment_name(std::uint32_t slot);
// The slot of a file name, or nothing.
std::optional<std::uint32_t> segment_slot(const std::string& name);
// Writes both copies of the header, one after the other.
Status write_segment_header(LogFile& file, const log_format::SegmentHeader& header);

}  // namespace geminga
