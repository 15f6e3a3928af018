// The crash explorer of the log. A random workload runs on files in memory that record every write,
// sync, rename and deletion, with I/O that overlaps. Then, for every prefix of the record, the
// files are made anew as a crash there could have left them (nothing of what was not durable,
// everything, torn and reordered in sectors), the log is opened and compared with what had been
// acknowledged: every acknowledged entry is there and identical, nothing is invented, the order is
// kept, ids are not used again. Some of these openings are cut off by a second crash.
//
// The seed is printed; GEMINGA_CRASH_SEED repeats it, GEMINGA_CRASH_ROUNDS runs more workloads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "base/clock.h"
#include "base/log.h"
#include "log_workload.h"
#include "runtime/runtime.h"
#include "shuffled_io.h"

namespace geminga::crash {
namespace {

using Mode = CrashChoice::Mode;

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The segments of an image and what their records say, for the message of a failure.
std::string describe(MemoryFolder& folder) {
  std::string text = "\n";
  const auto names = folder.list();
  for (const std::string& name : *names) {
    auto file = read_segment_file(folder, name, false);
    text += name + ": ";
    if (!file) {
      text += file.status().to_string() + "\n";
      continue;
    }
    text += "sequence " + std::to_string(file->header.sequence);
    if (file->header.sequence != 0) {
      auto scanned = scan_segment(*file, 0);
      if (!scanned) {
        text += " " + scanned.status().to_string();
      } else {
        const SegmentSummary& summary = scanned->summary;
        text += " end " + std::to_string(summary.data_end) + " previous " +
                std::to_string(summary.start.previous) + ":" +
                std::to_string(summary.start.previous_end) + " checkpoint " +
                std::to_string(summary.start.checkpoint);
        for (const auto& extent : summary.extents) {
          text += " " + std::to_string(extent.ledger) + ":" + std::to_string(extent.first) + "-" +
                  std::to_string(extent.last) + (extent.moved ? "m" : "");
        }
        for (const auto& created : summary.created) text += " +" + std::to_string(created.ledger);
        for (const LedgerId deleted : summary.deleted) text += " -" + std::to_string(deleted);
      }
    }
    text += "\n";
  }
  return text;
}

class LogCrash : public ::testing::Test {
 protected:
  LogCrash()
      : runtime_(RuntimeOptions{.shards = 1, .memory_limit = 512 << 20, .pin_threads = false}) {
    set_log_level(LogLevel::Error);
    runtime_.start();
  }
  ~LogCrash() override { runtime_.stop(); }

  template <typename F>
  auto run(F function) {
    return runtime_.run_and_wait(0, std::move(function));
  }
  std::string check_log(std::shared_ptr<MemoryFolder> folder, const Expectation& expected,
                        Expectation* seen) {
    return run([&]() -> Task<std::string> {
      co_return co_await check(runtime_.shard(0), runtime_.memory(), folder, expected, seen);
    });
  }

  // Records a workload.
  void record(std::uint64_t seed) {
    folder_ = MemoryFolder::make();
    folder_->set_recording(true);
    run([&]() -> Task<void> {
      auto options = log_options(folder_);
      options.make_io = [&](Shard& shard) { return make_shuffled_io(shard, folder_, seed); };
      auto opened = co_await open_log(runtime_.shard(0), runtime_.memory(), options);
      EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
      store_ = std::move(*opened);
      workload_ = std::make_unique<Workload>(runtime_.shard(0), *store_, *folder_, seed);
      co_await workload_->run(5, 60);
      for (int i = 0; i < 200 && store_->counters().rewritten_segments == 0; ++i)
        co_await sleep_for(Millis(5));
      counters_ = store_->counters();
      co_await store_->close();
      store_.reset();
    });
    trace_ = folder_->trace();
  }

  // A crash in the middle of what an opening does after a crash.
  std::string explore_second_crash(std::size_t events, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const bool killed = random() % 2 == 0;
    std::shared_ptr<MemoryFolder> first;
    std::shared_ptr<MemoryFolder> base;
    std::size_t from = 0;
    if (killed) {
      first = MemoryFolder::after_kill(trace_, events);
      from = first->trace().size();
    } else {
      first = MemoryFolder::after_crash(trace_, events, {Mode::Torn, seed});
      base = first->copy();
      first->set_recording(true);
    }
    Expectation expected = workload_->expect_at(events);
    Expectation seen;
    std::string wrong = check_log(first, expected, &seen);
    if (!wrong.empty()) return (killed ? "after a kill: " : "after a crash: ") + wrong;
    const std::vector<FileEvent> second = first->trace();
    // Before the end of the opening what was there counts; afterwards what it had shown.
    const std::size_t at = from + static_cast<std::size_t>(random() % (second.size() - from + 1));
    if (at == second.size()) expected = seen;
    for (const auto& [id, ledger] : seen.ledgers) {
      // The ledger that the check itself made; may exist from now on.
      if (!expected.ledgers.contains(id))
        expected.ledgers[id] = {false, -1, ledger.max_last, ledger.life};
      // It may have taken the id of one that had been asked for and was lost.
      if (ledger.life != expected.ledgers[id].life)
        expected.ledgers[id] = {false, -1, ledger.max_last, ledger.life};
    }
    const auto again = MemoryFolder::after_crash(second, at, {Mode::Torn, seed + 1}, base.get());
    const std::string image = describe(*again);
    wrong = check_log(again, expected, nullptr);
    if (wrong.empty()) return "";
    if (base) wrong += "\nfirst image:" + describe(*base);
    wrong += "\nsecond image:" + image;
    return (killed ? "after a kill and a crash behind event "
                   : "after two crashes, the second behind event ") +
           std::to_string(at) + ": " + wrong;
  }

  Runtime runtime_;
  std::shared_ptr<MemoryFolder> folder_;
  std::unique_ptr<LogStore> store_;
  std::unique_ptr<Workload> workload_;
  std::vector<FileEvent> trace_;
  LogCounters counters_;
};

TEST_F(LogCrash, EveryPrefixOfTheRecordedIo) {
  std::uint64_t seed = environment("GEMINGA_CRASH_SEED", 0);
  if (seed == 0) seed = std::random_device()();
  const std::uint64_t rounds = environment("GEMINGA_CRASH_ROUNDS", 1);
  std::uint64_t images = 0;
  for (std::uint64_t round = 0; round < rounds; ++round, ++seed) {
    std::cout << "GEMINGA_CRASH_SEED=" << seed << std::endl;
    record(seed);
    ASSERT_FALSE(HasFailure());
    std::cout << trace_.size() << " events, " << counters_.appends << " appends, "
              << counters_.flushes << " flushes, " << counters_.segments_created
              << " segments made, " << counters_.segments_recycled << " reused, "
              << counters_.rewritten_segments << " rewritten" << std::endl;
    const std::int64_t began = monotonic_ns();
    for (std::size_t events = 0; events <= trace_.size(); ++events) {
      // Behind the end of a write a crash does the same as before what begins next.
      const Expectation expected = workload_->expect_at(events);
      std::vector<CrashChoice> choices{{Mode::Torn, seed + events},
                                       {Mode::Torn, seed * 31 + events}};
      if (events % 3 == 0) choices.push_back({Mode::Nothing, 0});
      if (events % 3 == 1) choices.push_back({Mode::Everything, 0});
      for (const CrashChoice choice : choices) {
        ++images;
        const std::string wrong =
            check_log(MemoryFolder::after_crash(trace_, events, choice), expected, nullptr);
        ASSERT_EQ(wrong, "") << "crash behind event " << events << " of " << trace_.size()
                             << ", mode " << static_cast<int>(choice.mode) << ", seed "
                             << choice.seed << "; GEMINGA_CRASH_SEED=" << seed;
      }
      if (events % 4 == 0) {
        ++images;
        const std::string wrong = explore_second_crash(events, seed * 17 + events);
        ASSERT_EQ(wrong, "") << "crash behind event " << events << " of " << trace_.size()
                             << "; GEMINGA_CRASH_SEED=" << seed;
      }
    }
    std::cout << images << " crashes in " << (monotonic_ns() - began) / 1'000'000 << " ms"
              << std::endl;
  }
}

}  // namespace
}  // namespace geminga::crash
