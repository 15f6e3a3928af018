#include "ledger/log_segment_file.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace geminga {

std::string segment_name(std::uint32_t slot) { return fmt::format("segment-{:06}.log", slot); }

std::optional<std::uint32_t> segment_slot(const std::string& name) {
  constexpr std::string_view kPrefix = "segment-";
  constexpr std::string_view kSuffix = ".log";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size() - kSuffix.size();
  std::uint32_t slot = 0;
  const auto [at, error] = std::from_chars(begin, end, slot);
  if (error != std::errc() || at != end) return std::nullopt;
  return slot;
}

Status write_segment_header(LogFile& file, const log_format::SegmentHeader& header) {
  AlignedMemory memory(log_format::kHeaderCopy);
  log_format::encode(header, memory.span());
  const IoSlice slice{memory.span().data(), memory.span().size()};
  GM_RETURN_IF_ERROR(file.write(0, {&slice, 1}, true));
  return file.write(log_format::kHeaderCopy, {&slice, 1}, true);
}

}  // namespace geminga
