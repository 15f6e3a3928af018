#include "metadata/folder_inventory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace geminga {

namespace {

namespace fs = std::filesystem;

Status io_error(const std::string& what) {
  const int error = errno;
  const std::string text = what + ": " + std::strerror(error);
  return error == ENOSPC ? Status::DiskFull(text) : Status::Io(text);
}

Status sync_path(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return io_error("cannot open " + path);
  const int rc = ::fsync(fd);
  Status status = rc == 0 ? Status::ok() : io_error("cannot sync " + path);
  ::close(fd);
  return status;
}

// RocksDB's own logs come and go; LOCK is empty.
bool is_listed(const std::string& name) {
  return !name.starts_with("LOG") && name != "LOCK" && !name.starts_with(kInventoryFile);
}

}  // namespace

Status write_inventory(const std::string& folder) {
  std::string text;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_listed(name) || !at->is_regular_file(error)) continue;
    text += fmt::format("{} {}\n", name, at->file_size(error));
  }
  if (error) return Status::Io("cannot list " + folder + ": " + error.message());
  text += "end\n";
  const std::string path = folder + "/" + kInventoryFile;
  const std::string fresh = path + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << text;
    out.flush();
    if (!out) return io_error("cannot write " + fresh);
  }
  GM_RETURN_IF_ERROR(sync_path(fresh, O_RDONLY));
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return io_error("cannot rename " + fresh);
  return sync_path(folder, O_RDONLY | O_DIRECTORY);
}

Status verify_inventory(const std::string& folder) {
  std::ifstream in(folder + "/" + kInventoryFile);
  if (!in) return {};
  std::string line;
  while (std::getline(in, line)) {
    if (line == "end") return {};
    const std::size_t space = line.rfind(' ');
    if (space == std::string::npos) break;
    const std::string name = line.substr(0, space);
    struct stat found {};
    if (::stat((folder + "/" + name).c_str(), &found) != 0) {
      return Status::Corruption(fmt::format("the file {}/{} is missing", folder, name));
    }
    if (std::to_string(found.st_size) != line.substr(space + 1)) {
      return Status::Corruption(
          fmt::format("the file {}/{} has {} bytes, it had {} at the last shutdown", folder, name,
                      found.st_size, line.substr(space + 1)));
    }
  }
  return Status::Corruption(fmt::format("the file {}/{} is cut short", folder, kInventoryFile));
}

Status drop_inventory(const std::string& folder) {
  const std::string path = folder + "/" + kInventoryFile;
  if (::unlink(path.c_str()) != 0) {
    return errno == ENOENT ? Status::ok() : io_error("cannot remove " + path);
  }
  return sync_path(folder, O_RDONLY | O_DIRECTORY);
}

}  // namespace geminga
