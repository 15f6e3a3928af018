#include "broker/isolation.h"

#include <gtest/gtest.h>

#include "broker/broker_test_support.h"

namespace geminga {
namespace {

class IsolationTest : public testing::BrokerWorld {
 protected:
  Isolation make() {
    return Isolation(*metadata, {"", "a", "b"},
                     [this](std::string) -> Task<Result<std::vector<std::string>>> {
                       ++asked;
                       co_return contents;
                     });
  }
  Task<void> store(std::string name_space, std::string group) {
    const auto put = co_await metadata->put("/admin/policies/" + name_space,
                                            R"({"properties":{"isolation":")" + group + "\"}}", {});
    EXPECT_TRUE(put.is_ok());
  }
  Result<std::vector<std::string>> contents = std::vector<std::string>();
  int asked = 0;
};

TEST_F(IsolationTest, KnowsTheBindingsThatAreStored) {
  run([this]() -> Task<void> {
    co_await store("t/one", "a");
    co_await store("t/cluster/old", "b");
    co_await store("t/unknown", "gone");
    co_await store("t/none", "");
    Isolation isolation = make();
    EXPECT_TRUE((co_await isolation.open()).is_ok());
    EXPECT_EQ(isolation.group_of("t/one"), 1);
    EXPECT_EQ(isolation.group_of("t/cluster/old"), 2);
    EXPECT_EQ(isolation.group_of("t/unknown"), 0);
    EXPECT_EQ(isolation.group_of("t/none"), 0);
    EXPECT_EQ(isolation.group_of("t/other"), 0);
  });
}

TEST_F(IsolationTest, ABindingChangesOnceItIsStored) {
  run([this]() -> Task<void> {
    Isolation isolation = make();
    EXPECT_TRUE((co_await isolation.prepare("t/n", "b")).is_ok());
    EXPECT_EQ(isolation.group_of("t/n"), 0) << "not yet";
    EXPECT_TRUE(isolation.hold("t/n").is(ErrorCode::ServiceNotReady));
    EXPECT_TRUE(isolation.hold("t/other").is_ok());
    EXPECT_TRUE((co_await isolation.prepare("t/n", "a")).is(ErrorCode::Conflict));
    co_await store("t/n", "b");
    co_await isolation.settle("t/n");
    EXPECT_EQ(isolation.group_of("t/n"), 2);
    EXPECT_TRUE(isolation.hold("t/n").is_ok());
    // And back, when the namespace is deleted.
    EXPECT_TRUE((co_await metadata->remove("/admin/policies/t/n", {})).is_ok());
    co_await isolation.settle("t/n");
    EXPECT_EQ(isolation.group_of("t/n"), 0);
  });
}

TEST_F(IsolationTest, WhatCouldNotBeStoredChangesNothing) {
  run([this]() -> Task<void> {
    Isolation isolation = make();
    EXPECT_TRUE((co_await isolation.prepare("t/n", "a")).is_ok());
    co_await isolation.settle("t/n");
    EXPECT_EQ(isolation.group_of("t/n"), 0);
    EXPECT_TRUE(isolation.hold("t/n").is_ok());
  });
}

TEST_F(IsolationTest, ANamespaceThatHoldsSomethingStaysWhereItIs) {
  run([this]() -> Task<void> {
    Isolation isolation = make();
    contents = std::vector<std::string>{"persistent://t/n/x", "persistent://t/n/y"};
    const Status refused = co_await isolation.prepare("t/n", "a");
    EXPECT_TRUE(refused.is(ErrorCode::PreconditionFailed));
    EXPECT_NE(refused.message().find("holds 2 (persistent://t/n/x, ...)"), std::string::npos)
        << refused.message();
    EXPECT_TRUE(isolation.hold("t/n").is_ok()) << "the mark was taken back";
    EXPECT_TRUE((co_await isolation.prepare("t/n", "")).is_ok()) << "it stays where it is";
    contents = Status::Io("disk");
    EXPECT_TRUE((co_await isolation.prepare("t/n", "a")).is(ErrorCode::Io));
    EXPECT_TRUE(isolation.hold("t/n").is_ok());
  });
}

TEST_F(IsolationTest, WaitsForWhatIsBeingCreated) {
  run([this]() -> Task<void> {
    Isolation isolation = make();
    Gate gate;
    bool done = false;
    {
      const auto held = isolation.hold("t/n");
      EXPECT_TRUE(held.is_ok());
      spawn(shard(), gate, [&]() -> Task<void> {
        EXPECT_TRUE((co_await isolation.prepare("t/n", "a")).is_ok());
        done = true;
      });
      co_await sleep_for(Millis(5));
      EXPECT_FALSE(done);
      EXPECT_EQ(asked, 0) << "only then it is asked what there is";
    }
    co_await gate.close();
    EXPECT_TRUE(done);
    EXPECT_EQ(asked, 1);
  });
}

TEST_F(IsolationTest, AGroupThatThereIsNotIsRefused) {
  run([this]() -> Task<void> {
    Isolation isolation = make();
    const Status refused = co_await isolation.prepare("t/n", "c");
    EXPECT_TRUE(refused.is(ErrorCode::PreconditionFailed));
    EXPECT_NE(refused.message().find("isolationGroups names: a, b"), std::string::npos);
    EXPECT_TRUE(
        (co_await isolation.prepare("pulsar/system", "a")).is(ErrorCode::PreconditionFailed));
  });
}

}  // namespace
}  // namespace geminga
