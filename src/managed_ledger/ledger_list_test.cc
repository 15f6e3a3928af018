#include "managed_ledger/ledger_list.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

// 3: 4 entries of 10 messages; 5: empty; 7: 2 entries, mixed; 9: the current one with 3 entries.
LedgerList sample() {
  LedgerList list;
  list.push_back({.id = 3,
                  .entries = 4,
                  .bytes = 400,
                  .messages = 40,
                  .closed_ms = 1,
                  .messages_per_entry = 10});
  list.push_back({.id = 5, .closed_ms = 1});
  list.push_back({.id = 7, .entries = 2, .bytes = 20, .messages = 5, .closed_ms = 1});
  list.push_back({.id = 9});
  for (int i = 0; i < 3; ++i) list.entry_added(7, 1);
  return list;
}

TEST(LedgerList, StepsOverEndsEmptyAndMissingLedgers) {
  const LedgerList list = sample();
  EXPECT_EQ(list.first_position(), (Position{3, 0}));
  EXPECT_EQ(list.last_confirmed(), (Position{9, 2}));
  EXPECT_EQ(list.end_position(), (Position{9, 3}));
  EXPECT_EQ(list.next({3, 0}), (Position{3, 1}));
  EXPECT_EQ(list.next({3, 3}), (Position{7, 0}));
  EXPECT_EQ(list.next({4, 17}), (Position{7, 0}));
  EXPECT_EQ(list.next({9, 2}), (Position{9, 3}));
  EXPECT_EQ(list.next(Position::earliest()), (Position{3, 0}));
  EXPECT_EQ(list.next(Position::latest()), (Position{9, 3}));
  EXPECT_EQ(list.normalize({5, 0}), (Position{7, 0}));
  EXPECT_EQ(list.normalize({3, 99}), (Position{7, 0}));
  EXPECT_EQ(list.normalize({1, 1}), (Position{3, 0}));
  EXPECT_EQ(list.previous({7, 0}), (Position{3, 3}));
  EXPECT_EQ(list.previous({8, 0}), (Position{7, 1}));
  EXPECT_EQ(list.previous({3, 0}), (Position{3, -1}));
  EXPECT_EQ(list.previous({9, 50}), (Position{9, 2}));
  EXPECT_TRUE(list.exists({7, 1}));
  EXPECT_FALSE(list.exists({7, 2}));
  EXPECT_FALSE(list.exists({7, -1}));
  EXPECT_FALSE(list.exists({6, 0}));
}

TEST(LedgerList, CountsByRunningSums) {
  LedgerList list = sample();
  EXPECT_EQ(list.total_entries(), 9);
  EXPECT_EQ(list.total_messages(), 48);
  EXPECT_EQ(list.total_bytes(), 441);
  EXPECT_EQ(list.entries_between({3, 0}, {9, 0}), 6);
  EXPECT_EQ(list.entries_between(Position::earliest(), Position::latest()), 9);
  EXPECT_EQ(list.entries_between({9, 0}, {3, 0}), 0);
  EXPECT_EQ(list.messages_through({3, 1}), 20);
  EXPECT_EQ(list.messages_through({7, 0}), std::nullopt);  // mixed
  EXPECT_EQ(list.messages_through({7, 1}), 45);
  EXPECT_EQ(list.messages_through({9, 0}), 46);
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(list.index_after(list.position_at(i)), i + 1);

  // Dropping ledgers in front moves no index.
  list.drop_before(7);
  EXPECT_EQ(list.first_index(), 4);
  EXPECT_EQ(list.index_after({9, 2}), 9);
  EXPECT_EQ(list.index_after({3, 2}), 4);
  EXPECT_EQ(list.total_entries(), 5);
  EXPECT_EQ(list.position_at(4), (Position{7, 0}));
  EXPECT_EQ(list.previous({7, 0}), (Position{7, -1}));
}

TEST(LedgerList, AnEmptyLogHasItsFirstLedgersBeginning) {
  LedgerList list;
  list.push_back({.id = 20});
  EXPECT_EQ(list.last_confirmed(), (Position{20, -1}));
  EXPECT_EQ(list.first_position(), (Position{20, 0}));
  EXPECT_EQ(list.next({20, -1}), (Position{20, 0}));
}

TEST(LedgerList, OneEntryThatCountsDifferentlyMakesALedgerMixed) {
  LedgerList list;
  list.push_back({.id = 1});
  list.entry_added(1, 5);
  list.entry_added(1, 5);
  list.entry_added(1, 5);
  EXPECT_EQ(list.messages_through({1, 1}), 10);
  list.entry_added(1, 6);
  EXPECT_EQ(list.messages_through({1, 1}), std::nullopt);
  EXPECT_EQ(list.messages_through({1, 3}), 21);
}

}  // namespace
}  // namespace geminga
