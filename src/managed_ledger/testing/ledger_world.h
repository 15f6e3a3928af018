// For tests: one shard, in-memory stores that survive "restarts", a recording sink, and a few
// verbs. A test's body is a coroutine given to run(); it may use everything here, on the shard.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "managed_ledger/chain_cursor.h"
#include "managed_ledger/managed_ledger.h"
#include "managed_ledger/testing/memory_ledger_store.h"
#include "managed_ledger/testing/memory_metadata_store.h"
#include "runtime/async.h"
#include "runtime/runtime.h"

// Leaves the coroutine if the Status or Result is an error.
#define CO_ASSERT_OK(expr)                                                   \
  if (const auto& gm_checked = (expr); !gm_checked.is_ok()) {                \
    ADD_FAILURE() << #expr << ": " << geminga::testing::text_of(gm_checked); \
    co_return;                                                               \
  }
#define EXPECT_OK(expr)                                                       \
  do {                                                                        \
    const auto& gm_checked = (expr);                                          \
    EXPECT_TRUE(gm_checked.is_ok()) << geminga::testing::text_of(gm_checked); \
  } while (false)

namespace geminga::testing {

inline std::string text_of(const Status& status) { return status.to_string(); }
template <typename T>
std::string text_of(const Result<T>& result) {
  return result.status().to_string();
}

class RecordingSink final : public PersistSink {
 public:
  struct Outcome {
    Position position;
    Status status;
  };
  void persisted(Position position, const Status& status) override {
    outcomes.push_back({position, status});
    if (on_outcome) on_outcome(outcomes.back());
  }
  std::vector<Outcome> outcomes;
  UniqueFunction<void(const Outcome&)> on_outcome;
};

class LedgerWorld : public ::testing::Test {
 protected:
  LedgerWorld() {
    config.min_rollover_ms = 0;
    config.cursor_flush_ms = 2;
    runtime.start();
    start_stores();
  }
  ~LedgerWorld() override {
    runtime.stop();
    ledger.reset();
  }

  template <typename F>
  void run(F body) {
    runtime.run_and_wait(0, std::move(body));
  }

  void start_stores() {
    metadata = std::make_unique<MemoryMetadataStore>(shard(), tree, faults);
    store = std::make_unique<MemoryLedgerStore>(shard(), ledgers, faults);
  }
  Shard& shard() { return runtime.shard(0); }
  ManagedLedgerEnv env() { return {&shard(), store.get(), metadata.get()}; }

  Task<Status> open(std::string name = "t/n/persistent/x") {
    auto opened = co_await open_managed_ledger(env(), std::move(name), config, &sink, true);
    if (!opened) co_return opened.status();
    ledger = std::move(*opened);
    co_return Status::ok();
  }
  Task<Status> close() {
    Status status = co_await ledger->close();
    ledger.reset();
    co_return status;
  }
  // Closes and opens again.
  Task<Status> reopen() {
    GM_CO_RETURN_IF_ERROR(co_await close());
    co_return co_await open();
  }
  // What a killed process leaves: nothing is flushed or closed, the stores are new ones over the
  // same data.
  Task<Status> crash_and_open() {
    faults->crash_at(0, false);
    if (ledger) (void)co_await ledger->close();
    ledger.reset();
    faults->heal();
    start_stores();
    co_return co_await open();
  }

  void append(const std::string& text, std::uint32_t messages = 1) {
    ledger->append(Buffer::copy_of(text), messages);
    ++appended;
  }
  // Until each append has its outcome.
  Task<void> settled() {
    while (sink.outcomes.size() < appended) co_await turn();
  }
  Task<void> turn() { co_await asio::post(shard().executor(), asio::use_awaitable); }
  Task<void> append_and_settle(int n, std::uint32_t messages = 1) {
    for (int i = 0; i < n; ++i) append(std::to_string(next_text++), messages);
    co_await settled();
  }
  // Until the condition holds, at most five seconds.
  template <typename F>
  Task<bool> eventually(F condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) co_await sleep_for(Millis(1));
    co_return condition();
  }
  // Until the timer has persisted what the cursor knows.
  Task<bool> persisted(std::shared_ptr<ManagedCursor> cursor) {
    co_return co_await eventually(
        [&] { return !static_cast<const ChainCursor&>(*cursor).dirty(); });
  }
  Task<std::vector<std::string>> texts_from(Position from) {
    std::vector<std::string> texts;
    Position at = from;
    while (true) {
      auto entries = co_await ledger->read(at, 7, 1 << 20);
      if (!entries) {
        ADD_FAILURE() << entries.status().to_string();
        break;
      }
      if (entries->empty()) break;
      for (const Entry& entry : *entries) texts.emplace_back(entry.data.view());
      at = ledger->next(entries->back().position);
    }
    co_return texts;
  }
  static std::vector<std::string> numbers(int from, int until) {
    std::vector<std::string> texts;
    for (int i = from; i < until; ++i) texts.push_back(std::to_string(i));
    return texts;
  }

  Runtime runtime{RuntimeOptions{
      .shards = 1, .memory_limit = 1 << 30, .pin_threads = false, .blocking_threads = 1}};
  std::shared_ptr<MemoryTree> tree = std::make_shared<MemoryTree>();
  std::shared_ptr<MemoryLedgers> ledgers = std::make_shared<MemoryLedgers>();
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::unique_ptr<MemoryMetadataStore> metadata;
  std::unique_ptr<MemoryLedgerStore> store;
  RecordingSink sink;
  ManagedLedgerConfig config;
  std::unique_ptr<ManagedLedger> ledger;
  std::size_t appended = 0;
  int next_text = 0;
};

}  // namespace geminga::testing
