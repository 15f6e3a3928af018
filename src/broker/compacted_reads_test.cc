#include "broker/compacted_reads.h"

#include <gmock/gmock.h>

#include "base/endian.h"
#include "broker/compaction_test_support.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using ::testing::ElementsAre;
using testing::Keyed;
using testing::keyed_batch;
using testing::keyed_entry;

class CompactedReadsTest : public testing::LedgerWorld {
 protected:
  ~CompactedReadsTest() override {
    run([this]() -> Task<void> {
      reads.reset();
      cursor.reset();
      if (compaction != nullptr) {
        compaction->stop();
        co_await gate.close();
        compaction.reset();
      }
      if (ledger) (void)co_await ledger->close();
      ledger.reset();
    });
  }

  Task<Status> open_topic() {
    GM_CO_RETURN_IF_ERROR(co_await open());
    compaction = std::make_unique<TopicCompaction>(TopicCompaction::Env{
        shard(), *store, *ledger, gate, "persistent://t/n/x", {}, [](auto) {}});
    co_return co_await compaction->open();
  }
  void put(const std::vector<Keyed>& messages) {
    for (const Keyed& message : messages) {
      ledger->append(keyed_entry(message), 1);
      ++appended;
    }
  }
  Task<void> compact() {
    co_await settled();
    EXPECT_TRUE(compaction->start().is_ok());
    const bool ended = co_await eventually(
        [this] { return compaction->state() != TopicCompaction::State::Running; });
    EXPECT_TRUE(ended);
    EXPECT_EQ(compaction->state(), TopicCompaction::State::Success) << compaction->last_error();
  }
  Task<Status> subscribe(Position next) {
    const std::map<std::string, std::string> none;
    auto opened = co_await ledger->open_cursor("s", InitialPosition::Earliest, none);
    if (!opened) co_return opened.status();
    cursor = *opened;
    reads = std::make_unique<CompactedReads>(*compaction, *ledger, *cursor);
    reads->start_at(next);
    co_return co_await cursor->flush();
  }
  // As a dispatcher does: what comes from the compacted data, from where reading begins.
  Task<std::vector<Position>> deliver_compacted() {
    std::vector<Position> delivered;
    Position at = reads->begin();
    while (reads->covers(at)) {
      std::vector<Entry> entries;
      if (reads->read_cached(at, 3, 1 << 20, entries) == 0) {
        auto read = co_await reads->read(at, 3, 1 << 20);
        if (!read || read->empty()) {
          ADD_FAILURE() << "nothing at " << at.to_string();
          break;
        }
        entries = std::move(*read);
      }
      for (const Entry& entry : entries) {
        const Position from = std::exchange(at, {entry.position.ledger, entry.position.entry + 1});
        if (reads->is_acked(entry.position)) continue;
        const auto metadata = parse_entry_metadata(entry.data.span()).value();
        const AckSet left = reads->left_of(entry, metadata);
        reads->delivered(from, entry.position, left);
        delivered.push_back(entry.position);
      }
    }
    reached = at;
    co_return delivered;
  }
  void ack(Position position) {
    cursor->ack(position, 1);
    reads->ack(position);
  }
  Position at(EntryId entry) const { return {first_ledger, entry}; }

  Gate gate;
  std::unique_ptr<TopicCompaction> compaction;
  std::shared_ptr<ManagedCursor> cursor;
  std::unique_ptr<CompactedReads> reads;
  Position reached;
  std::vector<Position> sent;
  LedgerId first_ledger = 0;
};

TEST_F(CompactedReadsTest, WhatWasTakenOutLeavesTheBacklog) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}, {"a", "2"}, {"b", "1"}, {"c", "1"}, {"c", "2"}, {"d", "1"}, {"d", ""}});
    co_await compact();
    first_ledger = ledger->first_position().ledger;
    CO_ASSERT_OK(co_await subscribe(Position::earliest()));
    sent = co_await deliver_compacted();
    EXPECT_THAT(sent, ElementsAre(at(1), at(2), at(4)));
    EXPECT_EQ(reached, at(7)) << "behind the horizon";
    EXPECT_EQ(cursor->mark_delete(), at(0));
    ack(at(2));
    EXPECT_EQ(cursor->mark_delete(), at(0));
    ack(at(1));
    EXPECT_EQ(cursor->mark_delete(), at(3)) << "over what was taken out";
    // What is not acknowledged comes again, nothing else.
    sent = co_await deliver_compacted();
    EXPECT_THAT(sent, ElementsAre(at(4)));
    ack(at(4));
    EXPECT_EQ(cursor->backlog_entries(), 0);
  });
}

// Sent from the log before it was compacted, and not acknowledged: it is not skipped.
TEST_F(CompactedReadsTest, DoesNotSkipWhatTheLogDelivered) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}, {"b", "1"}, {"a", "2"}, {"c", "1"}});
    co_await compact();
    first_ledger = ledger->first_position().ledger;
    CO_ASSERT_OK(co_await subscribe(Position::earliest()));
    (void)reads->begin();
    // Entries 0 and 1 came from the log; then it was compacted.
    Position at_two = at(2);
    EXPECT_TRUE(reads->covers(at_two));
    const AckSet all;
    reads->delivered(at(2), at(2), all);
    reads->delivered(at(3), at(3), all);
    ack(at(2));
    ack(at(3));
    EXPECT_LT(cursor->mark_delete(), at(0));
    cursor->ack(at(1), 1);
    reads->ack(at(1));
    EXPECT_LT(cursor->mark_delete(), at(0));
    cursor->ack(at(0), 1);
    reads->ack(at(0));
    EXPECT_EQ(cursor->backlog_entries(), 0);
  });
}

TEST_F(CompactedReadsTest, KeepsItsPlaceWhereTheLogHasNone) {
  run([&]() -> Task<void> {
    config.max_entries_per_ledger = 1;
    CO_ASSERT_OK(co_await open_topic());
    CO_ASSERT_OK(co_await compaction->hold_log());
    put({{"a", "1"}, {"b", "1"}, {"c", "1"}, {"b", "2"}, {"d", "1"}});
    co_await settled();
    std::vector<Position> all;
    for (const auto& outcome : sink.outcomes) all.push_back(outcome.position);
    co_await compact();
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_GT(ledger->first_position(), all[3]);
    CO_ASSERT_OK(co_await subscribe(Position::earliest()));
    sent = co_await deliver_compacted();
    EXPECT_THAT(sent, ElementsAre(all[0], all[2], all[3], all[4]));
    ack(all[2]);
    EXPECT_LT(reads->mark_delete(), all[0]);
    ack(all[0]);
    EXPECT_GE(reads->mark_delete(), all[2]);
    EXPECT_LT(reads->mark_delete(), all[3]);
    CO_ASSERT_OK(co_await cursor->flush());
    // The next process goes on there.
    reads.reset();
    cursor.reset();
    compaction->stop();
    co_await gate.close();
    compaction.reset();
    gate = Gate();
    CO_ASSERT_OK(co_await crash_and_open());
    compaction = std::make_unique<TopicCompaction>(TopicCompaction::Env{
        shard(), *store, *ledger, gate, "persistent://t/n/x", {}, [](auto) {}});
    CO_ASSERT_OK(co_await compaction->open());
    cursor = ledger->cursor("s");
    reads = std::make_unique<CompactedReads>(*compaction, *ledger, *cursor);
    sent = co_await deliver_compacted();
    EXPECT_THAT(sent, ElementsAre(all[3], all[4]));
    reads->ack_cumulative(all[4]);
    cursor->ack_cumulative(all[4]);
    sent = co_await deliver_compacted();
    EXPECT_TRUE(sent.empty());
    EXPECT_FALSE(cursor->position_properties().contains("geminga.compacted.ledger"));
    // A seek puts it back; what the log has is the cursor's business.
    reads->start_at(all[2]);
    sent = co_await deliver_compacted();
    EXPECT_THAT(sent, ElementsAre(all[2], all[3]));
  });
}

TEST_F(CompactedReadsTest, ShowsWhatIsLeftOfABatchAndKnowsWhenItIsDone) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    ledger->append(keyed_batch({{"a", "1"}, {"b", ""}, {"c", "1"}, {"d", "1"}}), 4);
    ++appended;
    put({{"d", "2"}});
    co_await compact();
    first_ledger = ledger->first_position().ledger;
    CO_ASSERT_OK(co_await subscribe(Position::earliest()));
    (void)reads->begin();
    auto entries = co_await reads->read(at(0), 1, 1 << 20);
    CO_ASSERT_OK(entries);
    const Entry& entry = entries->front();
    const auto metadata = parse_entry_metadata(entry.data.span()).value();
    const AckSet left = reads->left_of(entry, metadata);
    EXPECT_THAT(left, ElementsAre(0b0101));
    reads->delivered(at(0), at(0), left);
    // The client clears the bits of what it acknowledges; it never acknowledges what was taken out.
    const AckSet without_a{0b1110};
    const AckSet without_c{0b1011};
    reads->ack_partly(at(0), without_a);
    EXPECT_EQ(cursor->backlog_entries(), 2);
    reads->ack_partly(at(0), without_c);
    EXPECT_EQ(cursor->backlog_entries(), 1);
  });
}

}  // namespace
}  // namespace geminga
