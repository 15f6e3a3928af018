// The life of a managed ledger: appending, reading, cursors, closing and opening, over stores in
// memory.
#include "managed_ledger/ledger_chain.h"

#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::Fault;
using testing::LedgerWorld;

class LedgerChainTest : public LedgerWorld {};

// GCC 12 cannot compile braced lists in coroutines.
std::map<std::string, std::string> one_property() { return {{"k", "v"}}; }
std::vector<std::string> just_a_b() { return {"a", "b"}; }

TEST_F(LedgerChainTest, AppendsAndReads) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    EXPECT_EQ(ledger->last_confirmed(), (Position{0, -1}));
    append("a");
    EXPECT_TRUE(sink.outcomes.empty());  // never from inside
    co_await settled();
    EXPECT_EQ(sink.outcomes[0].position, (Position{0, 0}));
    EXPECT_OK(sink.outcomes[0].status);
    append("b", 10);
    co_await settled();
    EXPECT_EQ(ledger->last_confirmed(), (Position{0, 1}));
    EXPECT_EQ(ledger->total_entries(), 2);
    EXPECT_EQ(ledger->total_messages(), 11);
    EXPECT_EQ(ledger->total_bytes(), 2);
    auto texts = co_await texts_from(Position::earliest());
    EXPECT_EQ(texts, just_a_b());
    std::vector<Entry> cached;
    EXPECT_EQ(ledger->read_cached({0, 1}, 10, 100, cached), 1U);
    EXPECT_EQ(cached[0].messages, 10U);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, IsNotCreatedUnlessAsked) {
  run([&]() -> Task<void> {
    auto opened = co_await open_managed_ledger(env(), "t/n/persistent/none", config, &sink, false);
    EXPECT_TRUE(opened.is(ErrorCode::NotFound));
    auto exists = co_await managed_ledger_exists(*metadata, "t/n/persistent/none");
    EXPECT_FALSE(*exists);
    CO_ASSERT_OK(co_await open("t/n/persistent/none"));
    exists = co_await managed_ledger_exists(*metadata, "t/n/persistent/none");
    EXPECT_TRUE(*exists);
    auto names = co_await list_managed_ledgers(*metadata, "t/n/persistent");
    EXPECT_EQ(names->size(), 1U);
    EXPECT_EQ(names->front(), "t/n/persistent/none");
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, RollsOverInOrderUnderLoad) {
  config.max_entries_per_ledger = 10;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("keep", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    for (int i = 0; i < 1000; ++i) {
      append(std::to_string(i));
      if (i % 37 == 0) co_await turn();
    }
    co_await settled();
    Position before{-1, -1};
    for (const auto& outcome : sink.outcomes) {
      EXPECT_OK(outcome.status);
      EXPECT_LT(before, outcome.position);
      before = outcome.position;
    }
    EXPECT_GT(ledger->ledgers().size(), 50U);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 1000));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, ReadsAcrossLedgersAndReopens) {
  config.max_entries_per_ledger = 10;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("keep", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(95);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 95));
    store->set_cached(false);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 95));
    cursor->reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_EQ(ledger->total_entries(), 95);
    EXPECT_EQ(ledger->total_messages(), 95);
    co_await append_and_settle(5);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 100));
    EXPECT_EQ(ledger->cursor("keep")->backlog_entries(), 100);
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 100));
    EXPECT_EQ(ledger->cursor("keep")->backlog_messages(), 100);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, CursorsSurviveACleanReopenExactly) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto opened = co_await ledger->open_cursor("s", InitialPosition::Earliest, one_property());
    CO_ASSERT_OK(opened);
    auto cursor = std::move(*opened);
    co_await append_and_settle(20, 10);
    EXPECT_TRUE(cursor->ack({0, 0}, 10));
    EXPECT_FALSE(cursor->ack({0, 0}, 10));
    EXPECT_TRUE(cursor->ack({0, 5}, 10));
    const AckSet left(1, 0b1111100000);
    std::uint32_t newly = 0;
    EXPECT_FALSE(cursor->ack_partly({0, 7}, left, 10, &newly));
    EXPECT_EQ(newly, 5U);
    EXPECT_EQ(cursor->mark_delete(), (Position{0, 0}));
    EXPECT_EQ(cursor->first_unacked(), (Position{0, 1}));
    EXPECT_EQ(cursor->backlog_entries(), 18);
    EXPECT_EQ(cursor->backlog_messages(), 175);
    cursor.reset();
    CO_ASSERT_OK(co_await reopen());
    cursor = ledger->cursor("s");
    EXPECT_EQ(cursor->mark_delete(), (Position{0, 0}));
    EXPECT_TRUE(cursor->is_acked({0, 5}));
    EXPECT_EQ(*cursor->ack_set({0, 7}), AckSet(1, 0b1111100000));
    EXPECT_EQ(cursor->backlog_entries(), 18);
    EXPECT_EQ(cursor->backlog_messages(), 175);
    EXPECT_EQ(cursor->properties().at("k"), "v");
    cursor->ack_cumulative({0, 6});
    EXPECT_TRUE(co_await eventually([&] { return cursor->backlog_is_exact(); }));
    EXPECT_EQ(cursor->backlog_messages(), 125);
    EXPECT_TRUE(cursor->ack({0, 7}));
    EXPECT_EQ(cursor->mark_delete(), (Position{0, 7}));
    EXPECT_EQ(cursor->backlog_messages(), 120);
    EXPECT_OK(co_await cursor->flush());
    cursor.reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(ledger->cursor("s")->mark_delete(), (Position{0, 7}));
    EXPECT_EQ(ledger->cursor("s")->backlog_messages(), 120);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, AcksAreFlushedByThemselves) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(10);
    (*cursor)->ack({0, 3}, 1);
    (*cursor)->ack_cumulative({0, 1});
    EXPECT_TRUE(co_await persisted(*cursor));
    cursor->reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(ledger->cursor("s")->mark_delete(), (Position{0, 1}));
    EXPECT_TRUE(ledger->cursor("s")->is_acked({0, 3}));
    EXPECT_EQ(ledger->cursor("s")->backlog_entries(), 7);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, TellsWhichLedgersAreInUse) {
  config.max_entries_per_ledger = 10;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open("t/n/persistent/a"));
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(25);
    (*cursor)->ack({0, 3}, 1);
    CO_ASSERT_OK(co_await (*cursor)->flush());
    auto orphan = co_await store->create({});
    auto ids = co_await referenced_ledgers(*metadata);
    CO_ASSERT_OK(ids);
    EXPECT_EQ(ids->size(), 4U);  // three of the log, one of the cursor
    EXPECT_FALSE(std::binary_search(ids->begin(), ids->end(), (*orphan)->id()));
    cursor->reset();
    EXPECT_OK(co_await close());
  });
}

// Handles of ledgers are few; the one of the ledger that is written to must not be given up for
// others: to open it again would fence ourselves.
TEST_F(LedgerChainTest, ReadsManyLedgersWhileItWrites) {
  run([&]() -> Task<void> {
    config.max_entries_per_ledger = 2;
    CO_ASSERT_OK(co_await open());
    const Position start = Position::earliest();
    const auto holds = ledger->new_non_durable_cursor("r", start);
    co_await append_and_settle(41);
    EXPECT_EQ(co_await texts_from(start), numbers(0, 41));
    EXPECT_EQ(co_await texts_from(start), numbers(0, 41));
    co_await append_and_settle(4);
    EXPECT_EQ(co_await texts_from(start), numbers(0, 45));
    for (const auto& outcome : sink.outcomes) EXPECT_OK(outcome.status);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTest, TwoOwnersTheSecondFencesTheFirst) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    co_await append_and_settle(3);
    testing::RecordingSink other_sink;
    auto other = co_await open_managed_ledger(env(), "t/n/persistent/x", config, &other_sink, true);
    CO_ASSERT_OK(other);
    append("late");
    co_await settled();
    EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::Fenced));
    append("later");
    co_await settled();
    EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::Fenced));
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    EXPECT_TRUE(cursor.is(ErrorCode::Fenced));
    EXPECT_OK(co_await close());
    EXPECT_EQ((*other)->total_entries(), 3);
    EXPECT_OK(co_await (*other)->close());
  });
}

}  // namespace
}  // namespace geminga
