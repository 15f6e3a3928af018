#include "cli/standalone_logs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "managed_ledger/testing/memory_metadata_store.h"
#include "runtime/runtime.h"

namespace geminga {
namespace {

namespace fs = std::filesystem;

class StandaloneLogs : public ::testing::Test {
 protected:
  StandaloneLogs() : runtime_({1, 64 << 20, false, 1}) {
    runtime_.start();
    metadata_ = std::make_unique<testing::MemoryMetadataStore>(runtime_.shard(0));
    char text[] = "/tmp/geminga-logs-XXXXXX";
    folder_ = mkdtemp(text);
    data_ = folder_ + "/data";
  }
  ~StandaloneLogs() override {
    runtime_.stop();
    fs::remove_all(folder_);
  }
  Result<NodeLogs> plan(const std::string& groups, unsigned shards = 4) {
    return runtime_.run_and_wait(
        0, [&]() { return plan_logs(*metadata_, data_, shards, *parse_isolation_groups(groups)); });
  }
  std::string folder_, data_;
  Runtime runtime_;
  std::unique_ptr<testing::MemoryMetadataStore> metadata_;
};

TEST_F(StandaloneLogs, OneAShardAndAsManyForEver) {
  const auto first = plan("", 4);
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  EXPECT_EQ(first->logs.size(), 4);
  const auto fewer = plan("", 2);
  ASSERT_TRUE(fewer.is_ok());
  ASSERT_EQ(fewer->logs.size(), 4);
  EXPECT_EQ(fewer->logs[3].shard, 1);
  EXPECT_EQ(fewer->logs[3].folder, folder_ + "/data/log-3");
}

TEST_F(StandaloneLogs, AGroupHasLogsShardsAndLedgerIdsForItself) {
  const auto made = plan("b:shards=1+3,port=0,volume=" + folder_ + "/b;c:port=1");
  ASSERT_TRUE(made.is_ok()) << made.status().to_string();
  ASSERT_EQ(made->groups.size(), 3);
  EXPECT_EQ(made->groups[0].settings.shards, (std::vector<unsigned>{0, 2}));
  EXPECT_EQ(made->groups[0].count, 4);
  const NodeLogGroup& b = made->groups[1];
  EXPECT_EQ(b.settings.name, "b");
  EXPECT_EQ(b.first, 4);
  EXPECT_EQ(b.count, 2);
  EXPECT_EQ(made->logs[5].shard, 3);
  EXPECT_EQ(made->logs[5].index, 1);
  EXPECT_TRUE(fs::is_directory(folder_ + "/b/log-1"));
  EXPECT_EQ(made->groups[2].count, 1);
  EXPECT_EQ(made->groups[2].settings.shards, made->groups[0].settings.shards);
  EXPECT_TRUE(fs::is_directory(folder_ + "/data/isolation-c/log-0"));
  std::set<std::int64_t> first_ids;
  for (const NodeLog& log : made->logs) first_ids.insert(log.first_ledger_id);
  EXPECT_EQ(first_ids, (std::set<std::int64_t>{0, 1LL << 40, 2LL << 40}));
}

TEST_F(StandaloneLogs, AGroupThatWasThereStays) {
  ASSERT_TRUE(plan("a;b:shards=1+3").is_ok());
  // Without a word about it; and with other shards, more than it has logs.
  const auto silent = plan("");
  ASSERT_TRUE(silent.is_ok());
  ASSERT_EQ(silent->groups.size(), 3);
  EXPECT_EQ(silent->groups[2].settings.name, "b");
  EXPECT_EQ(silent->groups[2].count, 2);
  EXPECT_EQ(silent->groups[2].settings.shards.size(), 4);
  const auto other = plan("b:shards=0+1+2;n");
  ASSERT_TRUE(other.is_ok()) << other.status().to_string();
  EXPECT_EQ(other->groups[1].settings.name, "b");
  EXPECT_EQ(other->groups[1].count, 2);
  EXPECT_EQ(other->logs[other->groups[1].first].first_ledger_id, 2LL << 40);
  EXPECT_EQ(other->logs[other->groups[2].first].first_ledger_id, 3LL << 40) << "a new number";
}

TEST_F(StandaloneLogs, TheDataFolderMayMove) {
  ASSERT_TRUE(plan("a").is_ok());
  fs::rename(folder_ + "/data", folder_ + "/moved");
  data_ = folder_ + "/moved";
  const auto moved = plan("");
  ASSERT_TRUE(moved.is_ok()) << moved.status().to_string();
  EXPECT_EQ(moved->groups[1].folder, data_ + "/isolation-a");
}

TEST_F(StandaloneLogs, AVolumeMayBeMountedElsewhereWithItsLogs) {
  ASSERT_TRUE(plan("a:volume=" + folder_ + "/one").is_ok());
  const auto gone = plan("a:volume=" + folder_ + "/two");
  EXPECT_TRUE(gone.is(ErrorCode::Corruption));
  EXPECT_NE(gone.status().message().find(folder_ + "/two/log-0 is missing"), std::string::npos);
  fs::rename(folder_ + "/one", folder_ + "/two");
  EXPECT_TRUE(plan("").is(ErrorCode::Corruption)) << "it looks where it was";
  ASSERT_TRUE(plan("a:volume=" + folder_ + "/two").is_ok());
  EXPECT_EQ(plan("")->groups[1].folder, folder_ + "/two");
}

TEST_F(StandaloneLogs, ANewGroupTakesNoOthersLogs) {
  ASSERT_TRUE(plan("a:volume=" + folder_ + "/one").is_ok());
  const auto refused = plan("a;b:volume=" + folder_ + "/one");
  EXPECT_TRUE(refused.is(ErrorCode::InvalidArgument));
  EXPECT_NE(refused.status().message().find("'b' is new"), std::string::npos);
}

TEST_F(StandaloneLogs, MetadataThatMakeNoSenseAreRefused) {
  ASSERT_TRUE(plan("").is_ok());
  for (const char* text :
       {"", "{}", R"({"number":0,"logs":1,"folder":"/x"})",
        R"({"number":1,"logs":4096,"folder":"/x"})", R"({"number":1,"logs":1})"}) {
    runtime_.run_and_wait(0, [&]() -> Task<void> {
      (void)co_await metadata_->put("/geminga/isolation/a", text, {});
    });
    EXPECT_TRUE(plan("").is(ErrorCode::Corruption)) << text;
  }
}

}  // namespace
}  // namespace geminga
