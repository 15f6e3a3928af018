#include "ledger/log_newest.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace geminga {

namespace {

// Two notes that take turns, each in a page of its own: a torn write leaves the other.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 2;

}  // namespace

Status note_newest_segment(LogFolder& folder, ListedSegment newest) {
  GM_ASSIGN_OR_RETURN(const auto names, folder.list());
  const bool there = std::find(names.begin(), names.end(), kNewestNote) != names.end();
  const std::string unfinished = std::string(kNewestNote) + ".new";
  std::shared_ptr<LogFile> file;
  if (there) {
    GM_ASSIGN_OR_RETURN(file, folder.open(kNewestNote, true));
  } else {
    GM_ASSIGN_OR_RETURN(file, folder.create(unfinished, kPages * kPage));
  }
  const std::string text = segment_list_text({&newest, 1});
  AlignedMemory memory(kPage);
  std::memset(memory.span().data(), 0, kPage);
  std::memcpy(memory.span().data(), text.data(), text.size());
  const IoSlice slice{memory.span().data(), kPage};
  GM_RETURN_IF_ERROR(file->write(newest.sequence % kPages * kPage, {&slice, 1}, true));
  if (there) return Status::ok();
  GM_RETURN_IF_ERROR(file->sync());
  GM_RETURN_IF_ERROR(folder.rename(unfinished, kNewestNote));
  return folder.sync();
}

Result<std::optional<ListedSegment>> read_newest_note(LogFolder& folder) {
  GM_ASSIGN_OR_RETURN(const auto file, folder.open(kNewestNote, false));
  AlignedMemory memory(kPages * kPage);
  GM_ASSIGN_OR_RETURN(const auto got, file->read(0, memory.span()));
  const std::string_view text(reinterpret_cast<const char*>(memory.span().data()), got);
  std::optional<ListedSegment> newest;
  for (std::size_t at = 0; at < text.size(); at += kPage) {
    const auto noted = parse_segment_list(text.substr(at, kPage));
    if (!noted || noted->size() != 1) continue;
    if (!newest || newest->sequence < noted->front().sequence) newest = noted->front();
  }
  return newest;
}

}  // namespace geminga
