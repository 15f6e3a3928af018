// Which ledgers the versions of all schemas are in.
#pragma once

#include <memory>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "runtime/task.h"

namespace geminga {

class MetadataStore;

// Unordered, each at least once. Reads every key below /schemas; ends with Closed soon after
// `stopped` is true. Errors: Corruption (a node that holds no SchemaLocator, by name), and the
// store's. Any shard.
Task<Result<std::vector<LedgerId>>> schema_ledgers(MetadataStore& metadata,
                                                   std::shared_ptr<const bool> stopped = {});

}  // namespace geminga
