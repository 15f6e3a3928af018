#include "ledger/log_clean_list.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "ledger/log_format.h"
#include "ledger/log_segment_file.h"

namespace geminga {

namespace {

constexpr std::string_view kTitle = "segments 1\n";
constexpr std::size_t kMostBytes = 256 << 20;  // more than any log has segments for

std::string last_line(std::string_view lines) {
  return fmt::format("end {:08x}\n", crc32c(std::as_bytes(std::span(lines))));
}

// "segment-000001.log 17"
std::optional<ListedSegment> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto slot = segment_slot(std::string(line.substr(0, space)));
  ListedSegment listed;
  const char* const end = line.data() + line.size();
  const auto [at, error] = std::from_chars(line.data() + space + 1, end, listed.sequence);
  if (!slot || error != std::errc() || at != end) return std::nullopt;
  listed.slot = *slot;
  return listed;
}

}  // namespace

std::string segment_list_text(std::span<const ListedSegment> segments) {
  std::string text(kTitle);
  for (const ListedSegment& listed : segments) {
    text += fmt::format("{} {}\n", segment_name(listed.slot), listed.sequence);
  }
  text += last_line(text);
  return text;
}

std::optional<std::vector<ListedSegment>> parse_segment_list(std::string_view text) {
  if (const auto zeros = text.find('\0'); zeros != std::string_view::npos)
    text = text.substr(0, zeros);
  if (!text.starts_with(kTitle)) return std::nullopt;
  std::vector<ListedSegment> segments;
  for (std::size_t at = kTitle.size(); at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    if (text.substr(at).starts_with("end ")) {
      if (text.substr(at) != last_line(text.substr(0, at))) break;
      return segments;
    }
    const auto listed = parse_line(text.substr(at, end - at));
    if (!listed) break;
    segments.push_back(*listed);
    at = end + 1;
  }
  return std::nullopt;
}

Status write_clean_list(LogFolder& folder, std::span<const ListedSegment> segments) {
  const std::string text = segment_list_text(segments);
  AlignedMemory memory(static_cast<std::size_t>(log_format::align_up(text.size(), 4096)));
  std::memset(memory.span().data(), 0, memory.span().size());
  std::memcpy(memory.span().data(), text.data(), text.size());
  const IoSlice slice{memory.span().data(), memory.span().size()};
  const std::string unfinished = std::string(kCleanList) + ".new";
  GM_ASSIGN_OR_RETURN(const auto file, folder.create(unfinished, slice.size));
  GM_RETURN_IF_ERROR(file->write(0, {&slice, 1}, true));
  GM_RETURN_IF_ERROR(file->sync());
  GM_RETURN_IF_ERROR(folder.rename(unfinished, kCleanList));
  return folder.sync();
}

Result<std::vector<ListedSegment>> read_clean_list(LogFolder& folder) {
  const auto damaged = [&] {
    return Status::Corruption(fmt::format("{}/{} is damaged", folder.path(), kCleanList));
  };
  GM_ASSIGN_OR_RETURN(const auto file, folder.open(kCleanList, false));
  GM_ASSIGN_OR_RETURN(const auto size, file->size());
  if (size == 0 || size % 4096 != 0 || size > kMostBytes) return damaged();
  AlignedMemory memory(static_cast<std::size_t>(size));
  GM_ASSIGN_OR_RETURN(const auto got, file->read(0, memory.span()));
  auto segments = parse_segment_list({reinterpret_cast<const char*>(memory.span().data()), got});
  if (!segments) return damaged();
  return std::move(*segments);
}

}  // namespace geminga
