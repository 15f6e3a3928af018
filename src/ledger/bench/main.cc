// Measures the log alone: appends by one ledger with a fixed number in flight, on a folder of the
// disk to be measured.
//   log_bench FOLDER [seconds]
// For each way of I/O, sizes and depths: appends, bytes and flushes a second, and the latency of an
// append.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "ledger/log_store.h"
#include "runtime/runtime.h"

namespace geminga {
namespace {

struct Row {
  LogIoKind io;
  bool direct;
  std::size_t size;
  std::size_t depth;
};

// Keeps `depth` appends in flight until the time is up.
class Load final : public AppendSink, public Deferred {
 public:
  Load(Shard& shard, std::shared_ptr<Ledger> ledger, std::size_t size, std::size_t depth,
       double seconds)
      : shard_(shard),
        ledger_(std::move(ledger)),
        entry_(Buffer::copy_of(std::string(size, 'x'))),
        depth_(depth),
        until_(monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9)) {}

  Task<void> run() {
    for (std::size_t i = 0; i < depth_; ++i) append();
    co_await done_.wait();
  }

  void append_done(LedgerId, EntryId id, const Status& status) override {
    if (!status) {
      fmt::print("{}\n", status.to_string());
      std::exit(1);
    }
    const std::int64_t now = monotonic_ns();
    latencies_.push_back(static_cast<float>(now - started_[static_cast<std::size_t>(id)]) / 1000.F);
    ++free_;
    shard_.defer(*this);
  }
  void run_deferred() override {
    const bool more = monotonic_ns() < until_;
    for (; more && free_ > 0; --free_) append();
    if (!more && latencies_.size() == started_.size()) done_.set();
  }

  std::vector<float> latencies_;  // microseconds

 private:
  void append() {
    started_.push_back(monotonic_ns());
    const auto id = ledger_->append(entry_, 1, this);
    if (!id) {
      fmt::print("{}\n", id.status().to_string());
      std::exit(1);
    }
  }

  Shard& shard_;
  std::shared_ptr<Ledger> ledger_;
  const Buffer entry_;
  const std::size_t depth_;
  const std::int64_t until_;
  std::size_t free_ = 0;
  std::vector<std::int64_t> started_;
  Event done_;
};

Task<void> measure(Shard& shard, MemoryBudget& budget, std::string folder, Row row,
                   double seconds) {
  LogStoreOptions options;
  options.folder = folder;
  options.io = row.io;
  options.direct_io = row.direct;
  auto store = co_await open_log(shard, budget, options);
  if (!store) {
    fmt::print("{:10} {}\n", "", store.status().to_string());
    co_return;
  }
  auto ledger = co_await (*store)->create({});
  const LogCounters before = (*store)->counters();
  const std::int64_t began = monotonic_ns();
  Load load(shard, *ledger, row.size, row.depth, seconds);
  co_await load.run();
  const double took = static_cast<double>(monotonic_ns() - began) / 1e9;
  const LogCounters& after = (*store)->counters();
  auto& latency = load.latencies_;
  std::sort(latency.begin(), latency.end());
  const auto count = static_cast<double>(latency.size());
  fmt::print("{:9} {:8} {:7} {:6} {:10.0f} {:8.1f} {:8.0f} {:9.0f} {:9.0f} {:9.0f}\n",
             (*store)->io_name(), row.direct ? "direct" : "buffered", row.size, row.depth,
             count / took, count * static_cast<double>(row.size) / took / 1e6,
             static_cast<double>(after.flushes - before.flushes) / took,
             latency[latency.size() / 2], latency[latency.size() * 99 / 100], latency.back());
  (void)co_await (*store)->remove((*ledger)->id());
  (void)co_await (*store)->close();
}

}  // namespace
}  // namespace geminga

int main(int argc, char** argv) {
  using namespace geminga;
  if (argc < 2) {
    fmt::print("usage: log_bench FOLDER [seconds]\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/log-bench";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  set_log_level(LogLevel::Warn);
  Runtime runtime(RuntimeOptions{.shards = 1, .memory_limit = std::size_t{1} << 30});
  runtime.start();
  fmt::print("{:9} {:8} {:>7} {:>6} {:>10} {:>8} {:>8} {:>9} {:>9} {:>9}\n", "io", "cache", "bytes",
             "depth", "appends/s", "MB/s", "flush/s", "p50 us", "p99 us", "max us");
  for (const auto& [size, depth] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1024, 1}, {1024, 1000}, {100, 10'000}, {65536, 100}}) {
    for (const LogIoKind io : {LogIoKind::Uring, LogIoKind::Threads}) {
      for (const bool direct : {true, false}) {
        std::filesystem::remove_all(folder);
        runtime.run_and_wait(0, [&, size = size, depth = depth] {
          return measure(runtime.shard(0), runtime.memory(), folder, {io, direct, size, depth},
                         seconds);
        });
      }
    }
  }
  std::filesystem::remove_all(folder);
  runtime.stop();
}
