#include <algorithm>

#include "managed_ledger/delayed_index.h"
#include "managed_ledger/managed_ledger.h"
#include "managed_ledger/stored_form.h"

namespace geminga {

namespace {

// One walk over the keys; lives in the frame of referenced_ledgers().
struct Walk {
  MetadataStore& metadata;
  std::shared_ptr<const bool> stopped;
  std::vector<LedgerId> ids = {};

  bool ended() const { return stopped != nullptr && *stopped; }
  Task<Status> add_cursor(std::string path);
  Task<Status> add_topic(std::string path);
  Task<Status> add_below(std::string path, int depth);
  Task<Status> add_delayed_indexes(std::string path);
};

Task<Status> Walk::add_cursor(std::string path) {
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

Task<Status> Walk::add_topic(std::string path) {
  if (ended()) co_return Status::Closed("the walk was ended");
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
    GM_CO_RETURN_IF_ERROR(co_await add_cursor(path + "/" + cursor));
  }
  co_return Status::ok();
}

// `depth` segments lie between /managed-ledgers and `path`'s children. The domain is the third of a
// name, the fourth of one of the old form with a cluster.
Task<Status> Walk::add_below(std::string path, int depth) {
  auto names = co_await metadata.children(path);
  if (!names) co_return names.status();
  for (const std::string& name : *names) {
    const std::string child = path + "/" + name;
    if (depth < 2 || (depth == 2 && name != "persistent")) {
      GM_CO_RETURN_IF_ERROR(co_await add_below(child, depth + 1));
      continue;
    }
    auto topics = co_await metadata.children(child);
    if (!topics) co_return topics.status();
    for (const std::string& topic : *topics) {
      GM_CO_RETURN_IF_ERROR(co_await add_topic(child + "/" + topic));
    }
  }
  co_return Status::ok();
}

Task<Status> Walk::add_delayed_indexes(std::string path) {
  if (ended()) co_return Status::Closed("the walk was ended");
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
    GM_CO_RETURN_IF_ERROR(co_await add_delayed_indexes(path + "/" + name));
  }
  co_return Status::ok();
}

}  // namespace

Task<Result<std::vector<LedgerId>>> referenced_ledgers(MetadataStore& metadata,
                                                       std::shared_ptr<const bool> stopped) {
  Walk walk{metadata, std::move(stopped)};
  Status status = co_await walk.add_below("/managed-ledgers", 0);
  if (status) status = co_await walk.add_delayed_indexes(std::string(DelayedIndex::kRoot));
  if (!status) co_return status.with_context("listing the ledgers in use");
  std::vector<LedgerId>& ids = walk.ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  co_return std::move(ids);
}

}  // namespace geminga
