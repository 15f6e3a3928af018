#include "runtime/shard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "runtime/async.h"
#include "runtime/runtime.h"

namespace geminga {
namespace {

RuntimeOptions two_shards() {
  RuntimeOptions options;
  options.shards = 2;
  options.memory_limit = 1 << 20;
  options.pin_threads = false;
  return options;
}

TEST(Shard, RunsPostsOfOneThreadInOrder) {
  Runtime runtime(two_shards());
  runtime.start();
  std::vector<int> seen;
  std::promise<void> done;
  for (int i = 0; i < 1000; ++i) {
    runtime.shard(0).post([&seen, i] { seen.push_back(i); });
  }
  runtime.shard(0).post([&done] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(seen.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(Shard, PassesWorkBetweenShardsInOrderBothWays) {
  Runtime runtime(two_shards());
  runtime.start();
  constexpr int kCount = 20'000;
  std::promise<void> done[2];
  int received[2] = {0, 0};
  bool ordered = true;
  for (unsigned me = 0; me < 2; ++me) {
    const unsigned other = 1 - me;
    runtime.shard(me).post([&, other] {
      for (int i = 0; i < kCount; ++i) {
        runtime.shard(other).post([&, other, i] {
          if (received[other]++ != i) ordered = false;
          if (received[other] == kCount) done[other].set_value();
        });
      }
    });
  }
  done[0].get_future().wait();
  done[1].get_future().wait();
  EXPECT_TRUE(ordered);
}

class Counter final : public Deferred {
 public:
  explicit Counter(Shard& shard) : shard_(shard) {}
  void run_deferred() override {
    if (++runs == 1 && again) shard_.defer(*this);
  }
  int runs = 0;
  bool again = false;

 private:
  Shard& shard_;
};

// What is posted may still run in the turn before; a timer's end comes in one of its own.
void end_turn(Runtime& runtime) {
  runtime.run_and_wait(0, []() -> Task<void> { co_await sleep_for(Millis(1)); });
}

TEST(Shard, RunsDeferredWorkOnceAtTheEndOfTheTurn) {
  Runtime runtime(two_shards());
  runtime.start();
  Shard& shard = runtime.shard(0);
  Counter counter(shard);
  runtime.run_and_wait(0, [&]() -> Task<void> {
    for (int i = 0; i < 5; ++i) shard.defer(counter);
    EXPECT_EQ(counter.runs, 0);
    co_return;
  });
  end_turn(runtime);
  EXPECT_EQ(counter.runs, 1);
}

TEST(Shard, DeferredWorkMayDeferAgainInTheSameTurnAndBeForgotten) {
  Runtime runtime(two_shards());
  runtime.start();
  Shard& shard = runtime.shard(0);
  Counter again(shard);
  again.again = true;
  Counter forgotten(shard);
  runtime.run_and_wait(0, [&]() -> Task<void> {
    shard.defer(again);
    shard.defer(forgotten);
    shard.forget(forgotten);
    co_return;
  });
  end_turn(runtime);
  EXPECT_EQ(again.runs, 2);
  EXPECT_EQ(forgotten.runs, 0);
}

TEST(Shard, DestroysWorkThatWasPostedAfterTheEnd) {
  auto token = std::make_shared<int>(1);
  std::weak_ptr<int> watch = token;
  {
    Runtime runtime(two_shards());
    runtime.start();
    runtime.stop();
    runtime.shard(0).post([token = std::move(token)] {});
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace geminga
