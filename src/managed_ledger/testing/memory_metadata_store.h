// For tests: a MetadataStore in memory with the semantics of the interface, except that each call
// completes one turn later. What is stored lives in a MemoryTree, which outlasts the store: a new
// store on the same tree is a restarted process. One shard only; watches are called in the turn
// after the change.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "managed_ledger/testing/faults.h"
#include "metadata/metadata_store.h"
#include "runtime/shard.h"

namespace geminga::testing {

struct MemoryTree {
  std::map<std::string, MetadataValue> keys;
  std::map<std::string, std::int64_t> counters;  // of sequential keys, by parent
};

class MemoryMetadataStore final : public MetadataStore {
 public:
  explicit MemoryMetadataStore(Shard& shard,
                               std::shared_ptr<MemoryTree> tree = std::make_shared<MemoryTree>(),
                               std::shared_ptr<Faults> faults = std::make_shared<Faults>())
      : shard_(shard), tree_(std::move(tree)), faults_(std::move(faults)) {}
  ~MemoryMetadataStore() override {
    std::erase_if(tree_->keys, [](const auto& key) { return key.second.stat.ephemeral; });
  }

  MemoryTree& tree() { return *tree_; }
  Faults& faults() { return *faults_; }

  Task<Result<std::optional<MetadataValue>>> get(std::string path) override {
    co_await turn();
    if (auto fault = faults_->next("get", path)) co_return fault->status;
    if (const auto at = tree_->keys.find(path); at != tree_->keys.end()) {
      co_return std::optional<MetadataValue>(at->second);
    }
    if (has_children(path)) co_return std::optional<MetadataValue>(MetadataValue{});
    co_return std::optional<MetadataValue>();
  }

  Task<Result<MetadataPutResult>> put(std::string path, std::string value,
                                      MetadataPut options) override {
    co_await turn();
    const auto fault = faults_->next("put", path);
    if (fault && !fault->applied) co_return fault->status;
    if (options.sequential) {
      char digits[16];
      std::snprintf(digits, sizeof digits, "%010lld",
                    static_cast<long long>(tree_->counters[parent_of(path)]++));
      path += digits;
    }
    const auto at = tree_->keys.find(path);
    const std::int64_t version = at == tree_->keys.end() ? -1 : at->second.stat.version;
    if (options.expected_version && *options.expected_version != version) {
      co_return Status::BadVersion(path + " has version " + std::to_string(version) + ", not " +
                                   std::to_string(*options.expected_version));
    }
    const MetadataStat stat = write(path, std::move(value), options.ephemeral);
    if (fault) co_return fault->status;
    co_return MetadataPutResult{path, stat};
  }

  Task<Status> remove(std::string path, std::optional<std::int64_t> expected_version) override {
    co_await turn();
    const auto fault = faults_->next("remove", path);
    if (fault && !fault->applied) co_return fault->status;
    const auto at = tree_->keys.find(path);
    if (at == tree_->keys.end()) co_return Status::NotFound("there is no key " + path);
    if (expected_version && *expected_version != at->second.stat.version) {
      co_return Status::BadVersion(path + " has version " +
                                   std::to_string(at->second.stat.version));
    }
    erase(path);
    co_return fault ? fault->status : Status::ok();
  }

  Task<Status> remove_recursive(std::string path) override {
    co_await turn();
    const auto fault = faults_->next("remove", path);
    if (fault && !fault->applied) co_return fault->status;
    std::vector<std::string> gone;
    for (const auto& [key, value] : tree_->keys) {
      if (key == path || key.starts_with(path + "/")) gone.push_back(key);
    }
    for (const std::string& key : gone) erase(key);
    co_return fault ? fault->status : Status::ok();
  }

  Task<Status> commit(std::vector<MetadataOp> ops) override {
    co_await turn();
    const auto fault = faults_->next("commit", ops.empty() ? "" : ops.back().path);
    if (fault && !fault->applied) co_return fault->status;
    if (ops.size() > 10'000) co_return Status::InvalidArgument("more than 10,000 operations");
    for (const MetadataOp& op : ops) {
      const auto at = tree_->keys.find(op.path);
      const std::int64_t version = at == tree_->keys.end() ? -1 : at->second.stat.version;
      if (op.kind == MetadataOp::Kind::Remove && version < 0)
        co_return Status::NotFound("no key " + op.path);
      if (op.expected_version && *op.expected_version != version) {
        co_return Status::BadVersion(op.path + " has version " + std::to_string(version));
      }
    }
    for (MetadataOp& op : ops) {
      if (op.kind == MetadataOp::Kind::Remove) {
        erase(op.path);
      } else {
        write(op.path, std::move(op.value), false);
      }
    }
    co_return fault ? fault->status : Status::ok();
  }

  Task<Result<std::vector<std::string>>> children(std::string path) override {
    co_return co_await children_page(std::move(path), "", SIZE_MAX);
  }

  Task<Result<std::vector<std::string>>> children_page(std::string path, std::string after,
                                                       std::size_t limit) override {
    co_await turn();
    if (auto fault = faults_->next("children", path)) co_return fault->status;
    const std::string prefix = path == "/" ? path : path + "/";
    std::vector<std::string> names;
    for (auto at = tree_->keys.lower_bound(prefix);
         at != tree_->keys.end() && at->first.starts_with(prefix); ++at) {
      std::string name =
          at->first.substr(prefix.size(), at->first.find('/', prefix.size()) - prefix.size());
      if (names.empty() || names.back() != name) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::erase_if(names, [&](const std::string& name) { return !after.empty() && name <= after; });
    if (names.size() > limit) names.resize(limit);
    co_return names;
  }

  std::unique_ptr<MetadataWatch> watch(
      std::string prefix, UniqueFunction<void(const MetadataEvent&)> on_event) override {
    auto watch = std::make_unique<Watch>();
    watch->held = std::make_shared<Watch::Held>();
    watch->held->prefix = std::move(prefix);
    watch->held->on_event = std::move(on_event);
    watches_.push_back(watch->held);
    return watch;
  }

  MetadataStats stats() const override { return {}; }
  Task<Status> close() override { co_return Status::ok(); }

 private:
  struct Watch final : MetadataWatch {
    struct Held {
      std::string prefix;
      UniqueFunction<void(const MetadataEvent&)> on_event;
    };
    std::shared_ptr<Held> held;
  };

  Task<void> turn() { co_await asio::post(shard_.executor(), asio::use_awaitable); }

  static std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  bool has_children(const std::string& path) const {
    const auto at = tree_->keys.lower_bound(path + "/");
    return at != tree_->keys.end() && at->first.starts_with(path + "/");
  }

  MetadataStat write(const std::string& path, std::string value, bool ephemeral) {
    auto [at, created] = tree_->keys.try_emplace(path);
    MetadataValue& key = at->second;
    key.value = std::move(value);
    key.stat.version = created ? 0 : key.stat.version + 1;
    key.stat.modified_ms = now_ms();
    if (created) key.stat.created_ms = key.stat.modified_ms;
    key.stat.ephemeral = ephemeral;
    notify({created ? MetadataEvent::Kind::Created : MetadataEvent::Kind::Modified, path});
    if (created) notify({MetadataEvent::Kind::ChildrenChanged, parent_of(path)});
    return key.stat;
  }
  void erase(const std::string& path) {
    tree_->keys.erase(path);
    notify({MetadataEvent::Kind::Deleted, path});
    notify({MetadataEvent::Kind::ChildrenChanged, parent_of(path)});
  }
  void notify(const MetadataEvent& event) {
    std::erase_if(watches_, [](const auto& watch) { return watch.expired(); });
    for (const auto& weak : watches_) {
      const auto watch = weak.lock();
      if (event.path != watch->prefix && !event.path.starts_with(watch->prefix + "/")) continue;
      shard_.post([weak, event] {
        if (const auto alive = weak.lock()) alive->on_event(event);
      });
    }
  }

  Shard& shard_;
  std::shared_ptr<MemoryTree> tree_;
  std::shared_ptr<Faults> faults_;
  std::vector<std::weak_ptr<Watch::Held>> watches_;
};

}  // namespace geminga::testing
