// For tests of the log: a folder that goes with the test, a running shard, and calls that wait.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ledger/log_store.h"
#include "runtime/runtime.h"

namespace geminga::log_test {

class TempFolder {
 public:
  TempFolder() {
    static std::atomic<int> next{0};
    path_ = (std::filesystem::temp_directory_path() /
             ("geminga-log-" + std::to_string(::getpid()) + "-" + std::to_string(next++)))
                .string();
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Collects what appends end in.
class Acks final : public AppendSink {
 public:
  void append_done(LedgerId ledger, EntryId id, const Status& status) override {
    if (status) {
      done.push_back({ledger, id});
    } else {
      failures.push_back(status);
    }
    if (on_done) on_done();
  }
  std::vector<Position> done;
  std::vector<Status> failures;
  UniqueFunction<void()> on_done;
};

// One shard that runs for the length of a test.
class LogTest : public ::testing::Test {
 protected:
  LogTest()
      : runtime_(RuntimeOptions{.shards = 1, .memory_limit = 256 << 20, .pin_threads = false}) {
    runtime_.start();
  }
  ~LogTest() override { runtime_.stop(); }

  // Runs the coroutine function on the shard and waits for it.
  template <typename F>
  auto run(F function) {
    return runtime_.run_and_wait(0, std::move(function));
  }
  Shard& shard() { return runtime_.shard(0); }
  MemoryBudget& budget() { return runtime_.memory(); }

  LogStoreOptions options() const {
    LogStoreOptions options;
    options.folder = folder_.path();
    options.segment_bytes = 1 << 20;
    options.block_bytes = 16 << 10;
    options.disk_reserve_bytes = 1;
    options.zero_fill = false;
    return options;
  }

  TempFolder folder_;
  Runtime runtime_;
};

inline std::string payload_of(LedgerId ledger, EntryId entry, std::size_t size) {
  std::string text = std::to_string(ledger) + "/" + std::to_string(entry) + "|";
  while (text.size() < size)
    text += static_cast<char>('a' + (entry + static_cast<EntryId>(text.size())) % 26);
  text.resize(size);
  return text;
}

// Appends `count` entries and waits until they are durable.
inline Task<Status> append_all(std::shared_ptr<Ledger> ledger, int count, std::size_t size,
                               std::uint32_t messages = 1) {
  Acks acks;
  Event done;
  const EntryId first = ledger->last_confirmed() + 1;
  Status refused;
  int queued = 0;
  for (; queued < count; ++queued) {
    auto id = ledger->append(Buffer::copy_of(payload_of(ledger->id(), first + queued, size)),
                             messages, &acks);
    if (!id) {
      refused = id.status();
      break;
    }
  }
  acks.on_done = [&] {
    if (static_cast<int>(acks.done.size() + acks.failures.size()) == queued) done.set();
  };
  // Also after a refusal: what is on its way still calls `acks`.
  if (queued > 0) co_await done.wait();
  if (!refused) co_return refused;
  co_return acks.failures.empty() ? Status::ok() : acks.failures.front();
}

// Reads all entries and compares them with what append_all wrote; "" if they are the same.
inline Task<std::string> verify(std::shared_ptr<Ledger> ledger, std::size_t size) {
  EntryId next = 0;
  while (next <= ledger->last_confirmed()) {
    auto entries = co_await ledger->read(next, 100, 1 << 20);
    if (!entries) co_return entries.status().to_string();
    if (entries->empty()) co_return "an empty read at " + std::to_string(next);
    for (const LedgerEntry& entry : *entries) {
      if (entry.id != next)
        co_return "entry " + std::to_string(entry.id) + " for " + std::to_string(next);
      if (entry.data.view() != payload_of(ledger->id(), next, size)) {
        co_return "other bytes in entry " + std::to_string(next);
      }
      ++next;
    }
  }
  co_return "";
}

}  // namespace geminga::log_test
