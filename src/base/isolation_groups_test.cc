#include "base/isolation_groups.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

TEST(IsolationGroups, AreReadFromText) {
  EXPECT_TRUE(parse_isolation_groups("")->empty());
  const auto groups =
      parse_isolation_groups("train:shards=2+3,port=6651,volume=/mnt/a b ; test: port=0 ;");
  ASSERT_TRUE(groups.is_ok()) << groups.status().to_string();
  ASSERT_EQ(groups->size(), 2);
  EXPECT_EQ((*groups)[0].name, "train");
  EXPECT_EQ((*groups)[0].shards, (std::vector<unsigned>{2, 3}));
  EXPECT_EQ((*groups)[0].port, 6651);
  EXPECT_EQ((*groups)[0].volume, "/mnt/a b");
  EXPECT_EQ((*groups)[1].name, "test");
  EXPECT_TRUE((*groups)[1].shards.empty());
  EXPECT_EQ((*groups)[1].port, 0);
}

TEST(IsolationGroups, SayWhatIsWrong) {
  const auto message = [](const char* text) {
    return parse_isolation_groups(text).status().message();
  };
  for (const auto& [text, part] : {std::pair{"Train:shards=1", "a-z"},
                                   {":shards=1", "a-z"},
                                   {"a:shards=1;a:port=1", "twice"},
                                   {"a:shards=x", "'x' is no number"},
                                   {"a:shards=", "no shards"},
                                   {"a:shards=1+1", "twice"},
                                   {"a:port=65536", "no port"},
                                   {"a:volume=data", "absolute"},
                                   {"a:disk=/x", "'disk'"}}) {
    EXPECT_NE(message(text).find(part), std::string::npos) << text << ": " << message(text);
    EXPECT_NE(message(text).find("NAME:shards="), std::string::npos);
  }
}

TEST(IsolationGroups, LeaveShardsForOthers) {
  const auto groups = *parse_isolation_groups("a:shards=1;b:shards=1+3;c:port=1");
  EXPECT_EQ(*shared_shards(groups, 4), (std::vector<unsigned>{0, 2}));
  EXPECT_EQ(*shared_shards({}, 2), (std::vector<unsigned>{0, 1}));
  EXPECT_NE(shared_shards(groups, 3).status().message().find("no shard 3"), std::string::npos);
  EXPECT_NE(shared_shards(*parse_isolation_groups("a:shards=0"), 1).status().message().find("left"),
            std::string::npos);
}

}  // namespace
}  // namespace geminga
