// The text of the setting isolationGroups: which sets of shards, ports and data volumes namespaces
// can be bound to.
//
//   NAME:shards=2+3,port=6651,volume=/mnt/fast;NAME:...
//
// Pure. InvalidArgument names the group and what is allowed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace geminga {

struct IsolationGroup {
  std::string name;              // 1 to 32 of a-z, 0-9, '-'
  std::vector<unsigned> shards;  // for its namespaces alone; empty: those of everybody else
  std::optional<unsigned> port;  // binary protocol, served by its shards; 0: a free one
  std::string volume;            // folder of its logs; empty: below the data folder
};

inline constexpr std::size_t kMostIsolationGroups = 63;

Result<std::vector<IsolationGroup>> parse_isolation_groups(std::string_view text);

// The shards that no group has for itself. InvalidArgument: a group names a shard that there is
// not, or none is left.
Result<std::vector<unsigned>> shared_shards(const std::vector<IsolationGroup>& groups,
                                            unsigned shard_count);

}  // namespace geminga
