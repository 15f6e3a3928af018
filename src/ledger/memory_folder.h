// A LogFolder in memory that remembers what was synced and can fail on demand: for the tests of the
// log. It records every call that changes something, and makes the folder anew as a crash at any
// point of the record could have left it.
//
// What a crash may do (CrashChoice decides): a write that was not yet followed by a sync of its
// file, or was still running, arrives whole, not at all, or in any subset of its 512-byte sectors;
// of the names made, renamed or removed since the last sync of the folder a prefix arrives. One
// thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_function.h"
#include "ledger/log_file.h"

namespace geminga {

// The bytes of a file: pages shared between copies until one writes.
class MemoryBytes {
 public:
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  std::size_t read(std::uint64_t offset, std::span<std::byte> into) const;
  void resize(std::uint64_t size);
  std::uint64_t size() const { return size_; }

 private:
  using Page = std::array<std::byte, 4096>;
  std::vector<std::shared_ptr<Page>> pages_;  // empty: zeros
  std::uint64_t size_ = 0;
};

struct FileEvent {
  enum class Kind : std::uint8_t {
    Create,       // file `file` under `name`, `size` zeros
    WriteBegins,  // `data` at `offset` of `file`; may arrive from now on
    WriteEnds,    // the write that began at event `begin`; durable if `sync`
    Sync,         // all writes of `file` that have ended are durable
    Rename,       // `name` -> `to`
    Remove,       // `name`
    FolderSync,
  };
  Kind kind = Kind::Sync;
  int file = -1;
  std::string name;
  std::string to;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::vector<std::byte> data;
  std::size_t begin = 0;
  bool sync = false;
};

// How a crash treats what was not durable.
struct CrashChoice {
  enum class Mode : std::uint8_t { Nothing, Everything, Torn } mode = Mode::Nothing;
  std::uint64_t seed = 0;  // for Torn
};

class MemoryFolder final : public LogFolder, public std::enable_shared_from_this<MemoryFolder> {
 public:
  static std::shared_ptr<MemoryFolder> make() {
    return std::shared_ptr<MemoryFolder>(new MemoryFolder());
  }
  // The folder after a crash of the machine behind the first `events` events of `trace`, which
  // began with `base` (nullptr: an empty folder).
  static std::shared_ptr<MemoryFolder> after_crash(const std::vector<FileEvent>& trace,
                                                   std::size_t events, CrashChoice choice,
                                                   const MemoryFolder* base = nullptr);
  // The folder after the process died there and the machine went on: everything is visible, and no
  // more durable than before. It goes on recording behind those events.
  static std::shared_ptr<MemoryFolder> after_kill(const std::vector<FileEvent>& trace,
                                                  std::size_t events);
  // A folder of its own with the same contents.
  std::shared_ptr<MemoryFolder> copy() const;

  const std::string& path() const override { return path_; }
  Result<std::vector<std::string>> list() override;
  Result<std::shared_ptr<LogFile>> open(const std::string& name, bool writable) override;
  Result<std::shared_ptr<LogFile>> create(const std::string& name, std::uint64_t bytes) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& name) override;
  Status sync() override;
  Result<std::uint64_t> free_bytes() override { return free_bytes_; }
  Result<std::uint64_t> disk_bytes() override { return std::uint64_t{1} << 40; }
  std::uint32_t alignment() const override { return 512; }

  std::vector<FileEvent>& trace() { return trace_; }
  void set_recording(bool on) { recording_ = on; }
  void set_free_bytes(std::uint64_t bytes) { free_bytes_ = bytes; }
  // Asked before each call that touches a file: "write", "sync", "read", "create", "open",
  // "remove", "rename"; an error is what the call answers.
  void set_fault(UniqueFunction<Status(std::string_view call, const std::string& name)> fault) {
    fault_ = std::move(fault);
  }
  // The bytes of a file, to look at and to damage.
  MemoryBytes* bytes_of(const std::string& name);

  // The two halves of a write, for I/O that overlaps. Gives the event of the beginning.
  std::size_t begin_write(LogFile& file, std::uint64_t offset, std::span<const IoSlice> slices);
  Status end_write(LogFile& file, std::size_t begin, bool sync);

 private:
  friend class MemoryFile;
  struct Inode {
    int id = 0;
    MemoryBytes bytes;
  };
  MemoryFolder() = default;
  Status fault(std::string_view call, const std::string& name);
  std::size_t record(FileEvent event);
  std::map<int, std::shared_ptr<Inode>> copy_names_from(const MemoryFolder& other);

  const std::string path_ = "memory";
  std::map<std::string, std::shared_ptr<Inode>> names_;
  std::vector<FileEvent> trace_;
  std::map<std::size_t, FileEvent> running_;  // begun writes while nothing is recorded
  std::size_t next_running_ = 0;
  bool recording_ = false;
  int next_id_ = 0;
  std::uint64_t free_bytes_ = std::uint64_t{1} << 40;
  UniqueFunction<Status(std::string_view, const std::string&)> fault_;
};

}  // namespace geminga
