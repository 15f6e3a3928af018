// Managed ledgers over the stores of a standalone process: the log on disk and RocksDB. A crash is
// a copy of the folders taken while the process runs.
#include <filesystem>

#include "base/clock.h"
#include "ledger/log_store.h"
#include "ledger/log_test_support.h"
#include "managed_ledger/ledger_chain.h"
#include "managed_ledger/testing/ledger_world.h"
#include "metadata/rocksdb_store.h"

namespace geminga {
namespace {

class LedgerChainStoresTest : public ::testing::Test {
 protected:
  LedgerChainStoresTest() {
    config.min_rollover_ms = 0;
    config.max_entries_per_ledger = 400;
    config.cursor_flush_ms = 5;
    runtime.start();
  }
  ~LedgerChainStoresTest() override { runtime.stop(); }

  template <typename F>
  void run(F body) {
    runtime.run_and_wait(0, std::move(body));
  }
  void open_stores(const std::string& folder) {
    auto opened = open_rocksdb_store({.path = folder + "/metadata"});
    ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
    metadata = std::move(*opened);
    run([&]() -> Task<void> {
      LogStoreOptions options;
      options.folder = folder + "/log";
      options.segment_bytes = 1 << 20;
      options.block_bytes = 64 << 10;
      options.disk_reserve_bytes = 1;
      auto log = co_await open_log_store(runtime.shard(0), runtime.memory(), options);
      CO_ASSERT_OK(log);
      ledgers = std::move(*log);
    });
  }
  void close_stores() {
    run([&]() -> Task<void> {
      EXPECT_OK(co_await ledgers->close());
      EXPECT_OK(co_await metadata->close());
    });
    ledgers.reset();
    metadata.reset();
  }
  Task<Status> open() {
    ManagedLedgerEnv env{&runtime.shard(0), ledgers.get(), metadata.get()};
    auto opened = co_await open_managed_ledger(env, "t/n/persistent/x", config, &sink, true);
    if (!opened) co_return opened.status();
    ledger = std::move(*opened);
    co_return Status::ok();
  }
  Task<void> publish(int n) {
    const std::size_t expected = sink.outcomes.size() + static_cast<std::size_t>(n);
    for (int i = 0; i < n; ++i) {
      ledger->append(Buffer::copy_of(std::to_string(next++) + std::string(200, 'x')),
                     1 + static_cast<std::uint32_t>(i % 3));
    }
    while (sink.outcomes.size() < expected) co_await sleep_for(Millis(1));
    for (const auto& outcome : sink.outcomes) EXPECT_OK(outcome.status);
  }
  Task<void> expect_numbers(int from, int until) {
    Position at = Position::earliest();
    int expected = from;
    while (true) {
      auto entries = co_await ledger->read(at, 100, 64 << 10);
      CO_ASSERT_OK(entries);
      if (entries->empty()) break;
      for (const Entry& entry : *entries) {
        EXPECT_EQ(std::atoi(std::string(entry.data.view()).c_str()), expected);
        ++expected;
      }
      at = ledger->next(entries->back().position);
    }
    EXPECT_EQ(expected, until);
  }

  log_test::TempFolder folder;
  Runtime runtime{RuntimeOptions{
      .shards = 1, .memory_limit = 256 << 20, .pin_threads = false, .blocking_threads = 1}};
  std::unique_ptr<MetadataStore> metadata;
  std::unique_ptr<LedgerStore> ledgers;
  testing::RecordingSink sink;
  ManagedLedgerConfig config;
  std::unique_ptr<ManagedLedger> ledger;
  int next = 0;
};

// A file may get its name, or go, while the folder is copied: then once more.
void copy_running(const std::string& from, const std::string& to) {
  std::error_code error;
  for (int i = 0; i < 100; ++i) {
    std::filesystem::remove_all(to);
    std::filesystem::create_directories(to);
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
    if (!error) return;
  }
  ADD_FAILURE() << "cannot copy " << from << ": " << error.message();
}

TEST_F(LedgerChainStoresTest, LivesThroughRestartsAndACrash) {
  open_stores(folder.path());
  std::int64_t backlog = 0;
  const std::string copy = folder.path() + "/copy";
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    const std::int64_t began = monotonic_ns();
    co_await publish(5000);
    std::printf("5000 entries over %zu ledgers in %.1f ms\n", ledger->ledgers().size(),
                static_cast<double>(monotonic_ns() - began) / 1e6);
    co_await expect_numbers(0, 5000);
    Position at = ledger->first_position();
    for (int i = 0; i < 1000; ++i) {  // all of two ledgers and every other one of the third
      if (i < 800 || i % 2 == 0) (*cursor)->ack(at, 1 + static_cast<std::uint32_t>(i % 3));
      at = ledger->next(at);
    }
    CO_ASSERT_OK(co_await (*cursor)->flush());
    CO_ASSERT_OK(co_await ledger->trim());
    backlog = (*cursor)->backlog_messages();
    EXPECT_EQ(ledger->total_entries(), 4200);
    // What a kill would leave.
    for (const std::string part : {"/log", "/metadata"})
      copy_running(folder.path() + part, copy + part);
    cursor->reset();
    CO_ASSERT_OK(co_await ledger->close());
    ledger.reset();
  });
  close_stores();
  for (const std::string& place : {folder.path(), copy}) {
    SCOPED_TRACE(place);
    open_stores(place);
    run([&]() -> Task<void> {
      CO_ASSERT_OK(co_await open());
      co_await expect_numbers(800, 5000);
      const auto cursor = ledger->cursor("s");
      EXPECT_EQ(cursor->backlog_entries(), 4100);
      EXPECT_TRUE(cursor->backlog_is_exact());
      EXPECT_EQ(cursor->backlog_messages(), backlog);
      next = 5000;
      co_await publish(100);
      cursor->ack_cumulative(ledger->previous(ledger->last_confirmed()));
      for (int i = 0; i < 2000 && !cursor->backlog_is_exact(); ++i) co_await sleep_for(Millis(1));
      EXPECT_EQ(cursor->backlog_messages(), 1);
      EXPECT_EQ(cursor->backlog_entries(), 1);
      CO_ASSERT_OK(co_await ledger->remove());
      ledger.reset();
      const auto named = co_await referenced_ledgers(*metadata);
      CO_ASSERT_OK(named);
      EXPECT_TRUE(named->empty());
      // A crash may come when a trimmed ledger is no longer named and not yet removed.
      EXPECT_TRUE(ledgers->list().empty() || place == copy) << ledgers->list().front();
    });
    close_stores();
  }
}

}  // namespace
}  // namespace geminga
