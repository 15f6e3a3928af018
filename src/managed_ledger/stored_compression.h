// Compressed values of managed ledgers and cursors: magic 0x4778, 4 bytes length of a header, the
// header (ManagedLedgerInfoMetadata; the cursors' one has the same fields), the compressed value.
// Read only: we write values plain. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

bool is_compressed_value(std::string_view value);
// Corruption naming `path` if it is broken or claims to be larger than 64 MiB.
Result<std::string> uncompress_value(std::string_view value, std::string_view path);

}  // namespace geminga
