#include "broker/ledger_sweep.h"

#include <gmock/gmock.h>

#include "broker/broker_test_support.h"
#include "schema/schema_registry.h"

namespace geminga::testing {
namespace {

constexpr char kTopic[] = "persistent://public/default/kept";
constexpr char kOldTopic[] = "persistent://public/local/default/kept";

class LedgerSweepTest : public BrokerWorld {
 protected:
  // Topics with messages and cursors, and a schema; the broker is closed afterwards.
  void make_named() {
    run_with_broker([this]() -> Task<void> {
      TestPeer* peer = co_await connected_peer();
      std::uint64_t id = 0;
      for (const char* topic : {kTopic, kOldTopic}) {
        ++id;
        const auto made = co_await produce(*peer, topic, id, "p" + std::to_string(id));
        EXPECT_EQ(made.type(), proto::BaseCommand::PRODUCER_SUCCESS);
        const auto subscribed = co_await subscribe(*peer, topic, "s", id);
        EXPECT_EQ(subscribed.type(), proto::BaseCommand::SUCCESS);
      }
      SchemaData schema;
      schema.type = SchemaType::String;
      const auto put = co_await broker->schemas(*TopicName::parse(kTopic))
                           .registry.put("public/default/kept", std::move(schema));
      EXPECT_TRUE(put.is_ok()) << put.status().to_string();
      co_await end_peers();
      const Status closed = co_await broker->close();
      EXPECT_TRUE(closed.is_ok()) << closed.to_string();
    });
    broker.reset();
  }
  LedgerId make_nameless() {
    LedgerId id = -1;
    run([&]() -> Task<void> {
      const auto made = co_await ledgers->create({});
      id = (*made)->id();
    });
    return id;
  }
  std::int64_t sweep() {
    std::int64_t removed = -1;
    run([&]() -> Task<void> {
      LedgerSweep sweep(runtime, *metadata, {{ledgers.get(), 0}});
      co_await sweep.start();
      removed = co_await sweep.finished();
    });
    return removed;
  }
};

TEST_F(LedgerSweepTest, RemovesWhatNothingNamesAndNothingElse) {
  make_named();
  const std::vector<LedgerId> before = ledgers->list();
  ASSERT_GE(before.size(), 3U);  // two topics' and the schema's
  make_nameless();
  make_nameless();
  ledgers->set_after_crash(true);
  EXPECT_EQ(sweep(), 2);
  EXPECT_EQ(ledgers->list(), before);
  EXPECT_EQ(sweep(), 0);
}

TEST_F(LedgerSweepTest, NothingIsLookedForAfterACleanShutdown) {
  make_nameless();
  EXPECT_EQ(sweep(), 0);
  EXPECT_EQ(ledgers->list().size(), 1U);
}

TEST_F(LedgerSweepTest, NothingIsRemovedIfTheMetadataCannotBeRead) {
  make_named();
  make_nameless();
  const std::vector<LedgerId> before = ledgers->list();
  ledgers->set_after_crash(true);
  run([&]() -> Task<void> {
    const auto put = co_await metadata->put("/schemas/public/default/broken", "no locator", {});
    EXPECT_TRUE(put.is_ok());
  });
  EXPECT_EQ(sweep(), 0);
  EXPECT_EQ(ledgers->list(), before);
}

TEST_F(LedgerSweepTest, LedgersMadeWhileItRunsAreLeftAlone) {
  make_named();
  make_nameless();
  const std::size_t before = ledgers->list().size();
  ledgers->set_after_crash(true);
  run([&]() -> Task<void> {
    LedgerSweep sweep(runtime, *metadata, {{ledgers.get(), 0}});
    co_await sweep.start();
    const auto made = co_await ledgers->create({});  // as a topic does that is opened now
    EXPECT_TRUE(made.is_ok());
    EXPECT_EQ(co_await sweep.finished(), 1);
    EXPECT_EQ(ledgers->list().size(), before);
  });
}

TEST_F(LedgerSweepTest, CanBeEnded) {
  make_named();
  make_nameless();
  const std::size_t before = ledgers->list().size();
  ledgers->set_after_crash(true);
  run([&]() -> Task<void> {
    LedgerSweep sweep(runtime, *metadata, {{ledgers.get(), 0}});
    co_await sweep.start();
    co_await sweep.close();
    EXPECT_EQ(ledgers->list().size(), before);
  });
}

}  // namespace
}  // namespace geminga::testing
