// A list of the files in a folder and their sizes, written at a clean shutdown and compared at the
// next start.
//
// RocksDB takes a log or manifest that was cut at the end for a torn last write and drops what is
// missing. After a clean shutdown nothing can be torn: with the list any file that is missing or
// cut is noticed before RocksDB touches the folder. Main thread, before and after the store is
// open.
#pragma once

#include <string>

#include "base/status.h"

namespace geminga {

constexpr char kInventoryFile[] = "CLEAN";

// Durable when it returns.
Status write_inventory(const std::string& folder);
// OK if there is no list, or all it names is there, complete. Corruption that names the first file
// that is not.
Status verify_inventory(const std::string& folder);
// The folder is about to change. Durable when it returns.
Status drop_inventory(const std::string& folder);

}  // namespace geminga
