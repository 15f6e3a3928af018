#include "cli/perf_machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"

namespace geminga {

namespace {

namespace json = boost::json;

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) / 1e9;
}

Status io_error(std::string_view what) {
  return Status::Io(fmt::format("{}: {}", what, std::strerror(errno)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using Aligned = std::unique_ptr<std::byte, FreeDeleter>;

Aligned aligned_noise(std::size_t size) {
  const std::size_t rounded = (size + 4095) / 4096 * 4096;
  Aligned memory(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
  std::uint64_t state = 88172645463325252ULL;
  for (std::size_t i = 0; i < rounded; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(memory.get() + i, &state, 8);
  }
  return memory;
}

// Small writes, each followed by fdatasync, for about `seconds`.
Result<Histogram> sync_rate(int fd, const std::byte* data, std::size_t size, off_t file_size,
                            double seconds) {
  Histogram times;
  const std::int64_t start = monotonic_ns();
  off_t at = 0;
  while (seconds_since(start) < seconds) {
    if (file_size > 0 && at + static_cast<off_t>(size) > file_size) at = 0;
    const std::int64_t before = monotonic_ns();
    if (pwrite(fd, data, size, at) != static_cast<ssize_t>(size))
      return io_error("writing the scratch file");
    if (fdatasync(fd) != 0) return io_error("fdatasync");
    times.record(monotonic_ns() - before);
    at += static_cast<off_t>(size);
  }
  return times;
}

Result<double> write_bandwidth(int fd, const std::byte* data, std::size_t chunk,
                               std::size_t total) {
  const std::int64_t start = monotonic_ns();
  for (std::size_t at = 0; at < total; at += chunk) {
    if (pwrite(fd, data, chunk, static_cast<off_t>(at)) != static_cast<ssize_t>(chunk)) {
      return io_error("writing the scratch file");
    }
  }
  if (fdatasync(fd) != 0) return io_error("fdatasync");
  return static_cast<double>(total) / seconds_since(start) / 1e6;
}

json::object sync_json(const Histogram& times) {
  return {{"per_second", times.mean() > 0 ? 1e9 / times.mean() : 0},
          {"p50_ms", static_cast<double>(times.percentile(50)) / 1e6},
          {"p99_ms", static_cast<double>(times.percentile(99)) / 1e6},
          {"max_ms", static_cast<double>(times.max()) / 1e6}};
}

void print_line(const PerfOptions& options, const std::string& line) {
  std::fprintf(options.json == "-" ? stderr : stdout, "%s\n", line.c_str());
}

bool write_all(int fd, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int fd, std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd, data, size);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Two connected sockets over 127.0.0.1.
Result<std::pair<int, int>> loopback_pair() {
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.valid() || ::bind(listener.get(), generic, length) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), generic, &length) != 0) {
    return io_error("listening on 127.0.0.1");
  }
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  if (client < 0 || ::connect(client, generic, length) != 0)
    return io_error("connecting to 127.0.0.1");
  const int server = ::accept(listener.get(), nullptr, nullptr);
  if (server < 0) return io_error("accepting on 127.0.0.1");
  const int on = 1;
  ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::pair(client, server);
}

Result<double> loopback_bandwidth(std::size_t chunk, std::size_t total) {
  GM_ASSIGN_OR_RETURN(const auto sockets, loopback_pair());
  const Descriptor client(sockets.first);
  const Descriptor server(sockets.second);
  const std::int64_t start = monotonic_ns();
  std::thread sender([&] {
    std::vector<std::byte> data(chunk);
    for (std::size_t sent = 0; sent < total; sent += chunk) {
      if (!write_all(client.get(), data.data(), chunk)) break;
    }
    ::shutdown(client.get(), SHUT_WR);
  });
  std::vector<std::byte> data(256 * 1024);
  std::size_t received = 0;
  while (true) {
    const ssize_t n = ::read(server.get(), data.data(), data.size());
    if (n <= 0) break;
    received += static_cast<std::size_t>(n);
  }
  sender.join();
  if (received < total) return Status::Io("the loopback connection broke");
  return static_cast<double>(received) / seconds_since(start) / 1e6;
}

Result<Histogram> loopback_round_trips(double seconds) {
  GM_ASSIGN_OR_RETURN(const auto sockets, loopback_pair());
  const Descriptor client(sockets.first);
  const Descriptor server(sockets.second);
  std::thread echo([&] {
    std::byte data[100];
    while (read_all(server.get(), data, sizeof data) &&
           write_all(server.get(), data, sizeof data)) {
    }
  });
  Histogram times;
  std::byte data[100] = {};
  const std::int64_t start = monotonic_ns();
  bool whole = true;
  while (whole && seconds_since(start) < seconds) {
    const std::int64_t before = monotonic_ns();
    whole = write_all(client.get(), data, sizeof data) && read_all(client.get(), data, sizeof data);
    times.record(monotonic_ns() - before);
  }
  ::shutdown(client.get(), SHUT_RDWR);
  echo.join();
  if (!whole) return Status::Io("the loopback connection broke");
  return times;
}

}  // namespace

Result<std::string> measure_disk(const PerfOptions& options) {
  const double seconds = options.duration_s > 0 ? options.duration_s : 3;
  const std::string path = fmt::format("{}/.geminga-perf-disk-{}", options.directory, getpid());
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return io_error(fmt::format("creating {}", path));
  ::unlink(path.c_str());  // gone with the last descriptor, whatever happens
  constexpr std::size_t kChunk = 1 << 20;
  const std::size_t total = options.file_mb * kChunk;
  const Aligned noise = aligned_noise(std::max(kChunk, options.write_size));
  json::object out{
      {"command", "disk"}, {"directory", options.directory}, {"write_size", options.write_size}};

  GM_ASSIGN_OR_RETURN(const Histogram growing,
                      sync_rate(file.get(), noise.get(), options.write_size, 0, seconds));
  GM_ASSIGN_OR_RETURN(const double buffered,
                      write_bandwidth(file.get(), noise.get(), kChunk, total));
  GM_ASSIGN_OR_RETURN(
      const Histogram in_place,
      sync_rate(file.get(), noise.get(), options.write_size, static_cast<off_t>(total), seconds));
  out["sync_growing_file"] = sync_json(growing);
  out["sync_written_space"] = sync_json(in_place);
  out["sequential_buffered_mb_per_s"] = buffered;
  print_line(
      options,
      fmt::format("fdatasync of {} B writes, growing file:  {:.0f}/s  p50 {:.3f} p99 {:.3f} ms",
                  options.write_size, 1e9 / growing.mean(),
                  static_cast<double>(growing.percentile(50)) / 1e6,
                  static_cast<double>(growing.percentile(99)) / 1e6));
  print_line(
      options,
      fmt::format("fdatasync of {} B writes, written space: {:.0f}/s  p50 {:.3f} p99 {:.3f} ms",
                  options.write_size, 1e9 / in_place.mean(),
                  static_cast<double>(in_place.percentile(50)) / 1e6,
                  static_cast<double>(in_place.percentile(99)) / 1e6));
  print_line(options,
             fmt::format("sequential write, page cache and sync:   {:.0f} MB/s", buffered));

  // Not every file system takes O_DIRECT; then the row is missing.
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (::fcntl(file.get(), F_SETFL, flags | O_DIRECT) == 0) {
    const auto direct = write_bandwidth(file.get(), noise.get(), kChunk, total);
    if (direct) {
      out["sequential_direct_mb_per_s"] = *direct;
      print_line(options,
                 fmt::format("sequential write, direct:                {:.0f} MB/s", *direct));
      if (options.write_size % 4096 == 0) {
        GM_ASSIGN_OR_RETURN(const Histogram synced,
                            sync_rate(file.get(), noise.get(), options.write_size,
                                      static_cast<off_t>(total), seconds));
        out["sync_direct"] = sync_json(synced);
        print_line(
            options,
            fmt::format(
                "fdatasync of {} B writes, direct:        {:.0f}/s  p50 {:.3f} p99 {:.3f} ms",
                options.write_size, 1e9 / synced.mean(),
                static_cast<double>(synced.percentile(50)) / 1e6,
                static_cast<double>(synced.percentile(99)) / 1e6));
      }
    }
  }
  return json::serialize(out);
}

Result<std::string> measure_memcpy(const PerfOptions& options) {
  const double seconds = options.duration_s > 0 ? options.duration_s : 2;
  constexpr std::size_t kRegion = 256 << 20;  // larger than the caches
  const Aligned from = aligned_noise(kRegion);
  const Aligned to = aligned_noise(kRegion);
  json::object out{{"command", "memcpy"}};
  for (const std::size_t piece : {std::size_t{1024}, kRegion}) {
    std::size_t copied = 0;
    std::size_t at = 0;
    const std::int64_t start = monotonic_ns();
    while (seconds_since(start) < seconds / 2) {
      // A clock read a megabyte, not a piece.
      const std::size_t until = std::min(kRegion, at + std::max<std::size_t>(piece, 1 << 20));
      for (; at < until; at += piece) std::memcpy(to.get() + at, from.get() + at, piece);
      copied += std::max<std::size_t>(piece, 1 << 20);
      if (at >= kRegion) at = 0;
    }
    const double rate = static_cast<double>(copied) / seconds_since(start) / 1e6;
    out[piece == kRegion ? "large_mb_per_s" : "pieces_1k_mb_per_s"] = rate;
    print_line(options, fmt::format("memory copy in pieces of {} B: {:.0f} MB/s", piece, rate));
  }
  return json::serialize(out);
}

Result<std::string> measure_loopback(const PerfOptions& options) {
  const double seconds = options.duration_s > 0 ? options.duration_s : 2;
  GM_ASSIGN_OR_RETURN(const Histogram trips, loopback_round_trips(seconds));
  GM_ASSIGN_OR_RETURN(const double large, loopback_bandwidth(64 * 1024, std::size_t{4} << 30));
  GM_ASSIGN_OR_RETURN(const double small, loopback_bandwidth(1024, std::size_t{1} << 30));
  json::object out{{"command", "loopback"},
                   {"round_trip", sync_json(trips)},
                   {"writes_64k_mb_per_s", large},
                   {"writes_1k_mb_per_s", small}};
  print_line(options,
             fmt::format("round trips of 100 B: {:.0f}/s  p50 {:.3f} p99 {:.3f} ms",
                         1e9 / trips.mean(), static_cast<double>(trips.percentile(50)) / 1e6,
                         static_cast<double>(trips.percentile(99)) / 1e6));
  print_line(
      options,
      fmt::format("bandwidth: {:.0f} MB/s in writes of 64 KiB, {:.0f} MB/s in writes of 1 KiB",
                  large, small));
  return json::serialize(out);
}

}  // namespace geminga
