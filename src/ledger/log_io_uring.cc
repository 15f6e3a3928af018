// io_uring: requests are handed to the kernel on the shard, and an eventfd in the shard's event
// loop tells of completions, so that a flush costs no thread switch of ours. A durable write is one
// request with RWF_DSYNC.
#include <fmt/format.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "ledger/io_thread.h"
#include "ledger/log_io.h"

namespace geminga {

namespace {

constexpr unsigned kEntries = 64;

class UringLogIo final : public LogIo {
 public:
  explicit UringLogIo(Shard& shard)
      : events_(shard.io()), worker_(shard, fmt::format("log-f-{}", shard.id())) {}

  ~UringLogIo() override {
    *alive_ = false;
    // The kernel still writes from and reads into memory that goes with its requests.
    while (!in_flight_.empty()) {
      io_uring_cqe* cqe = nullptr;
      if (io_uring_wait_cqe(&ring_, &cqe) != 0) continue;
      auto* request = static_cast<Request*>(io_uring_cqe_get_data(cqe));
      io_uring_cqe_seen(&ring_, cqe);
      in_flight_.erase(request);
      delete request;
    }
    for (Request* request : waiting_) delete request;
    if (open_) io_uring_queue_exit(&ring_);
  }

  Status open() {
    const int rc = io_uring_queue_init(kEntries, &ring_, 0);
    if (rc != 0) return Status::Unsupported(fmt::format("io_uring: {}", std::strerror(-rc)));
    open_ = true;
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return Status::Io(fmt::format("eventfd: {}", std::strerror(errno)));
    events_.assign(fd);
    const int registered = io_uring_register_eventfd(&ring_, fd);
    if (registered != 0) {
      return Status::Unsupported(
          fmt::format("io_uring with eventfd: {}", std::strerror(-registered)));
    }
    wait();
    return Status::ok();
  }

  std::string_view name() const override { return "io_uring"; }

  void write(std::shared_ptr<LogFile> file, std::uint64_t offset, std::vector<IoSlice> slices,
             bool sync, Done done) override {
    auto request = std::make_unique<Request>();
    request->writes = true;
    request->sync = sync;
    for (const IoSlice& slice : slices) {
      request->vectors.push_back({const_cast<std::byte*>(slice.data), slice.size});
    }
    start(std::move(request), std::move(file), offset, std::move(done));
  }

  void read(std::shared_ptr<LogFile> file, std::uint64_t offset, std::span<std::byte> into,
            Done done) override {
    auto request = std::make_unique<Request>();
    request->vectors.push_back({into.data(), into.size()});
    start(std::move(request), std::move(file), offset, std::move(done));
  }

  void call(UniqueFunction<Status()> work, Done done) override {
    worker_.run(std::move(work), std::move(done));
  }

 private:
  struct Request {
    std::shared_ptr<LogFile> file;
    std::uint64_t offset = 0;
    std::vector<iovec> vectors;
    std::size_t next = 0;  // the vector to go on with
    bool writes = false;
    bool sync = false;
    bool syncing = false;      // this request is the sync behind a write
    bool sync_behind = false;  // a part was written without RWF_DSYNC
    Done done;
  };
  static constexpr std::size_t kMaxVectors = 1024;

  void start(std::unique_ptr<Request> request, std::shared_ptr<LogFile> file, std::uint64_t offset,
             Done done) {
    request->file = std::move(file);
    request->offset = offset;
    request->done = std::move(done);
    waiting_.push_back(request.release());
    submit();
  }

  void submit() {
    bool any = false;
    while (!waiting_.empty() && in_flight_.size() < kEntries) {
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) break;
      Request* request = waiting_.front();
      waiting_.pop_front();
      in_flight_.insert(request);
      prepare(*request, *sqe);
      io_uring_sqe_set_data(sqe, request);
      any = true;
    }
    if (!any) return;
    int rc = 0;
    do {
      rc = io_uring_submit(&ring_);
    } while (rc == -EINTR);
    if (rc < 0) GM_LOG_ERROR("io_uring_submit: {}", std::strerror(-rc));
  }

  void prepare(Request& request, io_uring_sqe& sqe) {
    const int fd = request.file->descriptor();
    if (request.syncing) {
      io_uring_prep_fsync(&sqe, fd, IORING_FSYNC_DATASYNC);
      return;
    }
    const auto count =
        static_cast<unsigned>(std::min(request.vectors.size() - request.next, kMaxVectors));
    const bool last = request.next + count == request.vectors.size();
    const int flags = request.writes && request.sync && last && dsync_ ? RWF_DSYNC : 0;
    if (request.writes && request.sync && flags == 0) request.sync_behind = true;
    if (request.writes) {
      io_uring_prep_writev2(&sqe, fd, request.vectors.data() + request.next, count, request.offset,
                            flags);
    } else {
      io_uring_prep_readv(&sqe, fd, request.vectors.data() + request.next, count, request.offset);
    }
  }

  void wait() {
    events_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive = alive_](const boost::system::error_code& error) {
                         if (error || !*alive) return;
                         std::uint64_t count = 0;
                         (void)!::read(events_.native_handle(), &count, sizeof count);
                         reap();
                         if (*alive) wait();
                       });
  }

  void reap() {
    const auto alive = alive_;
    io_uring_cqe* cqe = nullptr;
    while (*alive && io_uring_peek_cqe(&ring_, &cqe) == 0) {
      auto* request = static_cast<Request*>(io_uring_cqe_get_data(cqe));
      const int result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      in_flight_.erase(request);
      completed(std::unique_ptr<Request>(request), result);
    }
    if (*alive) submit();
  }

  void completed(std::unique_ptr<Request> request, int result) {
    const auto again = [&] { waiting_.push_front(request.release()); };
    if (result == -EINTR || result == -EAGAIN) return again();
    if (result < 0 && request->writes && request->sync && dsync_ && !request->syncing &&
        (result == -EOPNOTSUPP || result == -EINVAL)) {
      dsync_ = false;
      return again();
    }
    if (result < 0) {
      const std::string text =
          fmt::format("cannot {} {} at {}: {}",
                      request->syncing  ? "sync"
                      : request->writes ? "write"
                                        : "read",
                      request->file->path(), request->offset, std::strerror(-result));
      Done done = std::move(request->done);
      done(result == -ENOSPC || result == -EDQUOT ? Status::DiskFull(text) : Status::Io(text));
      return;
    }
    if (request->syncing) {
      request->done(Status::ok());
      return;
    }
    if (result == 0 && !request->writes) {
      request->done(Status::Corruption(
          fmt::format("{} ends at offset {}, too early", request->file->path(), request->offset)));
      return;
    }
    advance(*request, static_cast<std::size_t>(result));
    if (request->next < request->vectors.size()) {
      if (request->sync) request->sync_behind = true;
      return again();
    }
    if (request->sync_behind) {
      request->syncing = true;
      return again();
    }
    request->done(Status::ok());
  }

  static void advance(Request& request, std::size_t bytes) {
    request.offset += bytes;
    while (bytes > 0) {
      iovec& vector = request.vectors[request.next];
      if (bytes < vector.iov_len) {
        vector.iov_base = static_cast<std::byte*>(vector.iov_base) + bytes;
        vector.iov_len -= bytes;
        return;
      }
      bytes -= vector.iov_len;
      ++request.next;
    }
  }

  io_uring ring_{};
  bool open_ = false;
  bool dsync_ = true;
  asio::posix::stream_descriptor events_;
  std::deque<Request*> waiting_;
  std::unordered_set<Request*> in_flight_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  IoThread worker_;
};

}  // namespace

Result<std::unique_ptr<LogIo>> make_uring_log_io(Shard& shard) {
  auto io = std::make_unique<UringLogIo>(shard);
  GM_RETURN_IF_ERROR(io->open());
  return std::unique_ptr<LogIo>(std::move(io));
}

}  // namespace geminga
