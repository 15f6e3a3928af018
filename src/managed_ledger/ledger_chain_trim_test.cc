// Retention, truncation, termination, removal, properties.
#include "managed_ledger/ledger_chain.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::LedgerWorld;

class LedgerChainTrimTest : public LedgerWorld {
 protected:
  LedgerChainTrimTest() { config.max_entries_per_ledger = 10; }
};

std::map<std::string, std::string> property(std::string key, std::string value) {
  std::map<std::string, std::string> properties;
  properties.emplace(std::move(key), std::move(value));
  return properties;
}

TEST_F(LedgerChainTrimTest, ConsumedLedgersGoByThemselves) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(35);
    EXPECT_EQ(ledger->ledgers().size(), 4U);
    (*cursor)->ack_cumulative({0, 9});  // all of the first ledger
    EXPECT_TRUE(co_await eventually([&] { return ledger->ledgers().size() == 3; }));
    EXPECT_EQ(ledger->total_entries(), 25);
    EXPECT_EQ((*cursor)->backlog_messages(), 25);
    EXPECT_EQ((*cursor)->first_unacked(), ledger->first_position());
    (*cursor)->ack_cumulative(Position::latest());
    EXPECT_TRUE(co_await eventually([&] { return ledger->ledgers().size() == 1; }));
    EXPECT_EQ((*cursor)->backlog_entries(), 0);
    EXPECT_EQ(ledger->total_entries(), 5);
    cursor->reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_EQ(ledger->cursor("s")->backlog_entries(), 0);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(30, 35));
    EXPECT_OK(co_await close());
    // The cursor's key and the ledgers of the list, nothing else.
    EXPECT_EQ(store->list().size(), 2U);
  });
}

TEST_F(LedgerChainTrimTest, WithoutCursorsRetentionAloneDecides) {
  config.retention_ms = -1;
  config.retention_bytes = 12;  // two digits an entry
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    next_text = 10;
    co_await append_and_settle(35);
    CO_ASSERT_OK(co_await ledger->trim());
    // 70 bytes; dropping ledgers of 20 while 12 or more would be left after... the last full one
    // goes too.
    EXPECT_EQ(ledger->ledgers().size(), 1U);
    config.retention_bytes = 45;
    ledger->set_config(config);
    co_await append_and_settle(30);
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_LT(ledger->total_bytes(), 45);
    EXPECT_GT(ledger->ledgers().size(), 1U);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, RetentionByTime) {
  config.retention_ms = 60;
  config.retention_bytes = -1;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(25);
    (*cursor)->ack_cumulative(Position::latest());
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_EQ(ledger->ledgers().size(), 3U);
    co_await sleep_for(Millis(80));
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_EQ(ledger->ledgers().size(), 1U);
    // The current one ends when it is old enough, so that it can go, too.
    config.max_rollover_ms = 1;
    ledger->set_config(config);
    CO_ASSERT_OK(co_await ledger->trim());
    co_await sleep_for(Millis(80));
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_EQ(ledger->total_entries(), 0);
    EXPECT_EQ(ledger->last_confirmed().entry, -1);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, NonDurableCursorsHoldBack) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto reader = ledger->new_non_durable_cursor("r", Position::earliest());
    co_await append_and_settle(35);
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_EQ(ledger->ledgers().size(), 4U);
    EXPECT_EQ(reader->backlog_entries(), 35);
    EXPECT_FALSE(reader->durable());
    reader->ack_cumulative({0, 9});
    EXPECT_TRUE(co_await eventually([&] { return ledger->ledgers().size() == 3; }));
    auto at_end = ledger->new_non_durable_cursor("r2", Position::latest());
    EXPECT_EQ(at_end->backlog_messages(), 0);
    EXPECT_TRUE(at_end->backlog_is_exact());
    EXPECT_OK(co_await at_end->flush());
    EXPECT_OK(co_await reader->reset(Position::latest()));
    EXPECT_TRUE(co_await eventually([&] { return ledger->ledgers().size() == 1; }));
    ledger->remove_non_durable(reader);
    ledger->remove_non_durable(at_end);
    EXPECT_TRUE(ledger->cursors().empty());
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, ReadsStepOverWhatIsTrimmed) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(25);
    store->set_cached(false);
    const auto first = ledger->ledgers().front().id;
    // Trimmed while the read is under way.
    auto reading =
        asio::co_spawn(shard().executor(), ledger->read({first, 3}, 2, 100), asio::use_awaitable);
    (*cursor)->ack_cumulative({first, 9});
    CO_ASSERT_OK(co_await ledger->trim());
    auto entries = co_await std::move(reading);
    CO_ASSERT_OK(entries);
    EXPECT_EQ(entries->front().data.view(), "10");
    EXPECT_EQ(co_await texts_from({first, 5}), numbers(10, 25));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, TruncateDropsAllAndMovesCursors) {
  config.retention_ms = -1;
  config.retention_bytes = -1;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    auto reader = ledger->new_non_durable_cursor("r", Position::earliest());
    co_await append_and_settle(25);
    CO_ASSERT_OK(co_await ledger->truncate());
    EXPECT_EQ(ledger->total_entries(), 0);
    EXPECT_EQ(ledger->ledgers().size(), 1U);
    EXPECT_EQ((*cursor)->backlog_entries(), 0);
    EXPECT_EQ(reader->backlog_messages(), 0);
    co_await append_and_settle(2);
    EXPECT_EQ((*cursor)->backlog_messages(), 2);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(25, 27));
    cursor->reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_EQ(ledger->cursor("s")->backlog_messages(), 2);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, TerminateIsDurableAndIdempotent) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    for (int i = 0; i < 12; ++i) append(std::to_string(i));
    auto position = co_await ledger->terminate();  // after those in flight
    CO_ASSERT_OK(position);
    EXPECT_EQ(sink.outcomes.size(), 12U);
    EXPECT_EQ(*position, ledger->last_confirmed());
    EXPECT_TRUE(ledger->terminated());
    append("late");
    co_await settled();
    EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::TopicTerminated));
    cursor->reset();
    CO_ASSERT_OK(co_await reopen());
    EXPECT_TRUE(ledger->terminated());
    EXPECT_EQ(ledger->terminated_position(), *position);
    auto again = co_await ledger->terminate();
    EXPECT_EQ(*again, *position);
    append("late");
    co_await settled();
    EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::TopicTerminated));
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 12));
    EXPECT_EQ(ledger->cursor("s")->backlog_messages(), 12);
    ledger->cursor("s")->ack_cumulative(Position::latest());
    EXPECT_EQ(ledger->cursor("s")->backlog_messages(), 0);
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_TRUE(ledger->terminated());
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, AnEmptyLogCanBeTerminated) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto position = co_await ledger->terminate();
    CO_ASSERT_OK(position);
    EXPECT_EQ(*position, (Position{0, -1}));
    CO_ASSERT_OK(co_await reopen());
    EXPECT_EQ(ledger->last_confirmed().entry, -1);
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Latest, {});
    CO_ASSERT_OK(cursor);
    EXPECT_EQ((*cursor)->backlog_entries(), 0);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, RolloverOnRequestAndProperties) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await ledger->rollover());  // nothing to end
    EXPECT_EQ(ledger->ledgers().size(), 1U);
    auto keep = co_await ledger->open_cursor("keep", InitialPosition::Earliest, {});
    CO_ASSERT_OK(keep);
    co_await append_and_settle(3);
    CO_ASSERT_OK(co_await ledger->rollover());
    EXPECT_EQ(ledger->ledgers().size(), 2U);
    EXPECT_EQ((*keep)->backlog_entries(), 3);
    EXPECT_EQ(ledger->next({0, 2}), (ledger->next(ledger->last_confirmed())));
    CO_ASSERT_OK(co_await ledger->set_properties(property("pulsar.topic.epoch", "7")));
    co_await append_and_settle(3);
    keep->reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_EQ(ledger->properties().at("pulsar.topic.epoch"), "7");
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 6));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainTrimTest, RemoveLeavesNothing) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s/ü 1", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(25);
    (*cursor)->ack({0, 3}, 1);
    CO_ASSERT_OK(co_await (*cursor)->flush());
    EXPECT_TRUE(tree->keys.contains("/managed-ledgers/t/n/persistent/x/s%2F%C3%BC+1"));
    cursor->reset();
    CO_ASSERT_OK(co_await ledger->remove());
    ledger.reset();
    EXPECT_TRUE(tree->keys.empty());
    EXPECT_TRUE(store->list().empty());
  });
}

TEST_F(LedgerChainTrimTest, FindFirstOverLedgersAndOutOfOrderTimes) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto keep = co_await ledger->open_cursor("keep", InitialPosition::Earliest, {});
    CO_ASSERT_OK(keep);
    // Times 1 0 3 2 5 4 ...
    for (int i = 0; i < 97; ++i) append(std::to_string(i ^ 1));
    co_await settled();
    EXPECT_GT(ledger->ledgers().size(), 5U);
    for (const int time : {0, 1, 2, 9, 10, 11, 50, 51, 95, 96}) {
      auto found = co_await ledger->find_first([&time](const Entry& entry) {
        return std::stoi(std::string(entry.data.view())) >= time;
      });
      CO_ASSERT_OK(found);
      int expected = 0;
      while (expected < 97 && (expected ^ 1) < time) ++expected;
      EXPECT_EQ(ledger->entries_between(Position::earliest(), *found) - 1, expected) << time;
    }
    auto none = co_await ledger->find_first([](const Entry&) { return false; });
    EXPECT_EQ(*none, ledger->next(ledger->last_confirmed()));
    auto all = co_await ledger->find_first([](const Entry&) { return true; });
    EXPECT_EQ(*all, ledger->first_position());
    store->set_cached(false);
    const int reads = store->reads();
    (void)co_await ledger->find_first([](const Entry& entry) {
      return entry.position >= Position{4, 3};
    });
    EXPECT_LT(store->reads() - reads, 20);
    EXPECT_OK(co_await close());
  });
}

}  // namespace
}  // namespace geminga
