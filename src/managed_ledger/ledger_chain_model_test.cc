// Random lives of a managed ledger against a naive model: publishing, acknowledging in every way,
// seeking, trimming, clean restarts and crashes. Numbers must be exact at all times, what was
// flushed must come back.
#include <cstdlib>
#include <random>
#include <set>

#include "managed_ledger/ledger_chain.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::LedgerWorld;

struct ModelEntry {
  std::uint32_t messages = 1;
  std::set<std::uint32_t> left;
};
using ModelState = std::map<Position, ModelEntry>;

class LedgerChainModelTest : public LedgerWorld {
 protected:
  std::uint64_t below(std::uint64_t n) { return random() % n; }

  Task<void> publish() {
    const int n = 1 + static_cast<int>(below(8));
    std::vector<std::uint32_t> counts;
    for (int i = 0; i < n; ++i) {
      counts.push_back(below(2) == 0 ? 1 : 1 + static_cast<std::uint32_t>(below(90)));
      append(std::to_string(next_text++), counts.back());
    }
    co_await settled();
    for (int i = 0; i < n; ++i) {
      const auto& outcome = sink.outcomes[sink.outcomes.size() - static_cast<std::size_t>(n - i)];
      EXPECT_OK(outcome.status);
      ModelEntry entry;
      entry.messages = counts[static_cast<std::size_t>(i)];
      for (std::uint32_t m = 0; m < entry.messages; ++m) entry.left.insert(m);
      now.emplace(outcome.position, entry);
      flushed.emplace(outcome.position,
                      std::move(entry));  // a new entry is unacknowledged on disk, too
    }
  }

  Position any() {
    if (now.empty()) return {0, 0};
    return std::next(now.begin(), static_cast<std::ptrdiff_t>(below(now.size())))->first;
  }

  void ack() {
    const auto at = now.find(any());
    if (at == now.end()) return;
    const bool known = below(20) != 0;
    EXPECT_EQ(cursor->ack(at->first, known ? at->second.messages : 0), !at->second.left.empty());
    at->second.left.clear();
  }
  void partly() {
    const auto at = now.find(any());
    if (at == now.end()) return;
    ModelEntry& entry = at->second;
    AckSet remaining((entry.messages + 63) / 64, ~std::uint64_t{0});
    std::uint32_t expected = 0;
    for (std::uint64_t i = below(10); i > 0; --i) {
      const auto index = static_cast<std::uint32_t>(below(entry.messages));
      remaining[index / 64] &= ~(std::uint64_t{1} << (index % 64));
      expected += static_cast<std::uint32_t>(entry.left.erase(index));
    }
    std::uint32_t newly = 0;
    EXPECT_EQ(cursor->ack_partly(at->first, remaining, entry.messages, &newly),
              expected > 0 && entry.left.empty());
    EXPECT_EQ(newly, expected);
  }
  void cumulative() {
    const Position position = any();
    cursor->ack_cumulative(position);
    for (auto& [at, entry] : now) {
      if (at <= position) entry.left.clear();
    }
  }
  Task<void> seek() {
    const Position position = any();
    EXPECT_OK(co_await cursor->reset(position));
    for (auto& [at, entry] : now) {
      entry.left.clear();
      if (at < position) continue;
      for (std::uint32_t i = 0; i < entry.messages; ++i) entry.left.insert(i);
    }
    flushed = now;
  }
  void forget_trimmed() {
    const Position first = ledger->first_position();
    for (ModelState* state : {&now, &flushed}) {
      while (!state->empty() && state->begin()->first < first) {
        EXPECT_TRUE(state != &now || state->begin()->second.left.empty())
            << "trimmed before it was acknowledged";
        state->erase(state->begin());
      }
    }
  }

  Task<void> check() {
    EXPECT_TRUE(co_await eventually([&] { return cursor->backlog_is_exact(); }));
    forget_trimmed();
    std::int64_t entries = 0;
    std::int64_t messages = 0;
    std::optional<Position> first;
    for (const auto& [position, entry] : now) {
      EXPECT_EQ(cursor->is_acked(position), entry.left.empty()) << position.to_string();
      entries += entry.left.empty() ? 0 : 1;
      messages += static_cast<std::int64_t>(entry.left.size());
      if (!first && !entry.left.empty()) first = position;
      const AckSet* set = cursor->ack_set(position);
      EXPECT_EQ(set != nullptr, !entry.left.empty() && entry.left.size() < entry.messages);
    }
    EXPECT_EQ(cursor->backlog_entries(), entries);
    EXPECT_EQ(cursor->backlog_messages(), messages);
    EXPECT_EQ(cursor->first_unacked(), first.value_or(ledger->next(ledger->last_confirmed())));
    EXPECT_EQ(ledger->total_entries(), static_cast<std::int64_t>(now.size()));
  }

  std::mt19937 random;
  std::shared_ptr<ManagedCursor> cursor;
  ModelState now;
  ModelState flushed;
};

TEST_F(LedgerChainModelTest, RandomLives) {
  const char* given = std::getenv("GEMINGA_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  config.max_entries_per_ledger = 15;
  config.cursor_flush_ms = 3'600'000;  // flushes are the test's own
  for (unsigned round = 0; round < 12 && !HasFailure(); ++round) {
    SCOPED_TRACE("GEMINGA_TEST_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    random.seed(seed + round * 7919);
    now.clear();
    flushed.clear();
    run([&]() -> Task<void> {
      CO_ASSERT_OK(co_await open("t/n/persistent/r" + std::to_string(round)));
      auto opened = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
      CO_ASSERT_OK(opened);
      cursor = std::move(*opened);
      for (int step = 0; step < 150 && !HasFailure(); ++step) {
        switch (below(30)) {
          case 0:
          case 1:
          case 2:
          case 3: co_await publish(); break;
          case 4:
            if (below(3) == 0) cumulative();
            break;
          case 5:
            if (below(10) == 0) co_await seek();
            break;
          case 6:
            EXPECT_OK(co_await cursor->flush());
            flushed = now;
            break;
          case 7: EXPECT_OK(co_await ledger->trim()); break;
          case 8:
            if (below(2) == 0) {
              cursor.reset();
              CO_ASSERT_OK(co_await close());
              CO_ASSERT_OK(co_await open("t/n/persistent/r" + std::to_string(round)));
              cursor = ledger->cursor("s");
              flushed = now;
            }
            break;
          case 9:
            if (below(2) == 0) {
              forget_trimmed();
              cursor.reset();
              faults->crash_at(0, false);
              (void)co_await ledger->close();
              ledger.reset();
              faults->heal();
              start_stores();
              CO_ASSERT_OK(co_await open("t/n/persistent/r" + std::to_string(round)));
              cursor = ledger->cursor("s");
              now = flushed;
              forget_trimmed();
            }
            break;
          case 10:
          case 11:
          case 12:
          case 13: partly(); break;
          default: ack();
        }
        co_await check();
      }
      cursor.reset();
      EXPECT_OK(co_await close());
    });
  }
}

}  // namespace
}  // namespace geminga
