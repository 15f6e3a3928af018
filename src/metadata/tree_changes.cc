#include "metadata/tree_changes.h"

#include <fmt/format.h>

namespace geminga {

using metadata_keys::Counters;
using metadata_keys::NodeRecord;

namespace {

std::string shown(std::string_view parent) { return parent.empty() ? "/" : std::string(parent); }

}  // namespace

void TreeChanges::clear() {
  changes_.clear();
  events_.clear();
  undo_.clear();
  bytes_ = 0;
}

Result<MetadataPutResult> TreeChanges::put(std::string path, std::string_view value,
                                           const MetadataPut& options, std::int64_t now_ms) {
  const std::size_t events_before = events_.size();
  MetadataPutResult result;
  GM_RETURN_IF_ERROR(end_operation(put_one(path, value, options, now_ms, &result), events_before));
  return result;
}

Status TreeChanges::remove(const std::string& path, std::optional<std::int64_t> expected_version,
                           std::int64_t now_ms) {
  const std::size_t events_before = events_.size();
  return end_operation(remove_one(path, expected_version, now_ms), events_before);
}

Status TreeChanges::commit(const std::vector<MetadataOp>& ops, std::int64_t now_ms) {
  const std::size_t events_before = events_.size();
  Status status;
  for (const MetadataOp& op : ops) {
    if (op.kind == MetadataOp::Kind::Put) {
      MetadataPut options;
      options.expected_version = op.expected_version;
      status = put_one(op.path, op.value, options, now_ms, nullptr);
    } else {
      status = remove_one(op.path, op.expected_version, now_ms);
    }
    if (!status) break;
  }
  return end_operation(std::move(status), events_before);
}

Status TreeChanges::put_one(const std::string& given_path, std::string_view value,
                            const MetadataPut& options, std::int64_t now_ms,
                            MetadataPutResult* result) {
  std::string path = given_path;
  if (options.sequential) {
    const std::string parent(metadata_keys::parent_of(path));
    GM_ASSIGN_OR_RETURN(Counters of_parent, counters(parent));
    path += fmt::format("{:010}", of_parent.next_sequence++);
    set_counters(parent, of_parent);
  }
  GM_ASSIGN_OR_RETURN(std::optional<NodeRecord> old, node(path));
  const std::int64_t version = old ? old->stat.version : -1;
  if (options.expected_version && *options.expected_version != version) {
    return Status::BadVersion(fmt::format("'{}' has version {}, expected was {}", path, version,
                                          *options.expected_version));
  }
  NodeRecord fresh;
  fresh.stat.version = version + 1;
  fresh.stat.created_ms = old ? old->stat.created_ms : now_ms;
  fresh.stat.modified_ms = now_ms;
  fresh.stat.ephemeral = old && !old->container ? old->stat.ephemeral : options.ephemeral;
  fresh.value = value;
  write(metadata_keys::node_key(path), encode(fresh));
  if (fresh.stat.ephemeral && (!old || !old->stat.ephemeral)) {
    write(metadata_keys::ephemeral_key(path), std::string());
  }
  if (!old) {
    GM_RETURN_IF_ERROR(add_child(metadata_keys::parent_of(path), now_ms));
  }
  event(old ? MetadataEvent::Kind::Modified : MetadataEvent::Kind::Created, path);
  if (!old) event(MetadataEvent::Kind::ChildrenChanged, shown(metadata_keys::parent_of(path)));
  if (result != nullptr) *result = {std::move(path), fresh.stat};
  return {};
}

// Counts a new child of `parent`, making the ancestors that are missing.
Status TreeChanges::add_child(std::string_view parent, std::int64_t now_ms) {
  const std::string path(parent);
  GM_ASSIGN_OR_RETURN(Counters of_parent, counters(path));
  const bool may_be_missing = of_parent.children == 0;
  ++of_parent.children;
  set_counters(path, of_parent);
  if (path.empty() || !may_be_missing) return {};
  GM_ASSIGN_OR_RETURN(const std::optional<NodeRecord> there, node(path));
  if (there) return {};
  NodeRecord container;
  container.container = true;
  container.stat.created_ms = container.stat.modified_ms = now_ms;
  write(metadata_keys::node_key(path), encode(container));
  GM_RETURN_IF_ERROR(add_child(metadata_keys::parent_of(path), now_ms));
  event(MetadataEvent::Kind::Created, path);
  event(MetadataEvent::Kind::ChildrenChanged, shown(metadata_keys::parent_of(path)));
  return {};
}

Status TreeChanges::remove_one(const std::string& path,
                               std::optional<std::int64_t> expected_version, std::int64_t now_ms) {
  GM_ASSIGN_OR_RETURN(std::optional<NodeRecord> old, node(path));
  if (!old) return Status::NotFound(fmt::format("'{}' is not in the metadata store", path));
  if (expected_version && *expected_version != old->stat.version) {
    return Status::BadVersion(fmt::format("'{}' has version {}, expected was {}", path,
                                          old->stat.version, *expected_version));
  }
  if (old->stat.ephemeral) write(metadata_keys::ephemeral_key(path), std::nullopt);
  GM_ASSIGN_OR_RETURN(const Counters below, counters(path));
  if (below.children > 0) {
    if (old->container) return {};
    NodeRecord container;
    container.container = true;
    container.stat.created_ms = container.stat.modified_ms = now_ms;
    write(metadata_keys::node_key(path), encode(container));
    event(MetadataEvent::Kind::Deleted, path);
    return {};
  }
  write(metadata_keys::node_key(path), std::nullopt);
  event(MetadataEvent::Kind::Deleted, path);
  return drop_child(metadata_keys::parent_of(path));
}

// One child of `parent` is gone; so is `parent` if that was its only reason to exist.
Status TreeChanges::drop_child(std::string_view parent) {
  const std::string path(parent);
  GM_ASSIGN_OR_RETURN(Counters of_parent, counters(path));
  if (of_parent.children == 0) {
    return Status::Corruption(fmt::format(
        "the metadata store counts no children of '{}', yet one was there", shown(parent)));
  }
  --of_parent.children;
  set_counters(path, of_parent);
  event(MetadataEvent::Kind::ChildrenChanged, shown(parent));
  if (path.empty() || of_parent.children > 0) return {};
  GM_ASSIGN_OR_RETURN(const std::optional<NodeRecord> there, node(path));
  if (!there || !there->container) return {};
  write(metadata_keys::node_key(path), std::nullopt);
  event(MetadataEvent::Kind::Deleted, path);
  return drop_child(metadata_keys::parent_of(path));
}

Result<std::optional<NodeRecord>> TreeChanges::node(const std::string& path) {
  GM_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, read(metadata_keys::node_key(path)));
  if (!bytes) return std::optional<NodeRecord>();
  GM_ASSIGN_OR_RETURN(NodeRecord record, metadata_keys::decode_node(path, *bytes));
  return std::optional<NodeRecord>(std::move(record));
}

Result<Counters> TreeChanges::counters(const std::string& path) {
  GM_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                      read(metadata_keys::counters_key(path)));
  if (!bytes) return Counters{};
  return metadata_keys::decode_counters(path, *bytes);
}

void TreeChanges::set_counters(const std::string& path, const Counters& counters) {
  const bool needed = counters.children > 0 || counters.next_sequence > 0;
  write(metadata_keys::counters_key(path),
        needed ? std::optional<std::string>(encode(counters)) : std::nullopt);
}

Result<std::optional<std::string>> TreeChanges::read(const std::string& key) {
  const auto changed = changes_.find(key);
  if (changed != changes_.end()) return changed->second;
  return stored_(key);
}

void TreeChanges::write(std::string key, std::optional<std::string> value) {
  bytes_ += key.size() + (value ? value->size() : 0) + 64;
  auto [at, added] = changes_.try_emplace(key);
  undo_.push_back({std::move(key), !added, std::move(at->second)});
  at->second = std::move(value);
}

Status TreeChanges::end_operation(Status status, std::size_t events_before) {
  if (!status) {
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) {
      if (undo->had) {
        changes_[undo->key] = std::move(undo->value);
      } else {
        changes_.erase(undo->key);
      }
    }
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(events_before), events_.end());
  }
  undo_.clear();
  return status;
}

}  // namespace geminga
