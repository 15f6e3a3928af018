// Measures of this machine that bound what a broker on it can reach: disk, memory, loopback. Each
// gives back a JSON object and prints a summary. Blocking; main's thread.
#pragma once

#include <string>

#include "base/status.h"
#include "cli/perf_options.h"

namespace geminga {

// In a scratch file in options.directory, removed afterwards: fdatasync rate of small writes over
// preallocated and over new space, sequential write bandwidth (direct and through the page cache
// with a sync at the end).
Result<std::string> measure_disk(const PerfOptions& options);
Result<std::string> measure_memcpy(const PerfOptions& options);
// Between two threads over 127.0.0.1: round trips of 100 bytes, bandwidth in 64 KiB and 1 KiB
// writes.
Result<std::string> measure_loopback(const PerfOptions& options);

}  // namespace geminga
