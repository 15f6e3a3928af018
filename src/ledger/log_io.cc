#include "ledger/log_io.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "ledger/io_thread.h"

namespace geminga {

namespace {

class ThreadedLogIo final : public LogIo {
 public:
  explicit ThreadedLogIo(Shard& shard)
      : writer_(shard, fmt::format("log-w-{}", shard.id())),
        reader_(shard, fmt::format("log-r-{}", shard.id())),
        worker_(shard, fmt::format("log-f-{}", shard.id())) {}

  std::string_view name() const override { return "threads"; }

  void write(std::shared_ptr<LogFile> file, std::uint64_t offset, std::vector<IoSlice> slices,
             bool sync, Done done) override {
    writer_.run([file = std::move(file), offset, slices = std::move(slices),
                 sync] { return file->write(offset, slices, sync); },
                std::move(done));
  }
  void read(std::shared_ptr<LogFile> file, std::uint64_t offset, std::span<std::byte> into,
            Done done) override {
    reader_.run(
        [file = std::move(file), offset, into] { return read_exactly(*file, offset, into); },
        std::move(done));
  }
  void call(UniqueFunction<Status()> work, Done done) override {
    worker_.run(std::move(work), std::move(done));
  }

 private:
  IoThread writer_;
  IoThread reader_;
  IoThread worker_;
};

class InlineLogIo final : public LogIo {
 public:
  explicit InlineLogIo(Shard& shard) : shard_(shard) {}
  ~InlineLogIo() override { *alive_ = false; }

  std::string_view name() const override { return "inline"; }

  void write(std::shared_ptr<LogFile> file, std::uint64_t offset, std::vector<IoSlice> slices,
             bool sync, Done done) override {
    report(file->write(offset, slices, sync), std::move(done));
  }
  void read(std::shared_ptr<LogFile> file, std::uint64_t offset, std::span<std::byte> into,
            Done done) override {
    report(read_exactly(*file, offset, into), std::move(done));
  }
  void call(UniqueFunction<Status()> work, Done done) override { report(work(), std::move(done)); }

 private:
  void report(Status status, Done done) {
    shard_.post([alive = alive_, status = std::move(status), done = std::move(done)]() mutable {
      if (*alive) done(std::move(status));
    });
  }

  Shard& shard_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<LogIo> make_threaded_log_io(Shard& shard) {
  return std::make_unique<ThreadedLogIo>(shard);
}
std::unique_ptr<LogIo> make_inline_log_io(Shard& shard) {
  return std::make_unique<InlineLogIo>(shard);
}

Result<std::unique_ptr<LogIo>> make_log_io(Shard& shard, LogIoKind kind) {
  switch (kind) {
    case LogIoKind::Inline: return make_inline_log_io(shard);
    case LogIoKind::Threads: return make_threaded_log_io(shard);
    case LogIoKind::Uring: return make_uring_log_io(shard);
    case LogIoKind::Auto: break;
  }
  auto uring = make_uring_log_io(shard);
  if (uring) return uring;
  GM_LOG_DEBUG("log {}: {}; using threads", shard.id(), uring.status().message());
  return make_threaded_log_io(shard);
}

}  // namespace geminga
