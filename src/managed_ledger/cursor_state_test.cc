#include "managed_ledger/cursor_state.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>

#include "managed_ledger/stored_form.h"

namespace geminga {
namespace {

LedgerList two_ledgers() {
  LedgerList list;
  list.push_back({.id = 1,
                  .entries = 3,
                  .bytes = 30,
                  .messages = 30,
                  .closed_ms = 1,
                  .messages_per_entry = 10});
  list.push_back({.id = 4});
  for (int i = 0; i < 3; ++i) list.entry_added(10, 10);
  return list;
}

TEST(CursorState, AcksOutOfOrderCollapseIntoMarkDelete) {
  const LedgerList list = two_ledgers();
  CursorState state(list);
  EXPECT_EQ(state.mark_delete(), (Position{1, -1}));
  EXPECT_TRUE(state.ack({1, 2}, 10));
  EXPECT_TRUE(state.ack({4, 0}, 10));
  EXPECT_EQ(state.acked_range_count(), 2U);
  EXPECT_TRUE(state.ack({1, 1}, 10));
  EXPECT_EQ(state.mark_delete(), (Position{1, -1}));
  EXPECT_EQ(state.next_unacked({1, 1}), (Position{4, 1}));
  EXPECT_TRUE(state.ack({1, 0}, 10));
  EXPECT_EQ(state.mark_delete(), (Position{4, 0}));
  EXPECT_EQ(state.acked_range_count(), 0U);
  EXPECT_EQ(state.backlog_entries(), 2);
  EXPECT_EQ(state.backlog_messages(), 20);
  EXPECT_FALSE(state.ack({1, 0}, 10));
  EXPECT_FALSE(state.ack({4, 3}, 10));  // not there yet
  EXPECT_FALSE(state.ack({2, 0}, 10));
}

TEST(CursorState, RedeliveryCountsGoWithTheAcknowledgement) {
  LedgerList list = two_ledgers();
  CursorState state(list);
  const auto count_of = [&](Position position) {
    const std::uint32_t* count = state.redeliveries().find(position);
    return count == nullptr ? 0 : *count;
  };
  for (const Position position : {Position{1, 0}, {1, 2}, {4, 1}, {4, 2}}) {
    EXPECT_TRUE(state.count_redelivery(position));
    EXPECT_TRUE(state.count_redelivery(position));
  }
  EXPECT_FALSE(state.count_redelivery({4, 3}));  // not there yet
  EXPECT_FALSE(state.count_redelivery({2, 0}));
  EXPECT_EQ(count_of({1, 2}), 2U);
  // Part of a batch: the entry is asked for again all the same.
  bool completed = false;
  const std::uint64_t one[] = {1};
  EXPECT_TRUE(state.ack_partly({1, 2}, one, 10, nullptr, &completed));
  EXPECT_EQ(count_of({1, 2}), 2U);
  EXPECT_TRUE(state.ack_partly({1, 2}, {}, 10, nullptr, &completed));
  EXPECT_EQ(count_of({1, 2}), 0U);
  EXPECT_FALSE(state.count_redelivery({1, 2}));
  EXPECT_TRUE(state.ack({4, 2}, 10));
  EXPECT_EQ(state.redeliveries().size(), 2U);
  EXPECT_TRUE(state.ack_cumulative({4, 0}));
  EXPECT_EQ(state.redeliveries().size(), 1U);
  EXPECT_EQ(count_of({4, 1}), 2U);
  state.reset({1, 0});
  EXPECT_TRUE(state.redeliveries().empty());
  EXPECT_TRUE(state.count_redelivery({1, 1}));
  EXPECT_TRUE(state.count_redelivery({4, 1}));
  list.drop_before(4);
  state.ledgers_dropped();
  EXPECT_EQ(state.redeliveries().size(), 1U);
  EXPECT_EQ(count_of({4, 1}), 1U);
}

TEST(CursorState, BeyondTheBoundTheLowestRedeliveryCountsAreNotKept) {
  LedgerList list;
  const auto entries = static_cast<EntryId>(kMaxRedeliveryCounts) + 2;
  list.push_back({.id = 1, .entries = entries, .messages = entries, .messages_per_entry = 1});
  CursorState state(list);
  for (EntryId entry = 0; entry < entries - 2; ++entry) {
    ASSERT_TRUE(state.count_redelivery({1, entry}));
  }
  EXPECT_EQ(state.redeliveries_not_kept(), 0U);
  EXPECT_FALSE(state.count_redelivery({1, entries - 1}));
  EXPECT_EQ(state.redeliveries_not_kept(), 1U);
  EXPECT_TRUE(state.count_redelivery({1, 77}));  // the others go on
  EXPECT_EQ(*state.redeliveries().find({1, 77}), 2U);
  EXPECT_TRUE(state.ack({1, 5}, 1));
  EXPECT_TRUE(state.count_redelivery({1, entries - 1}));
  EXPECT_EQ(state.redeliveries().size(), kMaxRedeliveryCounts);
  EXPECT_LE(state.memory_bytes(), kMaxRedeliveryCounts * 24 + 4096);
}

TEST(CursorState, BatchAcksMergeByAndAndCountOnce) {
  const LedgerList list = two_ledgers();
  CursorState state(list);
  std::uint32_t newly = 0;
  bool completed = false;
  const std::uint64_t even[] = {0b1010101010};
  const std::uint64_t low[] = {0b1111100000};
  const std::uint64_t all[] = {~0ULL, ~0ULL};
  EXPECT_FALSE(state.ack_partly({1, 1}, all, 10, &newly, &completed));  // nothing acknowledged
  EXPECT_EQ(state.ack_set({1, 1}), nullptr);
  EXPECT_TRUE(state.ack_partly({1, 1}, even, 10, &newly, &completed));
  EXPECT_EQ(newly, 5U);
  EXPECT_FALSE(state.ack_partly({1, 1}, even, 10, &newly, &completed));
  EXPECT_EQ(newly, 0U);
  EXPECT_TRUE(state.ack_partly({1, 1}, low, 10, &newly, &completed));
  EXPECT_EQ(newly, 2U);
  EXPECT_FALSE(completed);
  EXPECT_EQ(*state.ack_set({1, 1}), (AckSet{0b1010100000}));
  EXPECT_EQ(state.backlog_messages(), 53);
  EXPECT_EQ(state.backlog_entries(), 6);
  EXPECT_TRUE(state.ack_partly({1, 1}, {}, 10, &newly, &completed));
  EXPECT_TRUE(completed);
  EXPECT_EQ(newly, 3U);
  EXPECT_EQ(state.ack_set({1, 1}), nullptr);
  EXPECT_EQ(state.backlog_messages(), 50);
  // A whole ack takes only what is left.
  EXPECT_TRUE(state.ack_partly({1, 2}, even, 10, &newly, &completed));
  EXPECT_TRUE(state.ack({1, 2}, 10));
  EXPECT_EQ(state.backlog_messages(), 40);
  state.ack_cumulative({1, 0});
  EXPECT_EQ(state.mark_delete(), (Position{1, 2}));
  EXPECT_EQ(state.backlog_messages(), 30);
}

TEST(CursorState, OnesBeyondABatchOfUnknownSizeAreDroppedWhenItIsCounted) {
  LedgerList list;
  list.push_back({.id = 1});
  list.entry_added(10, 3);
  list.entry_added(10, 5);
  CursorState state(list);
  std::uint32_t newly = 0;
  bool completed = false;
  const std::uint64_t but_one[] = {~0b10ULL};
  const std::uint64_t all[] = {~0ULL};
  EXPECT_TRUE(state.ack_partly({1, 0}, but_one, 0, &newly, &completed));
  EXPECT_TRUE(state.ack_partly({1, 1}, all, 0, &newly, &completed));
  EXPECT_FALSE(completed);
  EXPECT_FALSE(state.exact());
  state.begin_count();
  const auto share = state.next_share();
  ASSERT_TRUE(share.has_value());
  ASSERT_EQ(share->unsized.size(), 2U);
  std::int64_t counted = 0;
  for (const auto& [entry, left] : share->unsized) {
    const std::int64_t messages = entry == 0 ? 3 : 5;
    counted += messages - left;
    counted += state.sized({1, entry}, static_cast<std::uint32_t>(messages));
  }
  state.add_counted(counted);
  EXPECT_FALSE(state.next_share().has_value());
  state.end_count();
  EXPECT_TRUE(state.exact());
  EXPECT_EQ(state.backlog_messages(), 7);
  EXPECT_EQ(*state.ack_set({1, 0}), (AckSet{0b101}));
  EXPECT_EQ(state.ack_set({1, 1}), nullptr);  // nothing of it was acknowledged
}

TEST(CursorState, CumulativeBeyondTheEndIsCutAndResetForgets) {
  const LedgerList list = two_ledgers();
  CursorState state(list);
  state.ack({4, 1}, 10);
  EXPECT_TRUE(state.ack_cumulative(Position::latest()));
  EXPECT_EQ(state.mark_delete(), (Position{4, 2}));
  EXPECT_EQ(state.backlog_messages(), 0);
  EXPECT_FALSE(state.ack_cumulative({1, 1}));
  state.reset({1, 0});
  EXPECT_EQ(state.backlog_entries(), 5);
  EXPECT_EQ(state.backlog_messages(), 50);
  EXPECT_TRUE(state.exact());
}

// ---- against a naive model ----

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {
    new_ledger();
    for (int i = 0; i < 40; ++i) append();
    state_ = std::make_unique<CursorState>(list_);
    state_->reset({list_.front().id, -1});
  }

  void step() {
    switch (below(24)) {
      case 0:
      case 1:
      case 2: append(); break;
      case 3:
        if (below(6) == 0) new_ledger();
        break;
      case 4:
        if (below(4) == 0) cumulative();
        break;
      case 5:
        if (below(30) == 0) reset();
        break;
      case 6: trim(); break;
      case 7:
        if (below(8) == 0) store_and_load();
        break;
      case 8:
      case 9:
      case 10:
      case 11:
      case 12: partly(); break;
      default: ack(below(12) != 0);
    }
  }

  // Counts anew as the owner does, with steps in between.
  void settle() {
    while (!state_->exact()) {
      state_->begin_count();
      while (auto share = state_->next_share()) {
        std::int64_t counted = share->partly;
        for (EntryId e = 0; e <= share->through; ++e) counted += at({share->ledger, e}).messages;
        for (const auto& [first, last] : share->ranges) {
          for (EntryId e = first; e <= last; ++e) counted += at({share->ledger, e}).messages;
        }
        for (const auto& [entry, left] : share->unsized) {
          const std::int64_t messages = at({share->ledger, entry}).messages;
          meanwhile();
          counted += messages - left;  // may be negative: `left` counts ones beyond the batch's end
          counted += state_->sized({share->ledger, entry}, static_cast<std::uint32_t>(messages));
        }
        meanwhile();
        state_->add_counted(counted);
      }
      state_->end_count();
    }
  }

  void check() {
    settle();
    for (auto& [position, entry] : entries_) entry.unsure = false;
    std::int64_t entries = 0;
    std::int64_t messages = 0;
    Position first{-2, 0};
    std::size_t ranges = 0;
    bool in_range = false;
    LedgerId ledger = -1;
    for (const auto& [position, entry] : entries_) {
      if (!list_.exists(position)) continue;
      ASSERT_EQ(state_->is_acked(position), entry.left.empty()) << position.to_string();
      if (position.ledger != ledger) in_range = false;
      ledger = position.ledger;
      const bool beyond = position > state_->mark_delete() && entry.left.empty();
      if (beyond && !in_range) ++ranges;
      in_range = beyond;
      if (entry.left.empty()) continue;
      ++entries;
      messages += static_cast<std::int64_t>(entry.left.size());
      if (first.ledger == -2) first = position;
      const AckSet* set = state_->ack_set(position);
      if (entry.left.size() == entry.messages) {
        ASSERT_EQ(set, nullptr);
      } else {
        ASSERT_NE(set, nullptr) << position.to_string();
        for (std::uint32_t i = 0; i < entry.messages; ++i) {
          ASSERT_EQ(i / 64 < set->size() && ((*set)[i / 64] >> (i % 64) & 1) != 0,
                    entry.left.contains(i));
        }
      }
    }
    if (first.ledger == -2) first = list_.end_position();
    ASSERT_EQ(state_->next_unacked(Position::earliest()), first);
    ASSERT_EQ(state_->backlog_entries(), entries);
    ASSERT_EQ(state_->backlog_messages(), messages);
    ASSERT_EQ(state_->acked_range_count(), ranges);
  }

 private:
  struct Entry {
    std::uint32_t messages = 1;
    std::set<std::uint32_t> left;
    bool unsure = false;  // acknowledged without its size: what calls return is not known
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  // What comes between a share and its number.
  void meanwhile() {
    if (below(3) == 0) ack(below(4) != 0);
    if (below(3) == 0) partly();
    if (below(40) == 0) cumulative();
  }
  Entry& at(Position position) { return entries_.at(position); }

  void new_ledger() {
    if (!list_.empty()) {
      const LedgerSlot& last = list_.back();
      list_.close_back(last.entries, last.bytes, last.messages, 1);
    }
    list_.push_back({.id = next_id_});
    next_id_ += 1 + static_cast<LedgerId>(below(3));
    mixed_ = below(2) == 0;
    batch_ = 1 + static_cast<std::uint32_t>(below(100));
  }
  void append() {
    Entry entry;
    entry.messages = mixed_ ? 1 + static_cast<std::uint32_t>(below(100)) : batch_;
    for (std::uint32_t i = 0; i < entry.messages; ++i) entry.left.insert(i);
    entries_[{list_.back().id, list_.back().entries}] = entry;
    list_.entry_added(10, entry.messages);
  }
  Position any() {
    if (list_.total_entries() == 0) return list_.end_position();
    const auto span = static_cast<std::uint64_t>(list_.total_entries());
    return list_.position_at(list_.first_index() + static_cast<std::int64_t>(below(span)));
  }
  void ack(bool known) {
    const Position position = any();
    if (!list_.exists(position)) return;
    Entry& entry = at(position);
    const bool changed = state_->ack(position, known ? entry.messages : 0);
    if (!entry.unsure) {
      ASSERT_EQ(changed, !entry.left.empty());
    }
    entry.left.clear();
  }
  void partly() {
    const Position position = any();
    if (!list_.exists(position)) return;
    Entry& entry = at(position);
    AckSet remaining((entry.messages + 63) / 64, ~std::uint64_t{0});
    std::uint32_t expected = 0;
    for (int i = 0; i < 5; ++i) {
      const auto index = static_cast<std::uint32_t>(below(entry.messages));
      remaining[index / 64] &= ~(std::uint64_t{1} << (index % 64));
      expected += static_cast<std::uint32_t>(entry.left.erase(index));
    }
    std::uint32_t newly = 0;
    bool completed = false;
    const std::uint32_t size = below(8) == 0 ? 0 : entry.messages;
    const bool changed = state_->ack_partly(position, remaining, size, &newly, &completed);
    if (size == 0) entry.unsure = true;
    if (entry.unsure) return;
    ASSERT_EQ(changed, expected > 0);
    ASSERT_EQ(newly, expected);
    ASSERT_EQ(completed, expected > 0 && entry.left.empty());
  }
  void cumulative() {
    const Position position = any();
    state_->ack_cumulative(position);
    for (auto& [at, entry] : entries_) {
      if (at <= position) entry.left.clear();
    }
  }
  void reset() {
    const Position next = any();
    state_->reset(list_.previous(next));
    for (auto& [position, entry] : entries_) {
      entry.left.clear();
      if (position < next) continue;
      for (std::uint32_t i = 0; i < entry.messages; ++i) entry.left.insert(i);
    }
  }
  void trim() {
    const LedgerId needed = state_->next_unacked(Position::earliest()).ledger;
    list_.drop_before(needed);
    state_->ledgers_dropped();
  }
  void store_and_load() {
    bool complete = false;
    StoredStateLimits limits;
    if (below(2) == 0) limits.max_ranges = 0;  // as bit sets
    const std::string bytes = encode_position_info(*state_, {}, limits, &complete);
    ASSERT_TRUE(complete);
    auto loaded = std::make_unique<CursorState>(list_);
    PositionProperties properties;
    ASSERT_TRUE(decode_position_info(bytes, *loaded, properties).is_ok());
    if (state_->exact()) {
      ASSERT_TRUE(loaded->exact());
      ASSERT_EQ(loaded->backlog_messages(), state_->backlog_messages());
    }
    state_ = std::move(loaded);
  }

  std::mt19937 random_;
  LedgerList list_;
  LedgerId next_id_ = 5;
  bool mixed_ = false;
  std::uint32_t batch_ = 1;
  std::map<Position, Entry> entries_;
  std::unique_ptr<CursorState> state_;
};

TEST(CursorState, AgreesWithANaiveModel) {
  const char* given = std::getenv("GEMINGA_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  for (unsigned round = 0; round < 40; ++round) {
    SCOPED_TRACE("GEMINGA_TEST_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    Model model(seed + round * 7919);
    for (int i = 0; i < 400; ++i) {
      model.step();
      if (i % 10 == 0) model.check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CursorState, AMillionRandomHolesOverLedgersStaySmall) {
  LedgerList list;
  std::mt19937 random(3);
  constexpr EntryId kEntries = 50'000;  // a ledger of the default size
  constexpr int kLedgers = 100;
  for (int i = 0; i < kLedgers; ++i) {
    list.push_back({.id = i,
                    .entries = kEntries,
                    .bytes = 1,
                    .messages = kEntries,
                    .closed_ms = 1,
                    .messages_per_entry = 1});
  }
  CursorState state(list);
  for (int i = 0; i < 2'000'000; ++i) {
    state.ack(list.position_at(static_cast<std::int64_t>(random() % (kEntries * kLedgers))), 1);
  }
  const double bytes =
      static_cast<double>(state.memory_bytes()) / static_cast<double>(state.acked_range_count());
  std::printf("%zu ranges, %zu bytes, %.2f bytes a hole\n", state.acked_range_count(),
              state.memory_bytes(), bytes);
  EXPECT_GT(state.acked_range_count(), 1'000'000U);
  EXPECT_LT(bytes, 2.0);
  bool complete = false;
  const std::string stored = encode_position_info(state, {}, {}, &complete);
  EXPECT_TRUE(complete);
  EXPECT_LT(stored.size(), 1'200'000U);
}

}  // namespace
}  // namespace geminga
