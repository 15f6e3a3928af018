// For the tests of the RocksDB store: a folder of its own, a runtime of two shards, blocking calls.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metadata/rocksdb_store.h"
#include "runtime/runtime.h"

namespace geminga {

class StoreTest : public testing::Test {
 protected:
  StoreTest() : runtime_({.shards = 2, .memory_limit = 64 << 20, .pin_threads = false}) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "geminga-metadata-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/metadata";
    runtime_.start();
  }
  ~StoreTest() override {
    shut();
    runtime_.stop();
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  template <typename F>
  auto run(F function, unsigned shard = 0) {
    return runtime_.run_and_wait(shard, [this, function]() mutable { return function(*store_); });
  }

  Status open(rocksdb::Env* env = nullptr) {
    auto opened = open_rocksdb_store({.path = folder_, .env = env});
    if (opened.is_ok()) store_ = std::move(opened).value();
    return opened.status();
  }
  // A clean shutdown.
  void shut() {
    if (!store_) return;
    const Status closed = run([](MetadataStore& store) { return store.close(); });
    EXPECT_TRUE(closed.is_ok()) << closed.to_string();
    store_.reset();
  }
  void reopen() {
    shut();
    const Status opened = open();
    ASSERT_TRUE(opened.is_ok()) << opened.to_string();
  }

  Result<MetadataPutResult> put(std::string path, std::string value, MetadataPut options = {}) {
    return run([=](MetadataStore& store) { return store.put(path, value, options); });
  }
  std::int64_t put_version(std::string path, std::string value,
                           std::optional<std::int64_t> expected = {}) {
    auto result = put(path, value, {.expected_version = expected});
    return result.is_ok() ? result->stat.version : -100 - static_cast<std::int64_t>(result.code());
  }
  std::optional<MetadataValue> get(std::string path) {
    auto result = run([=](MetadataStore& store) { return store.get(path); });
    EXPECT_TRUE(result.is_ok()) << result.status().to_string();
    return std::move(result).value();
  }
  std::string text(std::string path) {
    auto value = get(path);
    return value ? value->value : "(missing)";
  }
  Status remove(std::string path, std::optional<std::int64_t> expected = {}) {
    return run([=](MetadataStore& store) { return store.remove(path, expected); });
  }
  Status remove_recursive(std::string path) {
    return run([=](MetadataStore& store) { return store.remove_recursive(path); });
  }
  Status commit(std::vector<MetadataOp> ops) {
    return run([=](MetadataStore& store) { return store.commit(ops); });
  }
  std::vector<std::string> children(std::string path) {
    auto result = run([=](MetadataStore& store) { return store.children(path); });
    EXPECT_TRUE(result.is_ok()) << result.status().to_string();
    return std::move(result).value();
  }

  Runtime runtime_;
  std::string root_;
  std::string folder_;
  std::unique_ptr<MetadataStore> store_;
};

}  // namespace geminga
