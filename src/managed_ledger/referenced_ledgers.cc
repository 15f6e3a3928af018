#include <algorithm>

#include "managed_ledger/delayed_index.h"
#include "managed_ledger/managed_ledger.h"
#include "managed_ledger/stored_form.h"

namespace geminga {

namespace {

Task<Status> add_cursor(MetadataStore& metadata, std::string path, std::vector<LedgerId>& ids) {
  auto value = co_await metadata.get(path);
  if (!value) co_return value.status();
  if (!*value) co_return Status::ok();
  auto info = parse_cursor_info((*value)->value, path);
  if (!info) co_return info.status();
  if (info->cursorsledgerid() >= 0) ids.push_back(info->cursorsledgerid());
  for (const auto& property : info->properties()) {
    if (property.name() == kCompactedLedgerProperty) ids.push_back(property.value());
  }
  co_return Status::ok();
}

Task<Status> add_topic(MetadataStore& metadata, std::string path, std::vector<LedgerId>& ids) {
  auto value = co_await metadata.get(path);
  if (!value) co_return value.status();
  if (*value) {
    auto info = parse_ledger_info((*value)->value, path);
    if (!info) co_return info.status();
    for (const auto& ledger : info->ledgerinfo()) ids.push_back(ledger.ledgerid());
  }
  auto cursors = co_await metadata.children(path);
  if (!cursors) co_return cursors.status();
  for (const std::string& cursor : *cursors) {
    Status added = co_await add_cursor(metadata, path + "/" + cursor, ids);
    if (!added) co_return added;
  }
  co_return Status::ok();
}

// `depth` segments lie between /managed-ledgers and `path`'s children. The domain is the third of a
// name, the fourth of one of the old form with a cluster.
Task<Status> add_below(MetadataStore& metadata, std::string path, int depth,
                       std::vector<LedgerId>& ids) {
  auto names = co_await metadata.children(path);
  if (!names) co_return names.status();
  for (const std::string& name : *names) {
    const std::string child = path + "/" + name;
    Status added;
    if (depth < 2 || (depth == 2 && name != "persistent")) {
      added = co_await add_below(metadata, child, depth + 1, ids);
    } else {
      auto topics = co_await metadata.children(child);
      if (!topics) co_return topics.status();
      for (const std::string& topic : *topics) {
        added = co_await add_topic(metadata, child + "/" + topic, ids);
        if (!added) break;
      }
    }
    if (!added) co_return added;
  }
  co_return Status::ok();
}

Task<Status> add_delayed_indexes(MetadataStore& metadata, std::string path,
                                 std::vector<LedgerId>& ids) {
  auto value = co_await metadata.get(path);
  if (!value) co_return value.status();
  if (!*value) co_return Status::ok();
  if (!(*value)->value.empty()) {
    // One that cannot be read is made anew by its topic, and names nothing.
    if (auto named = DelayedIndex::ledgers_in((*value)->value, path))
      ids.insert(ids.end(), named->begin(), named->end());
    co_return Status::ok();
  }
  auto names = co_await metadata.children(path);
  if (!names) co_return names.status();
  for (const std::string& name : *names) {
    Status added = co_await add_delayed_indexes(metadata, path + "/" + name, ids);
    if (!added) co_return added;
  }
  co_return Status::ok();
}

}  // namespace

Task<Result<std::vector<LedgerId>>> referenced_ledgers(MetadataStore& metadata) {
  std::vector<LedgerId> ids;
  Status status = co_await add_below(metadata, "/managed-ledgers", 0, ids);
  if (status)
    status = co_await add_delayed_indexes(metadata, std::string(DelayedIndex::kRoot), ids);
  if (!status) co_return status.with_context("listing the ledgers in use");
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  co_return ids;
}

}  // namespace geminga
