#include "runtime/async.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace geminga {
namespace {

class AsyncTest : public testing::Test {
 protected:
  AsyncTest() : runtime_(options()) { runtime_.start(); }
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.shards = 2;
    options.memory_limit = 1 << 20;
    options.pin_threads = false;
    return options;
  }
  Runtime runtime_;
};

TEST_F(AsyncTest, HopsToAnotherShardAndComesBack) {
  const std::string where = runtime_.run_and_wait(0, [this]() -> Task<std::string> {
    std::string ids = std::to_string(Shard::current()->id());
    ids += co_await on_shard(runtime_.shard(1), []() -> Task<std::string> {
      co_return std::to_string(Shard::current()->id());
    });
    ids += std::to_string(Shard::current()->id());
    co_return ids;
  });
  EXPECT_EQ(where, "010");
}

TEST_F(AsyncTest, RunsBlockingWorkOffTheShard) {
  runtime_.run_and_wait(0, [this]() -> Task<void> {
    const bool on_a_shard =
        co_await run_blocking(runtime_.blocking(), [] { return Shard::current() != nullptr; });
    EXPECT_FALSE(on_a_shard);
    EXPECT_EQ(Shard::current(), &runtime_.shard(0));
  });
}

TEST_F(AsyncTest, GateWaitsForWhatIsInsideAndRefusesMore) {
  runtime_.run_and_wait(0, [this]() -> Task<void> {
    Gate gate;
    bool finished = false;
    EXPECT_TRUE(spawn(runtime_.shard(0), gate, [&finished]() -> Task<void> {
      co_await sleep_for(Millis(20));
      finished = true;
    }));
    co_await gate.close();
    EXPECT_TRUE(finished);
    EXPECT_FALSE(spawn(runtime_.shard(0), gate, []() -> Task<void> { co_return; }));
    co_await gate.close();
  });
}

TEST_F(AsyncTest, EventWakesAllItsWaiters) {
  runtime_.run_and_wait(0, [this]() -> Task<void> {
    Gate gate;
    Event event;
    int woken = 0;
    for (int i = 0; i < 3; ++i) {
      spawn(runtime_.shard(0), gate, [&]() -> Task<void> {
        co_await event.wait();
        ++woken;
      });
    }
    co_await sleep_for(Millis(5));
    EXPECT_EQ(woken, 0);
    event.set();
    co_await gate.close();
    EXPECT_EQ(woken, 3);
    co_await event.wait();  // set already
  });
}

TEST_F(AsyncTest, MutexLetsOneInAtATimeInOrder) {
  runtime_.run_and_wait(0, [this]() -> Task<void> {
    Gate gate;
    AsyncMutex mutex;
    std::vector<int> order;
    int inside = 0;
    for (int i = 0; i < 5; ++i) {
      spawn(runtime_.shard(0), gate, [&, i]() -> Task<void> {
        auto lock = co_await mutex.lock();
        EXPECT_EQ(++inside, 1);
        co_await sleep_for(Millis(1));
        order.push_back(i);
        --inside;
      });
    }
    co_await gate.close();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  });
}

TEST(MemoryBudget, RefusesBeyondItsLimitAndCountsByUse) {
  MemoryBudget budget(1000);
  EXPECT_TRUE(budget.try_take(MemoryUse::Publish, 600));
  EXPECT_FALSE(budget.try_take(MemoryUse::Cache, 401));
  EXPECT_TRUE(budget.try_take(MemoryUse::Cache, 400));
  EXPECT_TRUE(budget.pressed());
  EXPECT_FALSE(budget.try_take(MemoryUse::Cache, ~std::size_t{0}));
  budget.take(MemoryUse::Delivery, 50);  // must go on
  EXPECT_EQ(budget.used(), 1050U);
  budget.give_back(MemoryUse::Publish, 600);
  EXPECT_EQ(budget.used(MemoryUse::Publish), 0U);
  EXPECT_FALSE(budget.pressed());
}

}  // namespace
}  // namespace geminga
