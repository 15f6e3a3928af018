#include "broker/topic_compaction.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/endian.h"
#include "broker/compaction_test_support.h"
#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::contents_of;
using ::testing::ElementsAre;
using testing::Keyed;
using testing::keyed_entry;
using State = TopicCompaction::State;

class TopicCompactionTest : public testing::LedgerWorld {
 protected:
  ~TopicCompactionTest() override {
    run([this]() -> Task<void> { co_await close_topic(); });
  }

  Task<Status> open_topic() {
    GM_CO_RETURN_IF_ERROR(co_await open());
    co_return co_await open_compaction();
  }
  Task<Status> open_compaction() {
    gate = std::make_unique<Gate>();
    compaction = std::make_unique<TopicCompaction>(TopicCompaction::Env{
        shard(), *store, *ledger, *gate, "persistent://t/n/x", options,
        [this](std::shared_ptr<ManagedCursor> cursor) { made = std::move(cursor); }});
    co_return co_await compaction->open();
  }
  Task<void> close_topic() {
    if (compaction == nullptr) co_return;
    compaction->stop();
    co_await gate->close();
    compaction.reset();
    if (ledger) (void)co_await ledger->close();
    ledger.reset();
  }
  // The process dies; the next one opens the topic.
  Task<Status> die_and_open() {
    if (!faults->crashed()) faults->crash_at(0, false);
    co_await close_topic();
    faults->heal();
    start_stores();
    co_return co_await open_topic();
  }
  void put(const std::vector<Keyed>& messages) {
    for (const Keyed& message : messages) {
      ledger->append(keyed_entry(message), 1);
      ++appended;
    }
  }
  Task<bool> ended() {
    co_return co_await eventually([this] { return compaction->state() != State::Running; });
  }
  Task<State> compact() {
    const Status started = compaction->start();
    EXPECT_TRUE(started.is_ok()) << started.to_string();
    EXPECT_TRUE(co_await ended());
    co_return compaction->state();
  }
  // What a reader of the compacted topic gets.
  Task<std::vector<std::string>> table() {
    std::vector<std::string> texts;
    const auto data = compaction->current();
    Position from = ledger->first_position();
    if (data != nullptr) {
      for (EntryId at = 0; at < data->entries(); ++at) {
        auto entries = co_await data->read_at(at, 1, 1);
        if (!entries) {
          ADD_FAILURE() << entries.status().to_string();
          break;
        }
        for (auto& text : contents_of(entries->front().data)) texts.push_back(std::move(text));
      }
      from = ledger->next(data->horizon());
    }
    auto entries = co_await ledger->read(from, 1000, 1 << 20);
    if (!entries) co_return texts;
    for (const Entry& entry : *entries) {
      for (auto& text : contents_of(entry.data)) texts.push_back(std::move(text));
    }
    co_return texts;
  }
  // All ledgers in the store are in use, and the other way round. But for empty ones: a crash just
  // after a ledger was made leaves it, and nothing in it.
  Task<void> expect_nothing_left_over() {
    std::vector<LedgerId> used;
    std::vector<LedgerId> there;
    for (int i = 0; i < 1000; ++i) {  // trimmed ledgers go in the background
      auto referenced = co_await referenced_ledgers(*metadata);
      CO_ASSERT_OK(referenced);
      used = *referenced;
      there = store->list();
      std::erase_if(there, [&](LedgerId id) {
        return store->ledgers().ledgers.at(id)->bytes == 0 &&
               !std::binary_search(used.begin(), used.end(), id);
      });
      if (there == used) break;
      co_await sleep_for(Millis(1));
    }
    EXPECT_EQ(there, used);
  }

  CompactorOptions options;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<TopicCompaction> compaction;
  std::shared_ptr<ManagedCursor> made;
};

TEST_F(TopicCompactionTest, CompactsAgainAndAgain) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    EXPECT_EQ(compaction->state(), State::NotRun);
    // 6173: a topic without messages has nothing to do.
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_EQ(compaction->current(), nullptr);
    put({{"a", "1"}, {"b", "1"}, {"a", "2"}});
    co_await settled();
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_THAT(co_await table(), ElementsAre("b=1", "a=2"));
    CO_ASSERT_OK(Status(made != nullptr ? Status::ok() : Status::NotFound("no cursor")));
    EXPECT_EQ(made->mark_delete(), ledger->last_confirmed());
    EXPECT_EQ(made->position_properties().at(kCompactedLedgerProperty),
              compaction->current()->id());
    EXPECT_EQ(compaction->stats().last_removed_messages, 1);
    EXPECT_GT(compaction->stats().last_succeeded_ms, 0);
    const LedgerId before = compaction->current()->id();
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_EQ(compaction->current()->id(), before) << "nothing new";
    put({{"b", ""}});
    co_await settled();
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_THAT(co_await table(), ElementsAre("a=2"));
    EXPECT_FALSE(store->ledgers().ledgers.contains(before)) << "superseded";
    co_await expect_nothing_left_over();
    CO_ASSERT_OK(co_await die_and_open());
    EXPECT_THAT(co_await table(), ElementsAre("a=2"));
    EXPECT_EQ(compaction->current()->horizon(), ledger->last_confirmed());
    co_await expect_nothing_left_over();
  });
}

TEST_F(TopicCompactionTest, OneRunAtATime) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}});
    co_await settled();
    CO_ASSERT_OK(compaction->start());
    EXPECT_EQ(compaction->state(), State::Running);
    EXPECT_TRUE(compaction->start().is(ErrorCode::Conflict));
    EXPECT_TRUE(co_await ended());
  });
}

// What is compacted may be trimmed, what is not may not, and the compacted data still have it all.
TEST_F(TopicCompactionTest, HoldsTheLogUntilItIsCompacted) {
  run([&]() -> Task<void> {
    config.max_entries_per_ledger = 2;
    CO_ASSERT_OK(co_await open_topic());
    CO_ASSERT_OK(co_await compaction->hold_log());
    put({{"a", "1"}, {"b", "1"}, {"c", "1"}, {"a", "2"}, {"d", "1"}});
    co_await settled();
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_EQ(ledger->total_entries(), 5);
    EXPECT_EQ(co_await compact(), State::Success);
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_LE(ledger->total_entries(), 1);
    put({{"e", "1"}});
    co_await settled();
    EXPECT_THAT(co_await table(), ElementsAre("b=1", "c=1", "a=2", "d=1", "e=1"));
    CO_ASSERT_OK(co_await die_and_open());
    EXPECT_THAT(co_await table(), ElementsAre("b=1", "c=1", "a=2", "d=1", "e=1"));
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_THAT(co_await table(), ElementsAre("b=1", "c=1", "a=2", "d=1", "e=1"));
  });
}

TEST_F(TopicCompactionTest, TrimsWhatIsCompactedWhenItOpens) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}, {"a", "2"}});
    co_await settled();
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_EQ(ledger->total_entries(), 2);
    co_await close_topic();
    CO_ASSERT_OK(co_await open_topic());
    EXPECT_TRUE(co_await eventually([&] { return ledger->total_entries() == 0; }));
    EXPECT_THAT(co_await table(), ElementsAre("a=2"));
    put({{"b", "1"}});
    co_await settled();
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_THAT(co_await table(), ElementsAre("a=2", "b=1"));
  });
}

TEST_F(TopicCompactionTest, RunsByThreshold) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}, {"a", "2"}});
    co_await settled();
    compaction->start_if_over(0);
    compaction->start_if_over(1 << 20);
    EXPECT_EQ(compaction->state(), State::NotRun);
    compaction->start_if_over(50);
    EXPECT_TRUE(co_await ended());
    EXPECT_EQ(compaction->state(), State::Success);
    put({{"a", "3"}});
    co_await settled();
    compaction->start_if_over(1000);
    EXPECT_EQ(compaction->stats().succeeded, 1) << "counted from the horizon";
  });
}

TEST_F(TopicCompactionTest, DeletingTheCursorDropsTheData) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}});
    co_await settled();
    EXPECT_EQ(co_await compact(), State::Success);
    CO_ASSERT_OK(co_await ledger->delete_cursor(kCompactionCursor));
    CO_ASSERT_OK(co_await compaction->cursor_deleted());
    EXPECT_EQ(compaction->current(), nullptr);
    co_await expect_nothing_left_over();
    EXPECT_EQ(co_await compact(), State::Success);
    EXPECT_THAT(co_await table(), ElementsAre("a=1"));
  });
}

TEST_F(TopicCompactionTest, DeletingTheTopicRemovesTheData) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}});
    co_await settled();
    EXPECT_EQ(co_await compact(), State::Success);
    compaction->stop();
    co_await gate->close();
    CO_ASSERT_OK(co_await ledger->remove());
    EXPECT_TRUE(store->list().empty());
  });
}

// A run that is stopped by an unload is done when the topic is opened again.
TEST_F(TopicCompactionTest, GoesOnAfterAnUnload) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}, {"a", "2"}});
    co_await settled();
    CO_ASSERT_OK(compaction->start());
    co_await close_topic();
    CO_ASSERT_OK(co_await open_topic());
    EXPECT_TRUE(co_await ended());
    EXPECT_EQ(compaction->state(), State::Success);
    EXPECT_THAT(co_await table(), ElementsAre("a=2"));
    co_await expect_nothing_left_over();
    CO_ASSERT_OK(co_await die_and_open());
    EXPECT_EQ(compaction->state(), State::NotRun) << "and not once more";
  });
}

// A failed run leaves nothing, is told, and is not repeated by itself.
TEST_F(TopicCompactionTest, TellsWhyItFailed) {
  run([&]() -> Task<void> {
    CO_ASSERT_OK(co_await open_topic());
    put({{"a", "1"}, {"a", "2"}});
    co_await settled();
    store->set_cached(false);
    faults->decide = [](const std::string& op, const std::string&) {
      return op == "read" ? std::optional(testing::Fault{Status::Io("bad sector")}) : std::nullopt;
    };
    EXPECT_EQ(co_await compact(), State::Error);
    EXPECT_THAT(compaction->last_error(), ::testing::HasSubstr("bad sector"));
    EXPECT_GT(compaction->stats().last_failed_ms, 0);
    faults->heal();
    CO_ASSERT_OK(co_await die_and_open());
    EXPECT_EQ(compaction->state(), State::NotRun);
    co_await expect_nothing_left_over();
    EXPECT_EQ(co_await compact(), State::Success);
  });
}

// Whatever step of a run the process dies at, before or after it took effect: the table is the
// same, the run is made up for, and no ledger is left over.
TEST_F(TopicCompactionTest, SurvivesACrashAtEveryStep) {
  run([&]() -> Task<void> {
    for (const bool applied : {false, true}) {
      for (int step = 0;; ++step) {
        SCOPED_TRACE(::testing::Message() << "step " << step << (applied ? " applied" : ""));
        CO_ASSERT_OK(co_await open_topic());
        put({{"a", "1"}, {"b", "1"}, {"a", "2"}});
        co_await settled();
        EXPECT_EQ(co_await compact(), State::Success);
        put({{"c", "1"}, {"b", "2"}});
        co_await settled();
        const std::vector<std::string> whole{"a=2", "c=1", "b=2"};
        const Position end = sink.outcomes.back().position;
        faults->crash_at(step, applied);
        CO_ASSERT_OK(compaction->start());
        EXPECT_TRUE(co_await ended());
        const bool crashed = faults->crashed();
        CO_ASSERT_OK(co_await die_and_open());
        EXPECT_TRUE(co_await ended());
        EXPECT_NE(compaction->state(), State::Error);
        std::vector<std::string> read = co_await table();
        if (compaction->current()->horizon() < end) {
          EXPECT_EQ(read, (std::vector<std::string>{"b=1", "a=2", "c=1", "b=2"}));
          EXPECT_EQ(co_await compact(), State::Success);
          read = co_await table();
        }
        EXPECT_EQ(read, whole);
        co_await expect_nothing_left_over();
        compaction->stop();
        co_await gate->close();
        compaction.reset();
        CO_ASSERT_OK(co_await ledger->remove());
        ledger.reset();
        if (!crashed) {
          EXPECT_GT(step, 8);
          break;
        }
      }
    }
  });
}

}  // namespace
}  // namespace geminga
