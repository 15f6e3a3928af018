// One process a data folder: an advisory lock (flock) on the file `LOCK` in it, held while the
// object lives and dropped by the kernel when the process dies. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace geminga {

class FolderLock {
 public:
  // Makes the folder if it is missing. Conflict, naming the other process if it can be told, when
  // it is locked; Io when the folder cannot be made or written.
  static Result<FolderLock> acquire(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace geminga
