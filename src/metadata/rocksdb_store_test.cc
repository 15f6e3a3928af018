#include "metadata/rocksdb_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <random>

#include "base/clock.h"
#include "metadata/store_test_fixture.h"

namespace geminga {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RocksdbStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    const Status opened = open();
    ASSERT_TRUE(opened.is_ok()) << opened.to_string();
  }
};

constexpr std::int64_t kBadVersion = -100 - static_cast<std::int64_t>(ErrorCode::BadVersion);

TEST_F(RocksdbStoreTest, VersionsCountPuts) {
  EXPECT_FALSE(get("/a").has_value());
  EXPECT_EQ(put_version("/a", "1"), 0);
  EXPECT_EQ(put_version("/a", "2"), 1);
  auto value = get("/a");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->value, "2");
  EXPECT_EQ(value->stat.version, 1);
  EXPECT_GT(value->stat.created_ms, 0);
  EXPECT_GE(value->stat.modified_ms, value->stat.created_ms);
  EXPECT_TRUE(remove("/a").is_ok());
  EXPECT_TRUE(remove("/a").is(ErrorCode::NotFound));
  EXPECT_EQ(put_version("/a", "3"), 0);
}

TEST_F(RocksdbStoreTest, ComparesAndSets) {
  EXPECT_EQ(put_version("/a", "x", 0), kBadVersion);
  EXPECT_EQ(put_version("/a", "x", -1), 0);
  EXPECT_EQ(put_version("/a", "y", -1), kBadVersion);
  EXPECT_EQ(put_version("/a", "y", 1), kBadVersion);
  EXPECT_EQ(put_version("/a", "y", 0), 1);
  EXPECT_TRUE(remove("/a", 0).is(ErrorCode::BadVersion));
  EXPECT_EQ(text("/a"), "y");
  EXPECT_TRUE(remove("/a", 1).is_ok());
}

TEST_F(RocksdbStoreTest, ParentsExistThroughTheirChildren) {
  EXPECT_EQ(put_version("/a/b/c", "leaf"), 0);
  auto parent = get("/a/b");
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->value, "");
  EXPECT_EQ(parent->stat.version, 0);
  EXPECT_THAT(children("/"), ElementsAre("a"));
  EXPECT_THAT(children("/a"), ElementsAre("b"));
  EXPECT_EQ(put_version("/a/b", "x", -1), kBadVersion);
  EXPECT_EQ(put_version("/a/b", "own", 0), 1);
  EXPECT_EQ(put_version("/a/b/d", "leaf"), 0);
  EXPECT_TRUE(remove("/a/b/c").is_ok());
  EXPECT_TRUE(remove("/a/b/d").is_ok());
  EXPECT_EQ(text("/a/b"), "own");  // has a value: stays
  EXPECT_TRUE(remove("/a/b").is_ok());
  EXPECT_FALSE(get("/a").has_value());  // had none: gone with its last child
  EXPECT_THAT(children("/"), IsEmpty());
}

TEST_F(RocksdbStoreTest, RemovingAKeyKeepsItsChildren) {
  put_version("/a", "v");
  put_version("/a/b", "w");
  EXPECT_TRUE(remove("/a").is_ok());
  EXPECT_EQ(text("/a"), "");
  EXPECT_EQ(text("/a/b"), "w");
  EXPECT_TRUE(remove("/a/b").is_ok());
  EXPECT_FALSE(get("/a").has_value());
}

TEST_F(RocksdbStoreTest, ListsDirectChildrenSorted) {
  for (const char* path :
       {"/a/x", "/a/x-1", "/a/x/deep/er", "/a/b", "/ab", "/a.b", "/a/\xC3\xA9"}) {
    put_version(path, "");
  }
  EXPECT_THAT(children("/a"), ElementsAre("b", "x", "x-1", "\xC3\xA9"));
  EXPECT_THAT(children("/a/x"), ElementsAre("deep"));
  EXPECT_THAT(children("/"), ElementsAre("a", "a.b", "ab"));
  EXPECT_THAT(children("/none"), IsEmpty());
}

TEST_F(RocksdbStoreTest, RemovesSubtrees) {
  for (const char* path : {"/a/b", "/a/b/c/d", "/a/b/c/e", "/a/bc", "/a/b-", "/z"})
    put_version(path, "v");
  EXPECT_TRUE(remove_recursive("/a/b").is_ok());
  EXPECT_THAT(children("/a"), ElementsAre("b-", "bc"));
  EXPECT_FALSE(get("/a/b/c/d").has_value());
  EXPECT_TRUE(remove_recursive("/a/b").is_ok());
  EXPECT_TRUE(remove_recursive("/a").is_ok());
  EXPECT_THAT(children("/"), ElementsAre("z"));
  EXPECT_TRUE(remove_recursive("/").is_ok());
  EXPECT_THAT(children("/"), IsEmpty());
}

TEST_F(RocksdbStoreTest, CommitsAllOrNothing) {
  using Kind = MetadataOp::Kind;
  put_version("/a", "1");
  EXPECT_TRUE(
      commit({{Kind::Put, "/b", "2", -1}, {Kind::Put, "/a", "2", 5}}).is(ErrorCode::BadVersion));
  EXPECT_FALSE(get("/b").has_value());
  EXPECT_TRUE(commit({{Kind::Put, "/c/d", "2", {}}, {Kind::Remove, "/none", "", {}}})
                  .is(ErrorCode::NotFound));
  EXPECT_FALSE(get("/c").has_value());
  EXPECT_TRUE(
      commit({{Kind::Put, "/b", "2", -1}, {Kind::Put, "/b", "3", 0}, {Kind::Remove, "/a", "", 0}})
          .is_ok());
  EXPECT_EQ(text("/b"), "3");
  EXPECT_FALSE(get("/a").has_value());
  EXPECT_TRUE(commit({}).is_ok());
}

TEST_F(RocksdbStoreTest, SequencesNeverGoBack) {
  const MetadataPut sequential{.sequential = true};
  EXPECT_EQ(put("/c/p/-", "", sequential)->path, "/c/p/-0000000000");
  EXPECT_EQ(put("/c/p/-", "", sequential)->path, "/c/p/-0000000001");
  EXPECT_EQ(put("/c/p/other", "", sequential)->path, "/c/p/other0000000002");
  EXPECT_EQ(put("/c/q/", "", sequential)->path, "/c/q/0000000000");
  EXPECT_TRUE(remove_recursive("/c").is_ok());
  EXPECT_FALSE(get("/c").has_value());
  reopen();
  EXPECT_EQ(put("/c/p/-", "", sequential)->path, "/c/p/-0000000003");
}

TEST_F(RocksdbStoreTest, EphemeralKeysEndWithTheProcess) {
  const MetadataPut ephemeral{.ephemeral = true};
  EXPECT_TRUE(put("/e/x", "1", ephemeral)->stat.ephemeral);
  put_version("/e/x", "2");
  EXPECT_TRUE(get("/e/x")->stat.ephemeral);
  EXPECT_TRUE(put("/e/gone", "1", ephemeral).is_ok());
  EXPECT_TRUE(remove("/e/gone").is_ok());
  put_version("/e/gone", "stays");
  EXPECT_TRUE(put("/only/-", "", {.ephemeral = true, .sequential = true}).is_ok());
  reopen();
  EXPECT_FALSE(get("/e/x").has_value());
  EXPECT_EQ(text("/e/gone"), "stays");
  EXPECT_FALSE(get("/only").has_value());
  EXPECT_EQ(put("/only/-", "", {.ephemeral = true, .sequential = true})->path, "/only/-0000000001");
}

TEST_F(RocksdbStoreTest, RefusesWhatIsNoPath) {
  for (const char* path : {"", "a", "/a/", "//", "/a//b", "/a/./b", "/..", "/a/.."}) {
    EXPECT_TRUE(put(path, "").is(ErrorCode::InvalidArgument)) << path;
    auto got = run([=](MetadataStore& store) { return store.get(path); });
    EXPECT_TRUE(got.is(ErrorCode::InvalidArgument)) << path;
  }
  EXPECT_TRUE(put(std::string("/a\0b", 4), "").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(put("/" + std::string(9000, 'x'), "").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(put("/", "").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(put("/big", std::string((16 << 20) + 1, 'x')).is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(put("/...", "").is_ok());
}

TEST_F(RocksdbStoreTest, KeepsAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 70000; ++i) bytes += static_cast<char>(i * 7);
  put_version("/bytes", bytes);
  reopen();
  EXPECT_EQ(text("/bytes"), bytes);
}

TEST_F(RocksdbStoreTest, WatchesInOrderOnTheirShard) {
  std::vector<std::string> seen;
  const auto watch_on = [&](const char* prefix) {
    return runtime_.run_and_wait(1, [&, prefix]() -> Task<std::unique_ptr<MetadataWatch>> {
      co_return store_->watch(prefix, [&seen](const MetadataEvent& event) {
        EXPECT_EQ(Shard::current()->id(), 1U);
        seen.emplace_back(1, "+*-c"[static_cast<int>(event.kind)]);
        seen.back() += event.path;
      });
    });
  };
  const auto settle = [&] { runtime_.run_and_wait(1, []() -> Task<void> { co_return; }); };
  auto watch = watch_on("/a");
  put_version("/a/b/c", "1");
  put_version("/ab", "1");
  put_version("/a/b/c", "2");
  put_version("/a/b/c", "3", 77);
  EXPECT_TRUE(remove("/a/b/c").is_ok());
  settle();
  EXPECT_THAT(seen, ElementsAre("+/a", "+/a/b", "c/a", "+/a/b/c", "c/a/b", "*/a/b/c", "-/a/b/c",
                                "c/a/b", "-/a/b", "c/a", "-/a"));
  seen.clear();
  runtime_.run_and_wait(1, [&]() -> Task<void> {
    watch.reset();
    co_return;
  });
  put_version("/a", "1");
  settle();
  EXPECT_THAT(seen, IsEmpty());
  watch = watch_on("/");
  put_version("/a", "2");
  settle();
  EXPECT_THAT(seen, ElementsAre("*/a"));
  runtime_.run_and_wait(1, [&]() -> Task<void> {
    watch.reset();
    co_return;
  });
}

TEST_F(RocksdbStoreTest, TwoShardsCountTogether) {
  constexpr int kEach = 200;
  const auto count = [this](int rounds) -> Task<int> {
    int conflicts = 0;
    for (int i = 0; i < rounds;) {
      const auto now = co_await store_->get("/counter");
      const std::int64_t value = now->has_value() ? std::stoll((*now)->value) : 0;
      MetadataPut options;
      options.expected_version = now->has_value() ? (*now)->stat.version : -1;
      const auto done = co_await store_->put("/counter", std::to_string(value + 1), options);
      if (done.is_ok()) {
        ++i;
      } else {
        EXPECT_TRUE(done.is(ErrorCode::BadVersion)) << done.status().to_string();
        ++conflicts;
      }
      EXPECT_NE(Shard::current(), nullptr);
    }
    co_return conflicts;
  };
  auto other = asio::co_spawn(
      runtime_.shard(1).executor(), [&] { return count(kEach); }, asio::use_future);
  runtime_.run_and_wait(0, [&] { return count(kEach); });
  other.get();
  EXPECT_EQ(text("/counter"), std::to_string(2 * kEach));
  EXPECT_EQ(get("/counter")->stat.version, 2 * kEach - 1);
}

TEST_F(RocksdbStoreTest, PagesOverAHundredThousandSiblings) {
  constexpr int kCount = 100'000;
  constexpr int kBatch = 10'000;
  for (int from = 0; from < kCount; from += kBatch) {
    std::vector<MetadataOp> ops;
    for (int i = from; i < from + kBatch; ++i) {
      ops.push_back(
          {MetadataOp::Kind::Put, "/many/k" + std::to_string(1'000'000 + i), "value", -1});
    }
    ASSERT_TRUE(commit(std::move(ops)).is_ok());
  }
  EXPECT_EQ(children("/many").size(), static_cast<std::size_t>(kCount));
  const std::int64_t began = monotonic_ns();
  std::string after = "k1054321";
  auto page = run([=](MetadataStore& store) { return store.children_page("/many", after, 3); });
  const std::int64_t took = monotonic_ns() - began;
  ASSERT_TRUE(page.is_ok());
  EXPECT_THAT(*page, ElementsAre("k1054322", "k1054323", "k1054324"));
  EXPECT_LT(took, 50'000'000);
  std::size_t seen = 0;
  after = "";
  while (true) {
    auto next =
        run([=](MetadataStore& store) { return store.children_page("/many", after, 7777); });
    if (next->empty()) break;
    seen += next->size();
    after = next->back();
  }
  EXPECT_EQ(seen, static_cast<std::size_t>(kCount));
  reopen();
  EXPECT_EQ(children("/many").size(), static_cast<std::size_t>(kCount));
  EXPECT_TRUE(remove_recursive("/many").is_ok());
  EXPECT_THAT(children("/"), IsEmpty());
  shut();
  const auto report = check_rocksdb_store(folder_);
  ASSERT_TRUE(report.is_ok());
  EXPECT_THAT(report->problems, IsEmpty());
}

TEST_F(RocksdbStoreTest, RefusesAfterClose) {
  put_version("/a", "1");
  EXPECT_TRUE(run([](MetadataStore& store) { return store.close(); }).is_ok());
  EXPECT_TRUE(put("/a", "2").is(ErrorCode::Closed));
  EXPECT_TRUE(run([](MetadataStore& store) { return store.get("/a"); }).is(ErrorCode::Closed));
  EXPECT_TRUE(run([](MetadataStore& store) { return store.close(); }).is_ok());
}

TEST_F(RocksdbStoreTest, FolderIsPrivateAndLocked) {
  struct stat info {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  const auto second = open_rocksdb_store({.path = folder_});
  ASSERT_TRUE(second.is(ErrorCode::Io));
  EXPECT_THAT(second.status().message(), testing::HasSubstr("in use by another process"));
  EXPECT_THAT(second.status().message(), testing::HasSubstr(folder_));
  EXPECT_EQ(put_version("/a", "1"), 0);
}

// The store against a map of paths, operation by operation, with reopenings.
TEST_F(RocksdbStoreTest, AgreesWithAModel) {
  const char* given = std::getenv("GEMINGA_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device()();
  SCOPED_TRACE("replay with GEMINGA_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  struct Node {
    std::int64_t version = 0;
    std::string value;
    bool container = false;
  };
  std::map<std::string, Node> model;
  const auto has_children = [&](const std::string& path) {
    const auto at = model.lower_bound(path + "/");
    return at != model.end() && at->first.starts_with(path + "/");
  };
  const auto parent = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
  const auto model_put = [&](const std::string& path, const std::string& value) {
    auto [at, added] = model.try_emplace(path);
    at->second = {added ? 0 : at->second.version + 1, value, false};
    for (std::string up = parent(path); !up.empty(); up = parent(up)) {
      model.try_emplace(up, Node{0, "", true});
    }
  };
  const auto model_prune = [&](std::string up) {
    for (; !up.empty(); up = parent(up)) {
      const auto at = model.find(up);
      if (at == model.end() || !at->second.container || has_children(up)) return;
      model.erase(at);
    }
  };
  const auto model_remove = [&](const std::string& path) {
    if (has_children(path)) {
      model[path] = {0, "", true};
      return;
    }
    model.erase(path);
    model_prune(parent(path));
  };
  const auto random_path = [&] {
    std::string path;
    for (unsigned depth = 1 + random() % 4; depth > 0; --depth)
      path.append("/").append(1, "abc-"[random() % 4]);
    return path;
  };
  for (int step = 0; step < 1500; ++step) {
    const std::string path = random_path();
    const auto at = model.find(path);
    const std::int64_t version = at == model.end() ? -1 : at->second.version;
    std::optional<std::int64_t> expected;
    if (random() % 2 == 0) expected = version + static_cast<int>(random() % 3 == 0);
    const bool fits = !expected || *expected == version;
    switch (random() % 8) {
      case 0:
      case 1:
      case 2: {
        const std::string value = std::to_string(random());
        const auto done = put(path, value, {.expected_version = expected});
        ASSERT_EQ(done.is_ok(), fits);
        if (fits) model_put(path, value);
        if (fits) {
          ASSERT_EQ(done->stat.version, model[path].version);
        }
        break;
      }
      case 3: {
        const Status done = remove(path, expected);
        ASSERT_EQ(done.code(), version == -1 ? ErrorCode::NotFound
                               : fits        ? ErrorCode::Ok
                                             : ErrorCode::BadVersion);
        if (done) model_remove(path);
        break;
      }
      case 4: {
        if (random() % 4 != 0) break;
        ASSERT_TRUE(remove_recursive(path).is_ok());
        std::erase_if(model, [&](const auto& node) {
          return node.first == path || node.first.starts_with(path + "/");
        });
        model_prune(parent(path));
        break;
      }
      case 5: {
        std::vector<std::string> names;
        for (const auto& [key, node] : model) {
          if (parent(key) == path) names.push_back(key.substr(path.size() + 1));
        }
        std::sort(names.begin(), names.end());
        ASSERT_EQ(children(path), names) << path;
        break;
      }
      case 6: {
        const auto value = get(path);
        ASSERT_EQ(value.has_value(), version != -1) << path;
        if (value) {
          ASSERT_EQ(value->value, at->second.value);
        }
        if (value) {
          ASSERT_EQ(value->stat.version, version);
        }
        break;
      }
      case 7:
        if (random() % 30 == 0) reopen();
        break;
    }
  }
  for (const auto& [path, node] : model) ASSERT_EQ(text(path), node.value);
  shut();
  const auto report = check_rocksdb_store(folder_);
  ASSERT_TRUE(report.is_ok());
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->keys, model.size());
}

}  // namespace
}  // namespace geminga
