#include "ledger/memory_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

namespace geminga {

namespace {
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSector = 512;
}  // namespace

void MemoryBytes::resize(std::uint64_t size) {
  size_ = size;
  pages_.resize(static_cast<std::size_t>((size + kPage - 1) / kPage));
}

void MemoryBytes::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset + bytes.size() > size_) resize(offset + bytes.size());
  while (!bytes.empty()) {
    auto& page = pages_[static_cast<std::size_t>(offset / kPage)];
    if (!page) {
      page = std::make_shared<Page>();
      page->fill(std::byte{0});
    } else if (page.use_count() > 1) {
      page = std::make_shared<Page>(*page);
    }
    const auto within = static_cast<std::size_t>(offset % kPage);
    const std::size_t count = std::min(bytes.size(), kPage - within);
    std::memcpy(page->data() + within, bytes.data(), count);
    bytes = bytes.subspan(count);
    offset += count;
  }
}

std::size_t MemoryBytes::read(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset >= size_) return 0;
  into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), size_ - offset)));
  std::size_t done = 0;
  while (done < into.size()) {
    const auto within = static_cast<std::size_t>((offset + done) % kPage);
    const std::size_t count = std::min(into.size() - done, kPage - within);
    const auto& page = pages_[static_cast<std::size_t>((offset + done) / kPage)];
    if (page) {
      std::memcpy(into.data() + done, page->data() + within, count);
    } else {
      std::memset(into.data() + done, 0, count);
    }
    done += count;
  }
  return done;
}

class MemoryFile final : public LogFile {
 public:
  MemoryFile(std::shared_ptr<MemoryFolder> folder, std::shared_ptr<MemoryFolder::Inode> inode,
             std::string name)
      : folder_(std::move(folder)), inode_(std::move(inode)), name_(std::move(name)) {}

  Status write(std::uint64_t offset, std::span<const IoSlice> slices, bool sync) override {
    const std::size_t begin = folder_->begin_write(*this, offset, slices);
    return folder_->end_write(*this, begin, sync);
  }
  Status sync() override {
    GM_RETURN_IF_ERROR(folder_->fault("sync", name_));
    FileEvent event;
    event.kind = FileEvent::Kind::Sync;
    event.file = inode_->id;
    folder_->record(std::move(event));
    return Status::ok();
  }
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    GM_RETURN_IF_ERROR(folder_->fault("read", name_));
    return inode_->bytes.read(offset, into);
  }
  Result<std::uint64_t> size() override { return inode_->bytes.size(); }
  int descriptor() const override { return -1; }
  const std::string& path() const override { return name_; }

  MemoryFolder::Inode& inode() { return *inode_; }
  const std::string& name() const { return name_; }

 private:
  const std::shared_ptr<MemoryFolder> folder_;
  const std::shared_ptr<MemoryFolder::Inode> inode_;
  const std::string name_;
};

Status MemoryFolder::fault(std::string_view call, const std::string& name) {
  return fault_ ? fault_(call, name) : Status::ok();
}

std::size_t MemoryFolder::record(FileEvent event) {
  if (recording_) {
    trace_.push_back(std::move(event));
    return trace_.size() - 1;
  }
  if (event.kind == FileEvent::Kind::WriteBegins) {
    running_[next_running_] = std::move(event);
    return next_running_++;
  }
  return 0;
}

std::size_t MemoryFolder::begin_write(LogFile& file, std::uint64_t offset,
                                      std::span<const IoSlice> slices) {
  FileEvent event;
  event.kind = FileEvent::Kind::WriteBegins;
  event.file = static_cast<MemoryFile&>(file).inode().id;
  event.offset = offset;
  for (const IoSlice& slice : slices)
    event.data.insert(event.data.end(), slice.data, slice.data + slice.size);
  return record(std::move(event));
}

Status MemoryFolder::end_write(LogFile& file, std::size_t begin, bool sync) {
  auto& memory = static_cast<MemoryFile&>(file);
  GM_RETURN_IF_ERROR(fault("write", memory.name()));
  const FileEvent& started = recording_ ? trace_[begin] : running_.at(begin);
  memory.inode().bytes.write(started.offset, started.data);
  running_.erase(begin);
  FileEvent event;
  event.kind = FileEvent::Kind::WriteEnds;
  event.file = memory.inode().id;
  event.begin = begin;
  event.sync = sync;
  record(std::move(event));
  return Status::ok();
}

Result<std::vector<std::string>> MemoryFolder::list() {
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) names.push_back(name);
  return names;
}

Result<std::shared_ptr<LogFile>> MemoryFolder::open(const std::string& name, bool) {
  GM_RETURN_IF_ERROR(fault("open", name));
  auto found = names_.find(name);
  if (found == names_.end()) return Status::NotFound("cannot open " + name);
  return std::shared_ptr<LogFile>(
      std::make_shared<MemoryFile>(shared_from_this(), found->second, name));
}

Result<std::shared_ptr<LogFile>> MemoryFolder::create(const std::string& name,
                                                      std::uint64_t bytes) {
  GM_RETURN_IF_ERROR(fault("create", name));
  if (bytes > free_bytes_) return Status::DiskFull("no space left for " + name);
  free_bytes_ -= bytes;
  auto inode = std::make_shared<Inode>();
  inode->id = next_id_++;
  inode->bytes.resize(bytes);
  names_[name] = inode;
  FileEvent event;
  event.kind = FileEvent::Kind::Create;
  event.file = inode->id;
  event.name = name;
  event.size = bytes;
  record(std::move(event));
  return std::shared_ptr<LogFile>(std::make_shared<MemoryFile>(shared_from_this(), inode, name));
}

Status MemoryFolder::rename(const std::string& from, const std::string& to) {
  GM_RETURN_IF_ERROR(fault("rename", from));
  auto found = names_.find(from);
  if (found == names_.end()) return Status::NotFound("cannot rename " + from);
  names_[to] = found->second;
  names_.erase(from);
  FileEvent event;
  event.kind = FileEvent::Kind::Rename;
  event.name = from;
  event.to = to;
  record(std::move(event));
  return Status::ok();
}

Status MemoryFolder::remove(const std::string& name) {
  GM_RETURN_IF_ERROR(fault("remove", name));
  auto found = names_.find(name);
  if (found == names_.end()) return Status::NotFound("cannot delete " + name);
  free_bytes_ += found->second->bytes.size();
  names_.erase(found);
  FileEvent event;
  event.kind = FileEvent::Kind::Remove;
  event.name = name;
  record(std::move(event));
  return Status::ok();
}

Status MemoryFolder::sync() {
  FileEvent event;
  event.kind = FileEvent::Kind::FolderSync;
  record(std::move(event));
  return Status::ok();
}

MemoryBytes* MemoryFolder::bytes_of(const std::string& name) {
  auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second->bytes;
}

namespace {

// Lets the write arrive as the choice says.
void arrive(MemoryBytes& bytes, const FileEvent& write, CrashChoice choice,
            std::mt19937_64& random) {
  if (choice.mode == CrashChoice::Mode::Nothing) return;
  const std::uint64_t kind = random() % 4;  // of a torn one: all, none, a front part, any sectors
  const bool whole = choice.mode == CrashChoice::Mode::Everything || kind == 0;
  if (whole) {
    bytes.write(write.offset, write.data);
    return;
  }
  if (kind == 1) return;
  const std::size_t sectors = write.data.size() / kSector;
  const std::size_t front = sectors == 0 ? 0 : static_cast<std::size_t>(random() % (sectors + 1));
  for (std::size_t i = 0; i < sectors; ++i) {
    const bool comes = kind == 2 ? i < front : random() % 2 == 0;
    if (comes) {
      bytes.write(write.offset + i * kSector, std::span(write.data).subspan(i * kSector, kSector));
    }
  }
}

}  // namespace

std::shared_ptr<MemoryFolder> MemoryFolder::after_crash(const std::vector<FileEvent>& trace,
                                                        std::size_t events, CrashChoice choice,
                                                        const MemoryFolder* base) {
  std::mt19937_64 random(choice.seed);
  auto folder = make();
  std::map<int, std::shared_ptr<Inode>> inodes;
  if (base != nullptr) inodes = folder->copy_names_from(*base);
  std::map<int, std::vector<std::size_t>>
      ended;  // writes that have ended and are not durable, by file
  std::set<std::size_t> running;
  std::vector<std::size_t> names;  // changes of names that are not durable
  const auto apply_name = [&](const FileEvent& event) {
    switch (event.kind) {
      case FileEvent::Kind::Create: folder->names_[event.name] = inodes[event.file]; break;
      case FileEvent::Kind::Rename:
        folder->names_[event.to] = folder->names_[event.name];
        folder->names_.erase(event.name);
        break;
      case FileEvent::Kind::Remove: folder->names_.erase(event.name); break;
      default: break;
    }
  };
  for (std::size_t i = 0; i < events; ++i) {
    const FileEvent& event = trace[i];
    switch (event.kind) {
      case FileEvent::Kind::Create: {
        auto inode = std::make_shared<Inode>();
        inode->id = event.file;
        inode->bytes.resize(event.size);
        inodes[event.file] = inode;
        names.push_back(i);
        break;
      }
      case FileEvent::Kind::WriteBegins: running.insert(i); break;
      case FileEvent::Kind::WriteEnds:
        running.erase(event.begin);
        if (event.sync) {
          inodes[event.file]->bytes.write(trace[event.begin].offset, trace[event.begin].data);
        } else {
          ended[event.file].push_back(event.begin);
        }
        break;
      case FileEvent::Kind::Sync:
        for (const std::size_t begin : ended[event.file]) {
          inodes[event.file]->bytes.write(trace[begin].offset, trace[begin].data);
        }
        ended[event.file].clear();
        break;
      case FileEvent::Kind::Rename:
      case FileEvent::Kind::Remove: names.push_back(i); break;
      case FileEvent::Kind::FolderSync:
        for (const std::size_t at : names) apply_name(trace[at]);
        names.clear();
        break;
    }
  }
  for (const auto& [file, begins] : ended) {
    for (const std::size_t begin : begins)
      arrive(inodes[file]->bytes, trace[begin], choice, random);
  }
  for (const std::size_t begin : running) {
    arrive(inodes[trace[begin].file]->bytes, trace[begin], choice, random);
  }
  std::size_t arrived = 0;
  if (choice.mode == CrashChoice::Mode::Everything) arrived = names.size();
  if (choice.mode == CrashChoice::Mode::Torn)
    arrived = static_cast<std::size_t>(random() % (names.size() + 1));
  for (std::size_t i = 0; i < arrived; ++i) apply_name(trace[names[i]]);
  for (const auto& [id, inode] : inodes) folder->next_id_ = std::max(folder->next_id_, id + 1);
  return folder;
}

std::map<int, std::shared_ptr<MemoryFolder::Inode>> MemoryFolder::copy_names_from(
    const MemoryFolder& other) {
  std::map<int, std::shared_ptr<Inode>> inodes;
  for (const auto& [name, inode] : other.names_) {
    auto& copy = inodes[inode->id];
    if (!copy) copy = std::make_shared<Inode>(*inode);
    names_[name] = copy;
  }
  next_id_ = other.next_id_;
  free_bytes_ = other.free_bytes_;
  return inodes;
}

std::shared_ptr<MemoryFolder> MemoryFolder::copy() const {
  auto folder = make();
  folder->copy_names_from(*this);
  return folder;
}

std::shared_ptr<MemoryFolder> MemoryFolder::after_kill(const std::vector<FileEvent>& trace,
                                                       std::size_t events) {
  auto folder = after_crash(trace, events, {CrashChoice::Mode::Everything, 0});
  folder->trace_.assign(trace.begin(), trace.begin() + static_cast<std::ptrdiff_t>(events));
  std::set<std::size_t> running;
  for (std::size_t i = 0; i < events; ++i) {
    if (trace[i].kind == FileEvent::Kind::WriteBegins) running.insert(i);
    if (trace[i].kind == FileEvent::Kind::WriteEnds) running.erase(trace[i].begin);
  }
  for (const std::size_t begin : running) {
    FileEvent event;
    event.kind = FileEvent::Kind::WriteEnds;
    event.file = trace[begin].file;
    event.begin = begin;
    folder->trace_.push_back(std::move(event));
  }
  folder->recording_ = true;
  return folder;
}

}  // namespace geminga
