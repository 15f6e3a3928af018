// Where a cursor's state is kept, when, and how it comes back.
#include "managed_ledger/chain_cursor.h"

#include "managed_ledger/ledger_chain.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::Fault;
using testing::LedgerWorld;

class ChainCursorTest : public LedgerWorld {
 protected:
  Task<std::shared_ptr<ManagedCursor>> cursor_s() {
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    if (!cursor) ADD_FAILURE() << cursor.status().to_string();
    co_return *cursor;
  }
  pulsar::ml::ManagedCursorInfo key() {
    return *parse_cursor_info(tree->keys.at("/managed-ledgers/t/n/persistent/x/s").value, "s");
  }
  std::size_t entries_of(LedgerId id) { return ledgers->ledgers.at(id)->entries.size(); }
};

TEST_F(ChainCursorTest, TheFirstAckMakesALedgerALaterOneAppends) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    EXPECT_EQ(key().cursorsledgerid(), -1);
    EXPECT_EQ(key().markdeleteentryid(), -1);
    co_await append_and_settle(10);
    EXPECT_EQ(store->list().size(), 1U);
    cursor->ack({0, 0}, 1);
    CO_ASSERT_OK(co_await cursor->flush());
    const LedgerId id = key().cursorsledgerid();
    EXPECT_EQ(store->list().size(), 2U);
    EXPECT_EQ(key().markdeleteentryid(), 0);
    EXPECT_EQ(key().individualdeletedmessages_size(), 0);
    EXPECT_EQ(ledgers->ledgers.at(id)->metadata.at("pulsar/cursor"), "s");
    EXPECT_EQ(ledgers->ledgers.at(id)->metadata.at("pulsar/managed-ledger"), "t/n/persistent/x");
    EXPECT_EQ(entries_of(id), 1U);
    cursor->ack({0, 5}, 1);
    cursor->ack({0, 7}, 1);
    CO_ASSERT_OK(co_await cursor->flush());
    CO_ASSERT_OK(co_await cursor->flush());  // nothing to do
    EXPECT_EQ(entries_of(id), 2U);
    EXPECT_EQ(key().cursorsledgerid(), id);
    // A clean close puts all into the key.
    cursor.reset();
    CO_ASSERT_OK(co_await close());
    EXPECT_EQ(key().cursorsledgerid(), -1);
    EXPECT_EQ(key().individualdeletedmessages_size(), 2);
    EXPECT_EQ(store->list().size(), 1U);
    // And one that nothing happened to is not written again.
    CO_ASSERT_OK(co_await open());
    const auto version = tree->keys.at("/managed-ledgers/t/n/persistent/x/s").stat.version;
    CO_ASSERT_OK(co_await close());
    EXPECT_EQ(tree->keys.at("/managed-ledgers/t/n/persistent/x/s").stat.version, version);
  });
}

TEST_F(ChainCursorTest, AnIdleCursorHasNoTimerAndNoIo) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(3);
    const int steps = faults->steps();
    co_await sleep_for(Millis(30));
    EXPECT_EQ(faults->steps(), steps);
    cursor->ack({0, 0}, 1);
    EXPECT_TRUE(co_await persisted(cursor));
    co_await sleep_for(Millis(5));
    const int after = faults->steps();
    EXPECT_EQ(after - steps, 3);  // create, append, put
    co_await sleep_for(Millis(30));
    EXPECT_EQ(faults->steps(), after);
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, ManyAcksAreOneEntryAFlush) {
  config.cursor_flush_ms = 20;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(1000);
    for (int i = 0; i < 1000; ++i) cursor->ack({0, i}, 1);
    EXPECT_TRUE(co_await persisted(cursor));
    EXPECT_EQ(entries_of(key().cursorsledgerid()), 1U);
    EXPECT_EQ(cursor->backlog_entries(), 0);
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, ALargeStateStaysInItsLedgerAndTheLedgerRolls) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(12'000);
    for (int i = 1; i < 12'000; i += 2) cursor->ack({0, i}, 1);
    CO_ASSERT_OK(co_await cursor->flush());
    const LedgerId first = key().cursorsledgerid();
    for (int i = 0; i < 40; ++i) {  // 6000 ranges, 100 KB a state: a new ledger every 16 states
      cursor->ack({0, 4000 + 2 * i}, 1);
      CO_ASSERT_OK(co_await cursor->flush());
    }
    EXPECT_GT(key().cursorsledgerid(), first + 1);
    EXPECT_LE(entries_of(key().cursorsledgerid()), 17U);
    EXPECT_EQ(store->list().size(), 2U);  // the superseded ones are gone
    const auto ranges = cursor->acked_range_count();
    const auto backlog = cursor->backlog_entries();
    cursor.reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_NE(key().cursorsledgerid(), -1);
    EXPECT_EQ(ledger->cursor("s")->acked_range_count(), ranges);
    EXPECT_EQ(ledger->cursor("s")->backlog_entries(), backlog);
    EXPECT_EQ(ledger->cursor("s")->backlog_messages(), backlog);
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(ledger->cursor("s")->acked_range_count(), ranges);
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, ALostOrDamagedCursorLedgerLeavesTheSnapshot) {
  for (const bool damaged : {false, true}) {
    run([&]() -> Task<void> {
      tree->keys.clear();
      CO_ASSERT_OK(co_await open());
      auto cursor = co_await cursor_s();
      co_await append_and_settle(10);
      const LedgerId data = ledger->first_position().ledger;
      cursor->ack_cumulative({data, 2});
      CO_ASSERT_OK(co_await cursor->flush());  // the snapshot
      cursor->ack_cumulative({data, 5});
      CO_ASSERT_OK(co_await cursor->flush());
      cursor.reset();
      const LedgerId id = key().cursorsledgerid();
      faults->crash_at(0, false);
      (void)co_await close();
      faults->heal();
      if (damaged) {
        ledgers->ledgers.at(id)->entries.back().data = Buffer::of_static("\xff\xff\xff");
      } else {
        ledgers->ledgers.erase(id);
      }
      CO_ASSERT_OK(co_await open());
      EXPECT_EQ(ledger->cursor("s")->mark_delete(), (Position{data, 2}));
      EXPECT_EQ(ledger->cursor("s")->backlog_messages(), 7);
      EXPECT_OK(co_await close());
    });
  }
}

TEST_F(ChainCursorTest, LatestEarliestAndStart) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    co_await append_and_settle(10);
    auto latest = co_await ledger->open_cursor("latest", InitialPosition::Latest, {});
    auto earliest = co_await ledger->open_cursor("earliest", InitialPosition::Earliest, {});
    auto from = co_await ledger->open_cursor("from", InitialPosition::Latest, {}, Position{0, 4});
    EXPECT_EQ((*latest)->mark_delete(), (Position{0, 9}));
    EXPECT_EQ((*earliest)->mark_delete(), (Position{0, -1}));
    EXPECT_EQ((*from)->first_unacked(), (Position{0, 4}));
    EXPECT_EQ((*from)->backlog_messages(), 6);
    EXPECT_EQ(ledger->cursors().size(), 3U);
    auto again = co_await ledger->open_cursor("from", InitialPosition::Latest, {});
    EXPECT_EQ((*again).get(), (*from).get());
    co_await append_and_settle(1);
    EXPECT_EQ((*latest)->backlog_messages(), 1);
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, ResetIsDurableAndForgetsWhatWasBeyond) {
  config.max_entries_per_ledger = 4;
  config.retention_ms = -1;
  config.retention_bytes = -1;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(10);
    cursor->ack_cumulative(Position::latest());
    const Position third = ledger->normalize(Position{0, 2});
    CO_ASSERT_OK(co_await cursor->reset(third));
    EXPECT_EQ(cursor->first_unacked(), third);
    EXPECT_EQ(cursor->backlog_entries(), 8);
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    cursor = ledger->cursor("s");
    EXPECT_EQ(cursor->first_unacked(), third);
    CO_ASSERT_OK(co_await cursor->reset(Position::latest()));
    EXPECT_EQ(cursor->backlog_entries(), 0);
    CO_ASSERT_OK(co_await cursor->reset(Position::earliest()));
    EXPECT_EQ(cursor->backlog_entries(), 10);
    EXPECT_EQ(cursor->first_unacked(), ledger->first_position());
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, PropertiesOfBothKindsAreKept) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    std::map<std::string, std::string> text;
    text["a"] = "b";
    std::map<std::string, std::int64_t> numbers;
    numbers["CompactedTopicLedger"] = 17;
    CO_ASSERT_OK(co_await cursor->set_properties(text));
    cursor->set_position_properties(numbers);
    CO_ASSERT_OK(co_await cursor->flush());
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(ledger->cursor("s")->properties(), text);
    EXPECT_EQ(ledger->cursor("s")->position_properties(), numbers);
    CO_ASSERT_OK(co_await reopen());
    EXPECT_EQ(ledger->cursor("s")->properties(), text);
    EXPECT_EQ(ledger->cursor("s")->position_properties(), numbers);
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, DeletedIsGoneWithItsLedger) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(3);
    cursor->ack({0, 1}, 1);
    CO_ASSERT_OK(co_await cursor->flush());
    cursor->ack({0, 2}, 1);  // dirty, with the timer running
    CO_ASSERT_OK(co_await ledger->delete_cursor("s"));
    const Status status = co_await ledger->delete_cursor("s");
    EXPECT_TRUE(status.is(ErrorCode::NotFound));
    cursor->ack({0, 0}, 1);
    co_await sleep_for(Millis(10));
    EXPECT_EQ(store->list().size(), 1U);
    EXPECT_EQ(tree->keys.size(), 1U);
    EXPECT_EQ(ledger->cursor("s"), nullptr);
    cursor.reset();
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, RedeliveryCountsOutliveACrashAndACleanEnd) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(10);
    const auto count_of = [&](EntryId entry) {
      const auto* count = ledger->cursor("s")->redeliveries().find({0, entry});
      return count == nullptr ? 0 : *count;
    };
    // A count alone is flushed by the timer.
    cursor->count_redelivery({0, 4});
    cursor->count_redelivery({0, 4});
    cursor->count_redelivery({0, 7});
    EXPECT_TRUE(static_cast<const ChainCursor&>(*cursor).dirty());
    EXPECT_TRUE(co_await persisted(cursor));
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(count_of(4), 2U);
    EXPECT_EQ(count_of(7), 1U);
    // What was counted in the last moment before a clean end is kept, too.
    cursor = ledger->cursor("s");
    cursor->count_redelivery({0, 4});
    cursor->ack({0, 7}, 1);
    cursor.reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_EQ(count_of(4), 3U);
    EXPECT_EQ(count_of(7), 0U);
    EXPECT_EQ(key().cursorsledgerid(), -1);
    // Seek forgets them durably.
    cursor = ledger->cursor("s");
    CO_ASSERT_OK(co_await cursor->reset({0, 0}));
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_TRUE(ledger->cursor("s")->redeliveries().empty());
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, ManyRedeliveryCountsAreKeptInALedgerAndAcksGoOnWithoutOne) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    const int many = static_cast<int>(kMaxRedeliveriesInKey) + 1;
    co_await append_and_settle(many);
    for (EntryId entry = 0; entry < many; ++entry) cursor->count_redelivery({0, entry});
    cursor.reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_GE(key().cursorsledgerid(), 0);
    cursor = ledger->cursor("s");
    EXPECT_EQ(cursor->redeliveries().size(), kMaxRedeliveriesInKey + 1);
    // Without a ledger they would not fit: the acknowledgement is what counts.
    faults->decide = [](const std::string& op, const std::string&) -> std::optional<Fault> {
      if (op == "create") return Fault{Status::DiskFull("full")};
      return std::nullopt;
    };
    cursor->count_redelivery({0, 3});
    cursor->ack_cumulative({0, 0});
    cursor->count_redelivery({0, 3});
    cursor->ack({0, 5}, 1);
    for (int i = 0; i < 3; ++i) cursor->count_redelivery({0, 0});  // ignored
    append("more");
    co_await settled();
    cursor->count_redelivery(sink.outcomes.back().position);
    EXPECT_EQ(cursor->redeliveries().size(), kMaxRedeliveriesInKey);
    cursor->count_redelivery({0, 9});
    EXPECT_OK(co_await cursor->flush());
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_TRUE(ledger->cursor("s")->is_acked({0, 5}));
    EXPECT_EQ(ledger->cursor("s")->redeliveries().size(), kMaxRedeliveriesInKey);
    EXPECT_EQ(*ledger->cursor("s")->redeliveries().find({0, 3}), 3U);
    EXPECT_OK(co_await close());
  });
}

TEST_F(ChainCursorTest, AcksWithoutACountSettleExactly) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    std::int64_t total = 0;
    for (std::uint32_t i = 1; i <= 50; ++i) {
      append("x", i);
      total += i;
    }
    co_await settled();
    EXPECT_EQ(cursor->backlog_messages(), total);
    EXPECT_TRUE(cursor->ack({0, 9}));
    EXPECT_TRUE(cursor->ack({0, 19}));
    EXPECT_TRUE(co_await eventually([&] { return cursor->backlog_is_exact(); }));
    EXPECT_EQ(cursor->backlog_messages(), total - 30);
    cursor->ack_cumulative({0, 14});
    EXPECT_TRUE(co_await eventually([&] { return cursor->backlog_is_exact(); }));
    EXPECT_EQ(cursor->backlog_messages(), total - 120 - 20);
    auto other = ledger->new_non_durable_cursor("r", {0, 10});
    EXPECT_TRUE(co_await eventually([&] { return other->backlog_is_exact(); }));
    EXPECT_EQ(other->backlog_messages(), total - 55);
    // What Java wrote has no counts: they are counted at opening.
    cursor.reset();
    other.reset();
    CO_ASSERT_OK(co_await close());
    auto info = key();
    info.clear_gemingaackedmessages();
    tree->keys.at("/managed-ledgers/t/n/persistent/x/s").value = info.SerializeAsString();
    CO_ASSERT_OK(co_await open());
    cursor = ledger->cursor("s");
    EXPECT_TRUE(co_await eventually([&] { return cursor->backlog_is_exact(); }));
    EXPECT_EQ(cursor->backlog_messages(), total - 120 - 20);
    EXPECT_OK(co_await close());
  });
}

// Both or neither, and in the key, where whoever looks for ledgers in use sees it.
TEST_F(ChainCursorTest, CommitsPositionAndNumbersAtOnce) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await cursor_s();
    co_await append_and_settle(10);
    cursor->ack({0, 0});
    EXPECT_TRUE(co_await persisted(cursor));
    std::map<std::string, std::int64_t> numbers;
    numbers[kCompactedLedgerProperty] = 77;
    faults->decide = [](const std::string& op, const std::string&) {
      return op == "put" ? std::optional(testing::Fault{Status::Io("no")}) : std::nullopt;
    };
    EXPECT_TRUE((co_await cursor->commit({0, 5}, numbers)).is(ErrorCode::Io));
    EXPECT_EQ(cursor->mark_delete(), (Position{0, 0}));
    EXPECT_TRUE(cursor->position_properties().empty());
    faults->heal();
    EXPECT_OK(co_await cursor->commit({0, 5}, numbers));
    EXPECT_EQ(cursor->mark_delete(), (Position{0, 5}));
    EXPECT_EQ(cursor->position_properties(), numbers);
    EXPECT_FALSE(static_cast<const ChainCursor&>(*cursor).dirty());
    EXPECT_EQ(key().cursorsledgerid(), -1);
    auto used = co_await referenced_ledgers(*metadata);
    CO_ASSERT_OK(used);
    EXPECT_TRUE(std::binary_search(used->begin(), used->end(), 77));
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    cursor = ledger->cursor("s");
    EXPECT_EQ(cursor->mark_delete(), (Position{0, 5}));
    EXPECT_EQ(cursor->position_properties(), numbers);
    cursor.reset();
    EXPECT_OK(co_await close());
  });
}

}  // namespace
}  // namespace geminga
