// What failures of the stores do to a managed ledger, and what a crash at any step leaves.
#include <set>

#include "managed_ledger/ledger_chain.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::Fault;
using testing::LedgerWorld;
using testing::RecordingSink;

class LedgerChainFailureTest : public LedgerWorld {
 protected:
  // The next operations `op` fail so often.
  void fail(std::string op, int times, Status status, bool applied = false) {
    faults->decide = [op = std::move(op), times, status = std::move(status), applied](
                         const std::string& now,
                         const std::string&) mutable -> std::optional<Fault> {
      if (now != op || times == 0) return std::nullopt;
      --times;
      return Fault{status, applied};
    };
  }
  std::size_t failures() const {
    std::size_t n = 0;
    for (const auto& outcome : sink.outcomes) n += outcome.status ? 0 : 1;
    return n;
  }
};

TEST_F(LedgerChainFailureTest, AFailedLedgerIsReplacedAndNothingIsLostOrTwice) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto keep = co_await ledger->open_cursor("keep", InitialPosition::Earliest, {});
    CO_ASSERT_OK(keep);
    co_await append_and_settle(3);
    fail("append", 1, Status::Io("no"));
    co_await append_and_settle(5);
    EXPECT_EQ(failures(), 0U);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 8));
    // The same, but the entry reported as failed is in the ledger after all.
    fail("append", 1, Status::Io("no"), true);
    co_await append_and_settle(5);
    EXPECT_EQ(failures(), 0U);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 13));
    EXPECT_EQ(ledger->total_entries(), 13);
    EXPECT_EQ(ledger->cursor("keep")->backlog_messages(), 13);
    EXPECT_EQ(ledger->ledgers().size(), 3U);
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainFailureTest, AnEmptyFailedLedgerLeavesNoTrace) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    fail("append", 1, Status::Io("no"));
    co_await append_and_settle(2);
    EXPECT_EQ(failures(), 0U);
    EXPECT_EQ(ledger->ledgers().size(), 1U);
    EXPECT_TRUE(co_await eventually([&] { return store->list().size() == 1; }));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainFailureTest, GivesUpAfterAFewLedgersAndTriesAgainLater) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto keep = co_await ledger->open_cursor("keep", InitialPosition::Earliest, {});
    CO_ASSERT_OK(keep);
    co_await append_and_settle(1);
    fail("append", 1000, Status::Io("dead"));
    co_await append_and_settle(3);
    EXPECT_EQ(failures(), 3U);
    append("refused at once");
    co_await settled();
    EXPECT_EQ(failures(), 4U);
    faults->heal();
    co_await sleep_for(Millis(600));
    append("1");
    co_await settled();
    EXPECT_OK(sink.outcomes.back().status);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 2));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainFailureTest, OutcomesStayInOrderAroundRefusedEntries) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    store->hold_appends(true);
    append("0");
    append("1");
    store->set_writable(false);
    append("full");
    store->set_writable(true);
    append("2");
    for (int i = 0; i < 5; ++i) co_await turn();
    EXPECT_TRUE(sink.outcomes.empty());
    store->hold_appends(false);
    co_await settled();
    EXPECT_EQ(sink.outcomes.size(), 4U);
    EXPECT_OK(sink.outcomes[1].status);
    EXPECT_TRUE(sink.outcomes[2].status.is(ErrorCode::DiskFull));
    EXPECT_OK(sink.outcomes[3].status);
    // Alone it is told too, but never from inside the call.
    store->set_writable(false);
    append("full");
    EXPECT_EQ(sink.outcomes.size(), 4U);
    co_await settled();
    EXPECT_TRUE(sink.outcomes[4].status.is(ErrorCode::DiskFull));
    store->set_writable(true);
    EXPECT_EQ(co_await texts_from(Position::earliest()), numbers(0, 3));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainFailureTest, AFailedRolloverRefusesWhatWaitsAndRecovers) {
  config.max_entries_per_ledger = 2;
  for (const std::string op : {"create", "put", "seal"}) {
    run([&]() -> Task<void> {
      CO_ASSERT_OK(co_await open("t/n/persistent/" + op));
      co_await append_and_settle(2);
      // A seal that fails is made up for by opening the ledger; let that fail, too.
      faults->decide = [&](const std::string& now, const std::string&) -> std::optional<Fault> {
        if (now != op && !(op == "seal" && now == "open")) return std::nullopt;
        return Fault{Status::Io("no")};
      };
      append("refused");
      co_await settled();
      EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::Io)) << op;
      faults->heal();
      co_await sleep_for(Millis(550));
      append("again");
      co_await settled();
      EXPECT_OK(sink.outcomes.back().status);
      EXPECT_EQ(ledger->last_confirmed(), ledger->previous(Position::latest()));
      EXPECT_OK(co_await close());
    });
  }
}

TEST_F(LedgerChainFailureTest, AnotherOwnerIsFoundByTheKeysVersion) {
  config.max_entries_per_ledger = 2;
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    co_await append_and_settle(2);
    (void)co_await metadata->put("/managed-ledgers/t/n/persistent/x", "", {});
    append("late");
    co_await settled();
    EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::Fenced));
    auto status = co_await ledger->trim();
    EXPECT_TRUE(status.is(ErrorCode::Fenced));
    status = co_await ledger->set_properties({});
    EXPECT_TRUE(status.is(ErrorCode::Fenced));
    auto position = co_await ledger->terminate();
    EXPECT_TRUE(position.is(ErrorCode::Fenced));
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainFailureTest, AForeignWriteOfACursorsKeyFences) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(2);
    (void)co_await metadata->put("/managed-ledgers/t/n/persistent/x/s", "", {});
    (*cursor)->ack({0, 0}, 1);
    const Status status = co_await (*cursor)->flush();
    EXPECT_TRUE(status.is(ErrorCode::Fenced));
    append("x");
    co_await settled();
    EXPECT_TRUE(sink.outcomes.back().status.is(ErrorCode::Fenced));
    cursor->reset();
    EXPECT_OK(co_await close());
  });
}

TEST_F(LedgerChainFailureTest, AcksGoOnWithoutACursorLedger) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
    CO_ASSERT_OK(cursor);
    co_await append_and_settle(5);
    fail("create", 1000, Status::DiskFull("full"));
    (*cursor)->ack({0, 3}, 1);
    EXPECT_OK(co_await (*cursor)->flush());
    cursor->reset();
    CO_ASSERT_OK(co_await crash_and_open());
    EXPECT_TRUE(ledger->cursor("s")->is_acked({0, 3}));
    EXPECT_OK(co_await close());
  });
}

// One life: open, publish over several ledgers, acknowledge, trim, close; cut at step n. Then open
// again: what was told durable is there in order, nothing comes twice, what was flushed is
// acknowledged.
TEST_F(LedgerChainFailureTest, ACrashAtAnyStepLosesNothingTold) {
  config.max_entries_per_ledger = 3;
  int steps = 1 << 30;
  for (int cut = 0; cut < steps; ++cut) {
    for (const bool applied : {false, true}) {
      SCOPED_TRACE("cut at step " + std::to_string(cut) + (applied ? ", applied" : ""));
      tree = std::make_shared<testing::MemoryTree>();
      ledgers = std::make_shared<testing::MemoryLedgers>();
      faults = std::make_shared<testing::Faults>();
      std::vector<std::string> durable;
      Position flushed{-1, -1};
      bool removed = false;
      run([&]() -> Task<void> {
        start_stores();
        sink.outcomes.clear();
        appended = 0;
        faults->crash_at(cut, applied);
        int told = 0;
        sink.on_outcome = [&](const RecordingSink::Outcome& outcome) {
          if (outcome.status) durable.push_back(std::to_string(told));
          ++told;
        };
        const Status opened = co_await open();
        if (opened) {
          auto cursor = co_await ledger->open_cursor("s", InitialPosition::Earliest, {});
          for (int i = 0; i < 4; ++i) append(std::to_string(i));
          co_await settled();
          if (cursor) {
            (*cursor)->ack_cumulative({0, 1});
            const Status status = co_await (*cursor)->flush();
            if (status && !faults->crashed()) flushed = (*cursor)->mark_delete();
          }
          for (int i = 4; i < 10; ++i) append(std::to_string(i));
          co_await settled();
          if (cursor) {
            (*cursor)->ack_cumulative(ledger->previous(ledger->last_confirmed()));
            const Status status = co_await (*cursor)->flush();
            if (status && !faults->crashed()) flushed = (*cursor)->mark_delete();
          }
          (void)co_await ledger->trim();
          if (cursor) cursor->reset();
          (void)co_await ledger->close();
          ledger.reset();
        }
        if (!faults->crashed()) steps = cut;

        faults->heal();
        start_stores();
        sink.on_outcome = nullptr;
        CO_ASSERT_OK(co_await open());
        auto texts = co_await texts_from(Position::earliest());
        const auto cursor = ledger->cursor("s");
        // Trimmed ones are missing in front only, and only what the cursor has.
        std::vector<std::string> unacked;
        if (cursor) {
          EXPECT_GE(cursor->mark_delete(), std::min(flushed, cursor->mark_delete()));
          EXPECT_GE(ledger->next(cursor->mark_delete()), ledger->next(flushed));
          unacked = co_await texts_from(cursor->first_unacked());
          EXPECT_EQ(static_cast<std::int64_t>(unacked.size()), cursor->backlog_entries());
          EXPECT_EQ(static_cast<std::int64_t>(unacked.size()), cursor->backlog_messages());
        }
        std::set<std::string> there(texts.begin(), texts.end());
        EXPECT_EQ(there.size(), texts.size()) << "something twice";
        EXPECT_TRUE(std::is_sorted(texts.begin(), texts.end()));
        bool trimming = true;
        for (const std::string& text : durable) {
          if (there.contains(text)) {
            trimming = false;
          } else {
            EXPECT_TRUE(trimming && flushed.ledger >= 0) << "lost " << text;
          }
        }
        // It works on.
        append("z");
        co_await turn();
        EXPECT_TRUE(co_await eventually(
            [&] { return !sink.outcomes.empty() && sink.outcomes.back().status.is_ok(); }));
        EXPECT_OK(co_await ledger->remove());
        ledger.reset();
        EXPECT_TRUE(tree->keys.empty());
        removed = true;
      });
      if (HasFailure() || !removed) return;
    }
  }
  EXPECT_GT(steps, 30);
  std::printf("cut at each of %d steps\n", steps);
}

}  // namespace
}  // namespace geminga
