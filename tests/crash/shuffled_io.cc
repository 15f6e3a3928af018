#include "shuffled_io.h"

#include <deque>
#include <random>
#include <utility>

namespace geminga::crash {

namespace {

class ShuffledIo final : public LogIo {
 public:
  ShuffledIo(Shard& shard, std::shared_ptr<MemoryFolder> folder, std::uint64_t seed)
      : shard_(shard), folder_(std::move(folder)), random_(seed) {}
  ~ShuffledIo() override { *alive_ = false; }

  std::string_view name() const override { return "shuffled"; }

  void write(std::shared_ptr<LogFile> file, std::uint64_t offset, std::vector<IoSlice> slices,
             bool sync, Done done) override {
    const std::size_t begin = folder_->begin_write(*file, offset, slices);
    later(turns(), [this, file = std::move(file), begin, sync, done = std::move(done)]() mutable {
      done(folder_->end_write(*file, begin, sync));
    });
  }
  void read(std::shared_ptr<LogFile> file, std::uint64_t offset, std::span<std::byte> into,
            Done done) override {
    later(turns(), [file = std::move(file), offset, into, done = std::move(done)]() mutable {
      done(read_exactly(*file, offset, into));
    });
  }
  void call(UniqueFunction<Status()> work, Done done) override {
    calls_.push_back({std::move(work), std::move(done)});
    if (calls_.size() == 1) next_call();
  }

 private:
  struct Call {
    UniqueFunction<Status()> work;
    Done done;
  };

  unsigned turns() { return static_cast<unsigned>(random_() % 5); }

  void later(unsigned turns, UniqueFunction<void()> what) {
    shard_.post([this, alive = alive_, turns, what = std::move(what)]() mutable {
      if (!*alive) return;
      if (turns == 0) {
        what();
      } else {
        later(turns - 1, std::move(what));
      }
    });
  }

  void next_call() {
    later(turns(), [this] {
      const Status status = calls_.front().work();
      Done done = std::move(calls_.front().done);
      calls_.pop_front();
      if (!calls_.empty()) next_call();
      done(status);
    });
  }

  Shard& shard_;
  const std::shared_ptr<MemoryFolder> folder_;
  std::mt19937_64 random_;
  std::deque<Call> calls_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<LogIo> make_shuffled_io(Shard& shard, std::shared_ptr<MemoryFolder> folder,
                                        std::uint64_t seed) {
  return std::make_unique<ShuffledIo>(shard, std::move(folder), seed);
}

}  // namespace geminga::crash
