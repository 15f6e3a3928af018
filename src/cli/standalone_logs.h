// Which logs a data folder has, where they lie and which shard each lives on: those of everybody
// (docs/decisions/0002) and those of isolation groups (docs/decisions/0008). Both are fixed when
// they are made and kept in the metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/isolation_groups.h"
#include "base/status.h"
#include "metadata/metadata_store.h"
#include "runtime/task.h"

namespace geminga {

// What the metadata keep of an isolation group, below kIsolationGroupsPath by its name:
// {"number":1,"logs":2,"folder":"/mnt/fast"}; no folder: below the data folder, wherever that is.
inline constexpr char kIsolationGroupsPath[] = "/geminga/isolation";
struct StoredLogGroup {
  std::int64_t number = 0;
  unsigned logs = 0;
  std::string folder;

  std::string text() const;
  std::string path(const std::string& data_dir, const std::string& name) const {
    return folder.empty() ? data_dir + "/isolation-" + name : folder;
  }
};
// Corruption.
Result<StoredLogGroup> parse_stored_group(const std::string& path, const std::string& text);

struct NodeLog {
  std::string folder;
  std::string group;   // its name; empty: everybody's
  unsigned index = 0;  // in its group
  unsigned count = 1;  // of the group
  std::int64_t first_ledger_id = 0;
  unsigned shard = 0;
};
struct NodeLogGroup {
  IsolationGroup settings;  // without a name: of everybody; shards are there in any case
  std::string folder;       // that holds its logs
  unsigned first = 0;       // of NodeLogs::logs
  unsigned count = 0;
};
struct NodeLogs {
  std::vector<NodeLog> logs;         // those of a group beside each other
  std::vector<NodeLogGroup> groups;  // the first is everybody's
};

// Makes what is new. Groups that were there before and are not in `groups` live on the shards of
// everybody. Corruption: a folder is gone, or the metadata cannot be understood; InvalidArgument:
// shards that there are not, or a volume that holds other logs; Io.
Task<Result<NodeLogs>> plan_logs(MetadataStore& metadata, std::string data_dir,
                                 unsigned shard_count, std::vector<IsolationGroup> groups);

}  // namespace geminga
