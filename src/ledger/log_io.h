// How a log gets its bytes to disk and back without blocking its shard. The log issues one write of
// records at a time, beside it reads and blocking file work; each ends with a call of `done` on the
// shard, never from inside the starting call. Memory and file stay valid until then.
//
// make_uring_log_io: io_uring, where the kernel allows it (NotSupported otherwise).
// make_threaded_log_io: a writer thread, a reader thread, and one for blocking work.
// make_inline_log_io: does the work at once on the shard and reports later; for tests and
// deterministic traces.
//
// Belongs to one shard. The destructor waits for what the threads are doing; what has not been
// reported by then is dropped without a call.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_function.h"
#include "ledger/log_file.h"
#include "runtime/shard.h"

namespace geminga {

class LogIo {
 public:
  using Done = UniqueFunction<void(Status)>;

  virtual ~LogIo() = default;
  virtual std::string_view name() const = 0;
  // `sync`: durable when `done` says OK.
  virtual void write(std::shared_ptr<LogFile> file, std::uint64_t offset,
                     std::vector<IoSlice> slices, bool sync, Done done) = 0;
  // Fills all of `into`; Corruption if the file ends before.
  virtual void read(std::shared_ptr<LogFile> file, std::uint64_t offset, std::span<std::byte> into,
                    Done done) = 0;
  // Runs `work` where it may block; one after the other.
  virtual void call(UniqueFunction<Status()> work, Done done) = 0;
};

enum class LogIoKind : std::uint8_t { Auto, Uring, Threads, Inline };

// Auto: see log_io.cc for what is taken and why.
Result<std::unique_ptr<LogIo>> make_log_io(Shard& shard, LogIoKind kind);

std::unique_ptr<LogIo> make_threaded_log_io(Shard& shard);
std::unique_ptr<LogIo> make_inline_log_io(Shard& shard);
Result<std::unique_ptr<LogIo>> make_uring_log_io(Shard& shard);

}  // namespace geminga
