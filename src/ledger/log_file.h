// Files of a log, as blocking calls: what the rest of the layer asks of an operating system, so
// that tests can stand in for it (record the calls, lose what was not synced, fail). Offsets, sizes
// and addresses given to read() and write() are multiples of the log's alignment: the files may be
// open with O_DIRECT. Any thread; two calls on one file may run at the same time on parts that do
// not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace geminga {

struct IoSlice {
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

class LogFile {
 public:
  virtual ~LogFile() = default;
  // Writes all slices one behind the other. `sync`: the bytes are durable when it returns OK.
  virtual Status write(std::uint64_t offset, std::span<const IoSlice> slices, bool sync) = 0;
  virtual Status sync() = 0;
  // Reads as much as there is, into.size() at most.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual Result<std::uint64_t> size() = 0;
  // For asynchronous interfaces of the kernel; -1 if there is no such file.
  virtual int descriptor() const = 0;
  virtual const std::string& path() const = 0;
};

class LogFolder {
 public:
  virtual ~LogFolder() = default;
  virtual const std::string& path() const = 0;
  virtual Result<std::vector<std::string>> list() = 0;
  virtual Result<std::shared_ptr<LogFile>> open(const std::string& name, bool writable) = 0;
  // A new file of `bytes` bytes, all zero, whose space is taken from the disk now (DiskFull if
  // there is none).
  virtual Result<std::shared_ptr<LogFile>> create(const std::string& name, std::uint64_t bytes) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& name) = 0;
  // Makes created, renamed and removed names durable.
  virtual Status sync() = 0;
  // Space that this process may still take.
  virtual Result<std::uint64_t> free_bytes() = 0;
  virtual Result<std::uint64_t> disk_bytes() = 0;
  // What read() and write() must be aligned to: 512 or 4096.
  virtual std::uint32_t alignment() const = 0;
};

// The real thing; the folder exists. O_DIRECT if asked for and the file system allows it.
Result<std::unique_ptr<LogFolder>> open_log_folder(const std::string& path, bool direct,
                                                   bool read_only);

// read() in full; Corruption if the file ends before.
Status read_exactly(LogFile& file, std::uint64_t offset, std::span<std::byte> into);

// Memory for I/O, aligned to 4096.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t size);
  std::span<std::byte> span() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_;
};

}  // namespace geminga
