// How the results of `geminga perf` are told: a progress line, a summary for people, JSON for
// scripts. Called by main's thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/histogram.h"
#include "base/status.h"
#include "cli/perf_load.h"
#include "cli/perf_options.h"

namespace geminga {

struct LoadTotals {
  std::uint64_t sent = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t failed = 0;
  std::uint64_t received = 0;
  std::uint64_t received_bytes = 0;
};

struct LoadReport {
  LoadTotals totals;
  LoadResults results;
  std::uint64_t missing = 0;   // latency: acknowledged and never received
  double produce_seconds = 0;  // that the acknowledged messages of the window took
  double consume_seconds = 0;
  double client_cpu_seconds = 0;  // of this process, in the window
  double window_seconds = 0;
  bool failed() const {
    return totals.failed > 0 || results.unanswered > 0 || missing > 0 || results.damaged > 0;
  }
};

class ProgressLine {
 public:
  ProgressLine(const PerfOptions& options, std::int64_t start_ns);
  // Once a second.
  void print(const LoadTotals& totals, const LoadInterval& interval);
  void end();

 private:
  const PerfOptions& options_;
  const std::int64_t start_ns_;
  std::int64_t last_ns_;
  LoadTotals last_;
  bool printed_ = false;
};

void print_summary(const PerfOptions& options, const LoadReport& report);
std::string report_json(const PerfOptions& options, const LoadReport& report);

// To options.json, if it was given.
Status write_json(const PerfOptions& options, const std::string& json);

}  // namespace geminga
