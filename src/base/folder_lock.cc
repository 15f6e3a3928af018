#include "base/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace geminga {

Result<FolderLock> FolderLock::acquire(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Status::Io(fmt::format("cannot make the folder {}: {}", folder, error.message()));
  }
  const std::string path = folder + "/LOCK";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Status::Io(fmt::format("cannot open {}: {}; is the folder writable for this user?", path,
                                  std::strerror(errno)));
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char text[32] = {};
    const ssize_t got = ::pread(fd, text, sizeof text - 1, 0);
    const std::string owner = got > 0 ? fmt::format(" (process {})", std::string(text)) : "";
    ::close(fd);
    return Status::Conflict(
        fmt::format("{} is in use by another process{}; stop it, or give this one another folder",
                    folder, owner));
  }
  const std::string pid = std::to_string(::getpid());
  // Only for the message above: the lock holds without it.
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, pid.data(), pid.size(), 0);
  return FolderLock(fd);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace geminga
