// A random life of a log on real files, with every kind of I/O, beside a model in memory: appends,
// reads, seals, removals, restarts with and without close(). The seed is printed; GEMINGA_SEED
// repeats it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "ledger/log_check.h"
#include "ledger/log_test_support.h"

namespace geminga {
namespace {

using log_test::LogTest;

struct ModelLedger {
  std::vector<std::size_t> sizes;  // of the entries
  std::shared_ptr<Ledger> handle;
};

std::string content(LedgerId ledger, EntryId entry, std::size_t size) {
  return log_test::payload_of(ledger, entry, size);
}

class LogModel : public LogTest, public ::testing::WithParamInterface<LogIoKind> {
 protected:
  Task<void> open() {
    auto with = options();
    with.io = GetParam();
    with.direct_io = random_() % 2 == 0;
    with.cache_bytes = 200 << 10;
    with.rewrite_below = 0.5;
    with.rewrite_bytes_per_second = 1 << 30;
    with.zero_fill = random_() % 2 == 0;
    auto store = co_await open_log(shard(), budget(), with);
    EXPECT_TRUE(store.is_ok()) << store.status().to_string();
    if (!store) co_return;
    store_ = std::move(*store);
    std::vector<LedgerId> expected;
    for (const auto& [id, ledger] : model_) expected.push_back(id);
    EXPECT_EQ(store_->list(), expected);
    for (auto& [id, ledger] : model_) {
      auto handle = co_await store_->open(id);
      EXPECT_TRUE(handle.is_ok()) << handle.status().to_string();
      if (!handle) continue;
      ledger.handle = *handle;
      EXPECT_EQ((*handle)->last_confirmed(), static_cast<EntryId>(ledger.sizes.size()) - 1);
      EXPECT_EQ((*handle)->messages(), static_cast<std::int64_t>(ledger.sizes.size()) * 2);
    }
  }

  Task<void> step() {
    const std::uint64_t dice = random_() % 100;
    if (model_.empty() || dice < 8) {
      auto handle = co_await store_->create({});
      EXPECT_TRUE(handle.is_ok());
      EXPECT_GT((*handle)->id(), last_id_);
      last_id_ = (*handle)->id();
      model_[last_id_].handle = *handle;
      co_return;
    }
    auto at = model_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % model_.size()));
    auto& [id, ledger] = *at;
    if (dice < 60) {
      co_await append(id, ledger);
    } else if (dice < 88) {
      co_await read(id, ledger);
    } else if (dice < 92) {
      EXPECT_TRUE((co_await ledger.handle->seal()).is_ok());
    } else if (dice < 97) {
      EXPECT_TRUE((co_await store_->remove(id)).is_ok());
      model_.erase(at);
    } else {
      const bool clean = dice % 2 == 0;
      if (clean) {
        EXPECT_TRUE((co_await store_->close()).is_ok());
      } else {
        co_await store_->abandon();
      }
      store_.reset();
      co_await open();
    }
  }

  Task<void> append(LedgerId id, ModelLedger& ledger) {
    log_test::Acks acks;
    Event done;
    const std::size_t count = 1 + random_() % 40;
    std::size_t added = 0;
    for (; added < count; ++added) {
      const std::size_t size = random_() % 20 == 0 ? random_() % 100'000 : random_() % 3000;
      const auto entry = static_cast<EntryId>(ledger.sizes.size());
      const auto appended =
          ledger.handle->append(Buffer::copy_of(content(id, entry, size)), 2, &acks);
      EXPECT_EQ(appended.is_ok(), !ledger.handle->sealed());
      if (!appended) co_return;
      EXPECT_EQ(*appended, entry);
      ledger.sizes.push_back(size);
    }
    acks.on_done = [&] {
      if (acks.done.size() + acks.failures.size() == added) done.set();
    };
    co_await done.wait();
    EXPECT_TRUE(acks.failures.empty());
    for (std::size_t i = 1; i < acks.done.size(); ++i) {
      EXPECT_EQ(acks.done[i].entry, acks.done[i - 1].entry + 1);
    }
  }

  Task<void> read(LedgerId id, ModelLedger& ledger) {
    if (ledger.sizes.empty()) co_return;
    auto next = static_cast<EntryId>(random_() % ledger.sizes.size());
    EXPECT_EQ((co_await ledger.handle->messages_through(next)).value_or(-1), (next + 1) * 2);
    for (int rounds = 0; rounds < 20 && next < static_cast<EntryId>(ledger.sizes.size());
         ++rounds) {
      const std::size_t max_entries = 1 + random_() % 50;
      const std::size_t max_bytes = 1 + random_() % 50'000;
      std::vector<LedgerEntry> entries;
      if (ledger.handle->read_cached(next, max_entries, max_bytes, entries) == 0) {
        auto cold = co_await ledger.handle->read(next, max_entries, max_bytes);
        EXPECT_TRUE(cold.is_ok()) << cold.status().to_string();
        if (!cold) co_return;
        entries = std::move(*cold);
      }
      EXPECT_GT(entries.size(), 0U);
      EXPECT_LE(entries.size(), max_entries);
      std::size_t bytes = 0;
      for (const LedgerEntry& entry : entries) {
        EXPECT_EQ(entry.id, next);
        EXPECT_EQ(entry.messages, 2U);
        EXPECT_TRUE(entry.data.view() ==
                    content(id, next, ledger.sizes[static_cast<std::size_t>(next)]))
            << "ledger " << id << " entry " << next;
        bytes += entry.data.size();
        ++next;
      }
      if (entries.size() > 1) {
        EXPECT_LE(bytes, max_bytes);
      }
    }
  }

  std::mt19937_64 random_;
  std::unique_ptr<LogStore> store_;
  std::map<LedgerId, ModelLedger> model_;
  LedgerId last_id_ = -1;
};

TEST_P(LogModel, RandomLife) {
  const char* given = std::getenv("GEMINGA_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "GEMINGA_SEED=" << seed << std::endl;
  random_.seed(seed);
  run([&]() -> Task<void> {
    if (GetParam() == LogIoKind::Uring) {
      auto allowed = make_uring_log_io(shard());
      if (!allowed) {
        std::cout << "not run: " << allowed.status().message() << std::endl;
        co_return;
      }
    }
    co_await open();
    for (int i = 0; i < 400 && !HasFailure(); ++i) co_await step();
    EXPECT_TRUE((co_await store_->close()).is_ok());
    store_.reset();
    const auto report = check_log(folder_.path());
    EXPECT_TRUE(report.is_ok() && report->healthy());
  });
}

INSTANTIATE_TEST_SUITE_P(Io, LogModel,
                         ::testing::Values(LogIoKind::Inline, LogIoKind::Threads, LogIoKind::Uring),
                         [](const auto& info) {
                           return info.param == LogIoKind::Inline    ? "Inline"
                                  : info.param == LogIoKind::Threads ? "Threads"
                                                                     : "Uring";
                         });

}  // namespace
}  // namespace geminga
