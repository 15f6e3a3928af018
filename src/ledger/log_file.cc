#include "ledger/log_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace geminga {

namespace {

Status errno_status(const char* what, const std::string& path) {
  const int error = errno;
  const std::string text = fmt::format("cannot {} {}: {}", what, path, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return Status::DiskFull(text);
  if (error == ENOENT) return Status::NotFound(text);
  return Status::Io(text);
}

// Some sandboxes do not know the flag: then write and sync are two calls.
std::atomic<bool> dsync_works{true};

class PosixLogFile final : public LogFile {
 public:
  PosixLogFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixLogFile() override { ::close(fd_); }
  PosixLogFile(const PosixLogFile&) = delete;
  PosixLogFile& operator=(const PosixLogFile&) = delete;

  Status write(std::uint64_t offset, std::span<const IoSlice> slices, bool sync) override {
    std::array<iovec, kVectors> vectors;
    std::size_t next = 0;          // the slice to write from
    std::size_t done_of_next = 0;  // and how much of it is written
    bool unsynced = false;
    while (next < slices.size()) {
      std::size_t count = 0;
      for (std::size_t i = next; i < slices.size() && count < kVectors; ++i, ++count) {
        const std::size_t skip = i == next ? done_of_next : 0;
        vectors[count] = {const_cast<std::byte*>(slices[i].data) + skip, slices[i].size - skip};
      }
      const bool with_sync = sync && dsync_works && next + count == slices.size();
      const ssize_t wrote = ::pwritev2(fd_, vectors.data(), static_cast<int>(count),
                                       static_cast<off_t>(offset), with_sync ? RWF_DSYNC : 0);
      if (wrote < 0) {
        if (errno == EINTR) continue;
        if (with_sync && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) {
          dsync_works = false;
          continue;
        }
        return errno_status("write", path_);
      }
      if (wrote == 0) return Status::Io(fmt::format("cannot write {}: no progress", path_));
      unsynced = unsynced || !with_sync;
      offset += static_cast<std::uint64_t>(wrote);
      auto left = static_cast<std::size_t>(wrote);
      while (left > 0) {
        const std::size_t rest = slices[next].size - done_of_next;
        if (left < rest) {
          done_of_next += left;
          break;
        }
        left -= rest;
        ++next;
        done_of_next = 0;
      }
    }
    return sync && unsynced ? this->sync() : Status::ok();
  }

  Status sync() override {
    while (::fdatasync(fd_) != 0) {
      if (errno != EINTR) return errno_status("sync", path_);
    }
    return Status::ok();
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    std::size_t got = 0;
    while (got < into.size()) {
      const ssize_t n =
          ::pread(fd_, into.data() + got, into.size() - got, static_cast<off_t>(offset + got));
      if (n < 0) {
        if (errno == EINTR) continue;
        return errno_status("read", path_);
      }
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
      if (got % 512 != 0) break;  // the end of the file
    }
    return got;
  }

  Result<std::uint64_t> size() override {
    struct stat info;
    if (::fstat(fd_, &info) != 0) return errno_status("stat", path_);
    return static_cast<std::uint64_t>(info.st_size);
  }
  int descriptor() const override { return fd_; }
  const std::string& path() const override { return path_; }

 private:
  static constexpr std::size_t kVectors = 64;
  const int fd_;
  const std::string path_;
};

class PosixLogFolder final : public LogFolder {
 public:
  PosixLogFolder(std::string path, bool direct) : path_(std::move(path)), direct_(direct) {}

  const std::string& path() const override { return path_; }

  Result<std::vector<std::string>> list() override {
    DIR* dir = ::opendir(path_.c_str());
    if (dir == nullptr) return errno_status("list", path_);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(dir)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<std::shared_ptr<LogFile>> open(const std::string& name, bool writable) override {
    return open_flags(name, writable ? O_RDWR : O_RDONLY, "open");
  }

  Result<std::shared_ptr<LogFile>> create(const std::string& name, std::uint64_t bytes) override {
    auto file = open_flags(name, O_RDWR | O_CREAT | O_TRUNC, "create");
    if (!file) return file;
    int error = 0;
    do {
      error = ::posix_fallocate((*file)->descriptor(), 0, static_cast<off_t>(bytes));
    } while (error == EINTR);
    if (error != 0) {
      errno = error;
      const Status status = errno_status("allocate space for", path_ + "/" + name);
      (void)::unlink((path_ + "/" + name).c_str());
      return status;
    }
    return file;
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename((path_ + "/" + from).c_str(), (path_ + "/" + to).c_str()) != 0) {
      return errno_status("rename", path_ + "/" + from);
    }
    return Status::ok();
  }

  Status remove(const std::string& name) override {
    if (::unlink((path_ + "/" + name).c_str()) != 0)
      return errno_status("delete", path_ + "/" + name);
    return Status::ok();
  }

  Status sync() override {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno_status("open", path_);
    const int rc = ::fsync(fd);
    const Status status = rc == 0 ? Status::ok() : errno_status("sync", path_);
    ::close(fd);
    return status;
  }

  Result<std::uint64_t> free_bytes() override {
    struct statvfs info;
    if (::statvfs(path_.c_str(), &info) != 0)
      return errno_status("ask for the free space of", path_);
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }
  Result<std::uint64_t> disk_bytes() override {
    struct statvfs info;
    if (::statvfs(path_.c_str(), &info) != 0) return errno_status("ask for the size of", path_);
    return static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  }
  std::uint32_t alignment() const override { return alignment_; }

  // Finds out what the file system takes, on a file that is gone afterwards.
  Status probe() {
    if (!direct_) return Status::ok();
    const std::string name = "probe.new";
    auto file = open_flags(name, O_RDWR | O_CREAT | O_TRUNC, "create");
    if (!file) return file.status();
    AlignedMemory memory(4096);
    std::memset(memory.span().data(), 0, 4096);
    const auto accepts = [&](std::uint64_t offset, std::size_t size) {
      const IoSlice slice{memory.span().data() + (4096 - size), size};
      return (*file)->write(offset, {&slice, 1}, false).is_ok();
    };
    if (direct_ && !accepts(0, 4096)) {
      direct_ = false;
    } else if (direct_ && !(accepts(512, 512) && accepts(1536, 1024))) {
      alignment_ = 4096;
    }
    return remove(name);
  }

 private:
  Result<std::shared_ptr<LogFile>> open_flags(const std::string& name, int flags,
                                              const char* what) {
    const std::string path = path_ + "/" + name;
    int fd = ::open(path.c_str(), flags | O_CLOEXEC | (direct_ ? O_DIRECT : 0), 0600);
    if (fd < 0 && direct_ && errno == EINVAL) {
      direct_ = false;  // tmpfs and its like
      fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    }
    if (fd < 0) return errno_status(what, path);
    return std::shared_ptr<LogFile>(std::make_shared<PosixLogFile>(fd, path));
  }

  const std::string path_;
  std::atomic<bool> direct_;
  std::uint32_t alignment_ = 512;
};

}  // namespace

Result<std::unique_ptr<LogFolder>> open_log_folder(const std::string& path, bool direct,
                                                   bool read_only) {
  auto folder = std::make_unique<PosixLogFolder>(path, direct);
  if (!read_only) GM_RETURN_IF_ERROR(folder->probe());
  return std::unique_ptr<LogFolder>(std::move(folder));
}

AlignedMemory::AlignedMemory(std::size_t size)
    : data_(static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096))),
      size_(size) {
  if (data_ == nullptr) throw std::bad_alloc();
}
void AlignedMemory::Free::operator()(std::byte* data) const { std::free(data); }

Status read_exactly(LogFile& file, std::uint64_t offset, std::span<std::byte> into) {
  auto got = file.read(offset, into);
  if (!got) return got.status();
  if (*got < into.size()) {
    return Status::Corruption(fmt::format("{} ends at offset {}, {} bytes too early", file.path(),
                                          offset + *got, into.size() - *got));
  }
  return Status::ok();
}

}  // namespace geminga
