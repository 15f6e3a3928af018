#include "managed_ledger/delayed_index.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>

#include "base/clock.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::Fault;
using testing::LedgerWorld;
using Next = DelayedIndex::Collected::Next;

const std::string kName = "t/n/persistent/x";

class DelayedIndexTest : public LedgerWorld {
 protected:
  Task<Status> open_index() {
    index = std::make_unique<DelayedIndex>(
        env(), kName, options, [this](Position p) { return done.contains(p); },
        [this] { ++wakes; });
    co_return co_await index->load();
  }
  Task<void> close_index() {
    co_await index->close();
    index.reset();
  }
  // What a killed process leaves.
  Task<void> crash_index() {
    if (!faults->crashed()) faults->crash_at(0, false);
    co_await index->close();
    index.reset();
    faults->heal();
    start_stores();
  }
  // Everything due by now, as a new subscription gets it.
  Task<std::vector<DelayedItem>> collect_all(std::size_t at_a_time = 100) {
    std::vector<DelayedItem> all;
    DelayedItem after = DelayedItem::before_all();
    for (int waits = 0; waits < 3000;) {
      std::vector<DelayedItem> some;
      const auto collected = index->collect(after, at_a_time, some);
      EXPECT_LE(some.size(), at_a_time);
      for (const DelayedItem& item : some) EXPECT_TRUE(all.empty() || all.back() < item);
      all.insert(all.end(), some.begin(), some.end());
      EXPECT_GE(collected.through, after);
      after = collected.through;
      if (collected.next == Next::Nothing) co_return all;
      if (collected.next == Next::Wait) {
        ++waits;
        co_await sleep_for(Millis(1));
      }
    }
    ADD_FAILURE() << "a block never came";
    co_return all;
  }
  Task<bool> until_ripe(std::int64_t time_ms) {
    const auto ripe = [this, time_ms] { return index->ripe_ms() >= time_ms; };
    co_return co_await eventually(ripe);
  }
  std::string key() const {
    const auto at = tree->keys.find(DelayedIndex::path_of(kName));
    return at == tree->keys.end() ? "" : at->second.value;
  }
  static std::map<Position, std::int64_t> as_map(const std::vector<DelayedItem>& items) {
    std::map<Position, std::int64_t> map;
    for (const DelayedItem& item : items) map[item.position] = item.due_ms;
    return map;
  }

  DelayedIndexOptions options;
  std::unique_ptr<DelayedIndex> index;
  std::set<Position> done;
  int wakes = 0;
};

TEST_F(DelayedIndexTest, ItemsAreRipeWhenTheyAreDue) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    const std::int64_t begin = now_ms();
    EXPECT_TRUE(index->add(begin + 40, {1, 5}));
    EXPECT_TRUE(index->add(begin + 20, {1, 6}));
    EXPECT_TRUE(index->add(begin + 20, {1, 6}));  // again
    EXPECT_TRUE(index->add(begin + 60'000, {2, 0}));
    EXPECT_EQ(index->size(), 3);
    EXPECT_TRUE(index->contains({1, 5}));
    EXPECT_EQ(index->next_not_held({1, 5}), (Position{1, 7}));
    EXPECT_EQ(index->next_not_held({1, 4}), (Position{1, 4}));
    EXPECT_EQ(index->due_after(index->ripe_ms()), 3);
    EXPECT_TRUE((co_await collect_all()).empty());
    EXPECT_TRUE(co_await until_ripe(begin + 40));
    const auto items = co_await collect_all();
    EXPECT_EQ(items, (std::vector<DelayedItem>{{begin + 20, {1, 6}}, {begin + 40, {1, 5}}}));
    EXPECT_GE(wakes, 1);
    EXPECT_EQ(index->due_after(index->ripe_ms()), 1);
    EXPECT_EQ(store->list().size(), 0U);  // so few are not worth a run
    co_await close_index();
  });
}

TEST_F(DelayedIndexTest, WhatIsDoneWithBeforeTheBufferIsFullIsNeverWritten) {
  options.max_buffered = 200;
  options.check_ms = 5;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    for (int i = 0; i < 1000; ++i) {
      const Position p{1, i};
      EXPECT_TRUE(index->add(now_ms() + 2, p));
      done.insert(p);
      if (i % 100 == 99) co_await sleep_for(Millis(20));
    }
    EXPECT_TRUE(co_await eventually([&] { return index->empty(); }));
    EXPECT_EQ(index->counters().written, 0U);
    EXPECT_EQ(key(), "");
    co_await close_index();
  });
}

// The buffer fills up while the one before it is written: who was refused hears of the room.
TEST_F(DelayedIndexTest, WhoWasRefusedIsWokenWhenThereIsRoomAgain) {
  options.max_buffered = 5'000;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    const std::int64_t due = now_ms() + 3'600'000;
    EntryId next = 0;
    while (next < 5'000) EXPECT_TRUE(index->add(due, {1, next++}));
    // The writing begins, and is not done in one turn.
    for (int i = 0; i < 3; ++i) co_await turn();
    EXPECT_EQ(index->runs(), 0U);
    while (next <= 10'000 && index->add(due, {1, next})) ++next;
    EXPECT_EQ(next, 10'000);
    EXPECT_TRUE(index->full());
    EXPECT_EQ(wakes, 0);
    EXPECT_TRUE(co_await eventually([&] { return wakes > 0; }));
    EXPECT_TRUE(index->add(due, {1, next}));
    co_await close_index();
  });
}

TEST_F(DelayedIndexTest, RunsAreWrittenMergedLoadedAndDropped) {
  options.max_buffered = 500;
  options.merge_runs = 4;
  options.check_ms = 10;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    std::mt19937_64 random(3);
    std::map<Position, std::int64_t> model;
    const std::int64_t begin = now_ms();
    for (int i = 0; i < 6'000; ++i) {
      const Position p{1 + i / 2000, (i % 2000) * 2};
      if (i % 100 == 0) co_await turn();
      const std::int64_t due = begin + 900 + static_cast<std::int64_t>(random() % 300);
      while (!index->add(due, p)) co_await sleep_for(Millis(1));
      model[p] = due;
    }
    EXPECT_TRUE(co_await eventually([&] { return index->counters().merged >= 1; }));
    EXPECT_LE(index->runs(), 8U);
    co_await close_index();
    EXPECT_EQ(store->list().size(), DelayedIndex::ledgers_in(key(), "key")->size());

    CO_ASSERT_OK(co_await open_index());
    EXPECT_EQ(index->size(), 6'000);
    for (const auto& [p, due] : model) EXPECT_TRUE(index->contains(p));
    EXPECT_FALSE(index->contains({1, 1}));
    EXPECT_EQ(index->next_not_held({1, 0}), (Position{1, 1}));
    const auto named = co_await referenced_ledgers(*metadata);
    CO_ASSERT_OK(named);
    EXPECT_EQ(*named, store->list());
    EXPECT_TRUE(co_await until_ripe(begin + 1199));
    EXPECT_EQ(as_map(co_await collect_all()), model);
    // All done with: nothing is left, neither key nor ledgers.
    for (const auto& [p, due] : model) done.insert(p);
    EXPECT_TRUE(co_await eventually([&] { return index->empty() && store->list().empty(); }));
    EXPECT_EQ(index->runs(), 0U);
    EXPECT_EQ(key(), "");
    co_await close_index();
  });
}

TEST_F(DelayedIndexTest, LeftOversOfRunsAreNotHandedOut) {
  options.max_buffered = 100;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    const std::int64_t begin = now_ms();
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(index->add(begin + 100, {1, i}));
    EXPECT_TRUE(co_await eventually([&] { return index->runs() == 1; }));
    const std::uint64_t before = index->revision();
    index->clear();
    EXPECT_GT(index->revision(), before);
    EXPECT_TRUE(index->add(begin + 100, {1, 7}));
    EXPECT_TRUE(co_await until_ripe(begin + 100));
    EXPECT_EQ((co_await collect_all()).size(), 1U);
    EXPECT_TRUE(co_await eventually([&] { return store->list().empty() && key().empty(); }));
    co_await close_index();
  });
}

TEST_F(DelayedIndexTest, DamageMakesTheIndexAnew) {
  options.max_buffered = 5'000;
  for (const std::string what : {"key", "footer", "set", "block", "ledger", "unfinished"}) {
    SCOPED_TRACE(what);
    run([&]() -> Task<void> {
      CO_ASSERT_OK(co_await open_index());
      const std::int64_t begin = now_ms();
      for (int i = 0; i < 5'000; ++i) EXPECT_TRUE(index->add(begin + 50 + i % 7, {1, i}));
      EXPECT_TRUE(co_await eventually([&] { return index->runs() == 1; }));
      co_await close_index();
      const LedgerId id = (*DelayedIndex::ledgers_in(key(), "key")).front();
      auto& entries = ledgers->ledgers.at(id)->entries;
      EXPECT_EQ(entries.size(), 4U);  // two blocks, a set, the footer
      if (what == "key") tree->keys.at(DelayedIndex::path_of(kName)).value = "2\n17 5\n";
      if (what == "footer") entries.back().data = Buffer::copy_of("\3\1\7");
      if (what == "set") entries[2].data = Buffer::copy_of("\2\1\1\1\xff\xff\x7f");
      if (what == "block") entries[1].data = Buffer::copy_of("\1\5xx");
      if (what == "ledger") ledgers->ledgers.erase(id);
      if (what == "unfinished") entries.pop_back();
      CO_ASSERT_OK(co_await open_index());
      if (what == "block") {  // is found when it is read
        EXPECT_EQ(index->size(), 5'000);
        co_await sleep_for(Millis(60));
        (void)co_await collect_all();
        EXPECT_GT(index->revision(), 0U);
      }
      EXPECT_EQ(index->counters().rebuilt, 1U);
      EXPECT_TRUE(index->empty());
      EXPECT_TRUE(index->add(now_ms() + 60'000, {1, 1}));
      EXPECT_TRUE(co_await eventually(
          [&] { return key().empty() && (what == "key" || store->list().empty()); }));
      co_await index->remove();
      index.reset();
      ledgers->ledgers.clear();
    });
  }
}

TEST_F(DelayedIndexTest, RandomDamageOfARunIsFoundOrDoesNoHarm) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  run([&]() -> Task<void> {
    DelayedRunWriter writer(*store, {});
    std::set<DelayedItem> items;
    while (items.size() < 5'000) {
      items.insert(
          {1'000'000 + static_cast<std::int64_t>(random() % 100'000),
           {static_cast<LedgerId>(random() % 3), static_cast<EntryId>(random() % 20'000)}});
    }
    for (const DelayedItem& item : items) {
      writer.add(item);
      if (!writer.block_full()) continue;
      const Status block = co_await writer.write_block();
      CO_ASSERT_OK(block);
    }
    auto written = co_await writer.finish();
    CO_ASSERT_OK(written);
    const LedgerId id = (*written)->id();
    auto& entries = ledgers->ledgers.at(id)->entries;
    const auto sound = entries;
    int found = 0;
    for (int round = 0; round < 400; ++round) {
      entries = sound;
      if (round > 0) {
        LedgerEntry& entry = entries[random() % entries.size()];
        std::string bytes(entry.data.view());
        if (random() % 4 == 0) bytes.resize(random() % bytes.size());
        for (auto n = random() % 4; n > 0 && !bytes.empty(); --n)
          bytes[random() % bytes.size()] = static_cast<char>(random());
        entry.data = Buffer::copy_of(bytes);
      }
      PositionSet held;
      auto opened = co_await DelayedRun::open(*store, id, held);
      std::vector<DelayedItem> read;
      bool whole = opened.is_ok();
      for (std::size_t block = 0; whole && block < (*opened)->blocks(); ++block) {
        const auto of_block = co_await (*opened)->read_block(block);
        whole = of_block.is_ok();
        if (whole) read.insert(read.end(), of_block->begin(), of_block->end());
      }
      found += whole ? 0 : 1;
      EXPECT_TRUE(whole || round > 0);
      EXPECT_TRUE(!whole || read.size() == 5'000U);
      if (round == 0) {
        EXPECT_TRUE(std::equal(read.begin(), read.end(), items.begin(), items.end()));
        for (const DelayedItem& item : items) EXPECT_TRUE(held.contains(item.position));
      }
    }
    EXPECT_GT(found, 50);
  });
}

TEST_F(DelayedIndexTest, AStoreThatFailsForAMomentLosesNothing) {
  options.max_buffered = 50;
  options.buffer_worth_closing = 1;
  options.merge_runs = 2;
  options.retry_ms = 5;
  options.check_ms = 5;
  run([&]() -> Task<void> {
    std::mt19937_64 random(11);
    CO_ASSERT_OK(co_await open_index());
    faults->decide = [&](const std::string& op, const std::string&) -> std::optional<Fault> {
      if (random() % 6 != 0) return std::nullopt;
      return Fault{Status::Io("no " + op), random() % 2 == 0};
    };
    std::map<Position, std::int64_t> model;
    const std::int64_t begin = now_ms();
    for (int i = 0; i < 2'000; ++i) {
      const std::int64_t due = begin + 400 + static_cast<std::int64_t>(random() % 100);
      while (!index->add(due, {1, i})) co_await sleep_for(Millis(1));
      model[{1, i}] = due;
    }
    EXPECT_TRUE(co_await until_ripe(begin + 499));
    EXPECT_EQ(as_map(co_await collect_all()), model);
    EXPECT_GT(index->counters().write_errors, 0U);
    faults->decide = nullptr;
    co_await close_index();
    CO_ASSERT_OK(co_await open_index());
    EXPECT_EQ(index->counters().rebuilt, 0U);
    EXPECT_EQ(index->size(), 2'000);
    // A ledger whose making failed and yet was done is nobody's; the next start finds it.
    const auto named = DelayedIndex::ledgers_in(key(), "key");
    for (const LedgerId id : *named) EXPECT_TRUE(ledgers->ledgers.contains(id));
    co_await index->remove();
    EXPECT_EQ(key(), "");
  });
}

// A topic in small: adds in the order of the log, subscriptions that collect and acknowledge, and a
// crash at any step. What the index says it holds is handed out exactly once a subscription, in
// time order; what a crash made it forget is added again, as reading the log does.
TEST_F(DelayedIndexTest, ARandomTopicOverCrashesGivesEachItemToEachSubscriptionOnce) {
  options.max_buffered = 40;
  options.merge_runs = 3;
  options.check_ms = 3;
  options.retry_ms = 3;
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  struct Subscription {
    std::set<Position> acked;
    std::set<Position> out;  // collected since it began anew
    DelayedItem after = DelayedItem::before_all();
  };
  std::vector<Subscription> subscriptions(2);
  std::map<Position, std::int64_t> log;
  run([&]() -> Task<void> {
    const auto add_what_is_not_held = [&] {
      for (const auto& [p, due] : log) {
        const bool acked = subscriptions[0].acked.contains(p) && subscriptions[1].acked.contains(p);
        if (acked || index->contains(p)) continue;
        if (due > std::max(now_ms(), index->ripe_ms())) {
          (void)index->add(due, p);
        } else {  // comes from the log, at once
          for (Subscription& s : subscriptions) {
            if (!s.out.contains(p)) s.acked.insert(p);
          }
        }
      }
    };
    const auto note_done = [&] {
      for (const Position p : subscriptions[0].acked) {
        if (subscriptions[1].acked.contains(p)) done.insert(p);
      }
    };
    EntryId next = 0;
    for (int life = 0; life < 12; ++life) {
      CO_ASSERT_OK(co_await open_index());
      for (Subscription& s : subscriptions) {
        s.out.clear();
        s.after = DelayedItem::before_all();
      }
      std::uint64_t revision = index->revision();
      add_what_is_not_held();
      faults->crash_at(static_cast<int>(random() % 40), random() % 2 == 0);
      for (int step = 0; step < 30; ++step) {
        for (auto n = random() % 12; n > 0; --n) {
          const Position p{1 + next / 500, next % 500};
          ++next;
          log[p] = now_ms() + 1 + static_cast<std::int64_t>(random() % 40);
        }
        add_what_is_not_held();
        co_await sleep_for(Millis(static_cast<int>(random() % 3)));
        EXPECT_EQ(index->revision(), revision);
        Subscription& s = subscriptions[random() % 2];
        std::vector<DelayedItem> items;
        s.after = index->collect(s.after, 1 + random() % 50, items).through;
        for (const DelayedItem& item : items) {
          EXPECT_EQ(item.due_ms, log[item.position]);
          EXPECT_LE(item.due_ms, now_ms());
          if (s.acked.contains(item.position)) continue;
          EXPECT_TRUE(s.out.insert(item.position).second) << "twice " << item.position.to_string();
        }
        for (auto it = s.out.begin(); it != s.out.end();) {
          if (random() % 3 != 0) {
            ++it;
            continue;
          }
          s.acked.insert(*it);
          it = s.out.erase(it);
        }
        note_done();
        if (random() % 50 == 0) break;
      }
      if (random() % 4 == 0) {
        faults->heal();
        co_await close_index();
      } else {
        co_await crash_index();
      }
    }
    // At rest: everything that was not acknowledged is there.
    CO_ASSERT_OK(co_await open_index());
    for (Subscription& s : subscriptions) s.out.clear();
    add_what_is_not_held();
    co_await sleep_for(Millis(60));
    // What a full index has refused is due now and comes from the log.
    add_what_is_not_held();
    const auto all = as_map(co_await collect_all(7));
    for (const auto& [p, due] : log) {
      const bool acked = subscriptions[0].acked.contains(p) && subscriptions[1].acked.contains(p);
      EXPECT_TRUE(acked || all.contains(p)) << p.to_string();
    }
    co_await index->remove();
    index.reset();
  });
}

TEST_F(DelayedIndexTest, AMillionItemsTakeLittleMemory) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    std::mt19937_64 random(1);
    const std::int64_t begin = now_ms() + 3'600'000;
    std::size_t most = 0;
    // Every third entry of the log is delayed, by a random time.
    for (int i = 0; i < 1'000'000; ++i) {
      const Position p{1 + i / 50'000, static_cast<EntryId>(i % 50'000) * 3};
      while (!index->add(begin + static_cast<std::int64_t>(random() % 3'600'000), p))
        co_await sleep_for(Millis(1));
      if (i % 20'000 == 0) {
        most = std::max(most, index->memory_bytes());
        co_await turn();
      }
    }
    most = std::max(most, index->memory_bytes());
    std::printf("a million: at most %zu bytes, %zu now, %zu runs\n", most, index->memory_bytes(),
                index->runs());
    EXPECT_LE(most, 16U << 20);
    EXPECT_EQ(index->due_after(now_ms()), 1'000'000);
    co_await close_index();
    const auto start = std::chrono::steady_clock::now();
    CO_ASSERT_OK(co_await open_index());
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    std::printf("loaded in %lld ms, %zu bytes\n", static_cast<long long>(took.count()),
                index->memory_bytes());
    EXPECT_EQ(index->size(), 1'000'000);
    EXPECT_LE(index->memory_bytes(), 8U << 20);
    co_await close_index();
  });
}

// Takes half a minute; run by hand.
TEST_F(DelayedIndexTest, DISABLED_TenMillionItemsStartInLessThanTwoSeconds) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_index());
    std::mt19937_64 random(1);
    const std::int64_t begin = now_ms() + 3'600'000;
    for (int i = 0; i < 10'000'000; ++i) {
      const Position p{1 + i / 50'000,
                       static_cast<EntryId>(i % 50'000) * 3 + static_cast<EntryId>(random() % 3)};
      while (!index->add(begin + static_cast<std::int64_t>(random() % 36'000'000), p))
        co_await sleep_for(Millis(1));
      if (i % 20'000 == 0) co_await turn();
    }
    co_await close_index();
    const auto start = std::chrono::steady_clock::now();
    CO_ASSERT_OK(co_await open_index());
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    std::printf("ten million loaded in %lld ms, %zu bytes, %zu runs\n",
                static_cast<long long>(took.count()), index->memory_bytes(), index->runs());
    EXPECT_LT(took.count(), 2000);
    EXPECT_EQ(index->size(), 10'000'000);
    co_await close_index();
  });
}

}  // namespace
}  // namespace geminga
