#include "ledger/log_store.h"

#include <gmock/gmock.h>

#include "ledger/log_test_support.h"

namespace geminga {
namespace {

using log_test::append_all;
using log_test::LogTest;
using log_test::verify;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogStoreTest : public LogTest {
 protected:
  Task<std::unique_ptr<LogStore>> must_open(LogStoreOptions with) {
    auto store = co_await open_log(shard(), budget(), std::move(with));
    EXPECT_TRUE(store.is_ok()) << store.status().to_string();
    co_return store ? std::move(*store) : nullptr;
  }
  static Task<std::shared_ptr<Ledger>> must_create(
      LogStore& store, std::map<std::string, std::string> metadata = {}) {
    auto ledger = co_await store.create(std::move(metadata));
    EXPECT_TRUE(ledger.is_ok()) << ledger.status().to_string();
    co_return ledger ? *ledger : nullptr;
  }
};

TEST_F(LogStoreTest, AppendReadReopen) {
  run([&]() -> Task<void> {
    auto store = co_await must_open(options());
    auto ledger = co_await must_create(*store);
    EXPECT_EQ(ledger->id(), 0);
    EXPECT_EQ(ledger->last_confirmed(), -1);
    EXPECT_TRUE((co_await append_all(ledger, 100, 300, 3)).is_ok());
    EXPECT_EQ(ledger->last_confirmed(), 99);
    EXPECT_EQ(ledger->messages(), 300);
    EXPECT_EQ(ledger->bytes(), 30000);
    std::vector<LedgerEntry> tail;
    EXPECT_EQ(ledger->read_cached(10, 5, 1 << 20, tail), 5U);
    EXPECT_EQ(tail.front().id, 10);
    EXPECT_EQ(tail.front().messages, 3U);
    EXPECT_EQ(co_await verify(ledger, 300), "");
    EXPECT_EQ((co_await ledger->messages_through(9)).value(), 30);
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  run([&]() -> Task<void> {
    auto store = co_await must_open(options());
    EXPECT_THAT(store->list(), ElementsAre(0));
    auto ledger = co_await store->open(0);
    EXPECT_TRUE(ledger.is_ok());
    EXPECT_TRUE((*ledger)->sealed());
    EXPECT_EQ((*ledger)->last_confirmed(), 99);
    EXPECT_EQ((*ledger)->messages(), 300);
    EXPECT_EQ((*ledger)->bytes(), 30000);
    EXPECT_EQ(co_await verify(*ledger, 300), "");
    EXPECT_EQ((co_await (*ledger)->messages_through(49)).value(), 150);
    EXPECT_TRUE((*ledger)->append(Buffer::of_static("x"), 1, nullptr).is(ErrorCode::Closed));
    auto next = co_await must_create(*store);
    EXPECT_EQ(next->id(), 1);
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogStoreTest, WithoutCloseEverythingAcknowledgedIsThere) {
  for (int round = 0; round < 3; ++round) {
    run([&]() -> Task<void> {
      auto store = co_await must_open(options());
      for (LedgerId id : store->list()) {
        auto ledger = co_await store->open(id);
        EXPECT_TRUE(ledger.is_ok());
        EXPECT_EQ((*ledger)->last_confirmed(), 199);
        EXPECT_EQ(co_await verify(*ledger, 1000), "");
      }
      auto ledger = co_await must_create(*store);
      EXPECT_EQ(ledger->id(), round);
      EXPECT_TRUE((co_await append_all(ledger, 200, 1000)).is_ok());
      co_await store->abandon();
    });
  }
}

TEST_F(LogStoreTest, ManyLedgersOverManySegmentsReadCold) {
  auto small = options();
  small.cache_bytes = 64 << 10;
  run([&]() -> Task<void> {
    auto store = co_await must_open(small);
    std::vector<std::shared_ptr<Ledger>> ledgers;
    for (int i = 0; i < 10; ++i) ledgers.push_back(co_await must_create(*store));
    for (int round = 0; round < 20; ++round) {
      for (auto& ledger : ledgers) EXPECT_TRUE((co_await append_all(ledger, 30, 1000)).is_ok());
    }
    EXPECT_GT(store->counters().segments_created, 5U);
    for (auto& ledger : ledgers) EXPECT_EQ(co_await verify(ledger, 1000), "");
    EXPECT_LE(store->cached_bytes(), small.cache_bytes + 2 * small.block_bytes);
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  run([&]() -> Task<void> {
    auto store = co_await must_open(small);
    for (LedgerId id = 0; id < 10; ++id) {
      auto ledger = co_await store->open(id);
      EXPECT_EQ((*ledger)->last_confirmed(), 599);
      EXPECT_EQ(co_await verify(*ledger, 1000), "");
      EXPECT_EQ((co_await (*ledger)->messages_through(299)).value(), 300);
    }
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogStoreTest, LeavesAnUnfilledFirstSegmentForAFilledOne) {
  auto filling = options();
  filling.zero_fill = true;
  EntryId entries = 0;
  run([&]() -> Task<void> {
    auto store = co_await must_open(filling);
    auto ledger = co_await must_create(*store);
    for (; entries < 2000 && store->stats().segments_in_use < 2; ++entries) {
      EXPECT_TRUE((co_await append_all(ledger, 1, 100)).is_ok());
      co_await sleep_for(Millis(1));
    }
    // Long before it is full; and the filled one is not left in turn.
    EXPECT_EQ(store->stats().segments_in_use, 2);
    EXPECT_LT(store->stats().live_bytes, static_cast<std::int64_t>(filling.segment_bytes / 2));
    for (int i = 0; i < 50; ++i, ++entries) {
      EXPECT_TRUE((co_await append_all(ledger, 1, 100)).is_ok());
      co_await sleep_for(Millis(1));
    }
    EXPECT_EQ(store->stats().segments_in_use, 2);
    EXPECT_EQ(co_await verify(ledger, 100), "");
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  run([&]() -> Task<void> {
    auto store = co_await must_open(filling);
    auto ledger = co_await store->open(0);
    EXPECT_EQ((*ledger)->last_confirmed(), entries - 1);
    EXPECT_EQ(co_await verify(*ledger, 100), "");
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogStoreTest, DeletedLedgersFreeTheirSegmentsForReuse) {
  run([&]() -> Task<void> {
    auto store = co_await must_open(options());
    for (int round = 0; round < 12; ++round) {
      auto ledger = co_await must_create(*store);
      EXPECT_TRUE((co_await append_all(ledger, 1500, 1000)).is_ok());
      EXPECT_TRUE((co_await store->remove(ledger->id())).is_ok());
      EXPECT_TRUE(ledger->append(Buffer::of_static("x"), 1, nullptr).is(ErrorCode::Closed));
      EXPECT_TRUE((co_await ledger->read(0, 1, 1)).is(ErrorCode::Closed));
    }
    EXPECT_GT(store->counters().segments_recycled, 5U);
    EXPECT_LT(store->stats().disk_bytes, 12 << 20);
    EXPECT_EQ(store->stats().ledgers, 0);
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  run([&]() -> Task<void> {
    auto store = co_await must_open(options());
    EXPECT_TRUE(store->list().empty());
    auto ledger = co_await must_create(*store);
    EXPECT_EQ(ledger->id(), 12);
    EXPECT_TRUE((co_await store->open(3)).is(ErrorCode::NotFound));
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogStoreTest, SealWaitsAndIsDurable) {
  run([&]() -> Task<void> {
    auto store = co_await must_open(options());
    auto ledger = co_await must_create(*store);
    log_test::Acks acks;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(*ledger->append(Buffer::of_static("hello"), 1, &acks), i);
    EXPECT_TRUE(acks.done.empty());
    EXPECT_TRUE((co_await ledger->seal()).is_ok());
    EXPECT_EQ(acks.done.size(), 5U);
    EXPECT_EQ(ledger->last_confirmed(), 4);
    EXPECT_TRUE((co_await ledger->seal()).is_ok());
    EXPECT_TRUE(ledger->append(Buffer::of_static("x"), 1, &acks).is(ErrorCode::Closed));
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogStoreTest, EmptyAndLargeEntries) {
  run([&]() -> Task<void> {
    auto store = co_await must_open(options());
    auto ledger = co_await must_create(*store);
    EXPECT_TRUE((co_await append_all(ledger, 3, 0)).is_ok());
    EXPECT_EQ(co_await verify(ledger, 0), "");
    auto large = co_await must_create(*store);
    EXPECT_TRUE((co_await append_all(large, 20, 200'000)).is_ok());
    EXPECT_EQ(co_await verify(large, 200'000), "");
    const std::string huge(300'000, 'x');
    EXPECT_TRUE(large->append(Buffer::copy_of(huge), 1, nullptr).is(ErrorCode::InvalidArgument));
    EXPECT_TRUE((co_await large->read(20, 1, 1)).is(ErrorCode::NotFound));
    EXPECT_TRUE((co_await large->read(-1, 1, 1)).is(ErrorCode::NotFound));
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogStoreTest, IdsBelongToTheirLog) {
  auto second = options();
  second.log_index = 1;
  second.log_count = 3;
  run([&]() -> Task<void> {
    auto store = co_await must_open(second);
    EXPECT_EQ((co_await must_create(*store))->id(), 1);
    EXPECT_EQ((co_await must_create(*store))->id(), 4);
    EXPECT_TRUE((co_await store->remove(4)).is_ok());
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  run([&]() -> Task<void> {
    auto store = co_await must_open(second);
    EXPECT_EQ((co_await must_create(*store))->id(), 7);
    EXPECT_TRUE((co_await store->close()).is_ok());
    auto other = second;
    other.log_count = 2;
    auto refused = co_await open_log(shard(), budget(), other);
    EXPECT_TRUE(refused.is(ErrorCode::InvalidArgument));
    EXPECT_THAT(refused.status().message(), HasSubstr("log 1 of 3"));
  });
}

}  // namespace
}  // namespace geminga
