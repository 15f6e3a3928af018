// The offline check of a log (`geminga doctor`): reads every segment, verifies every record, header
// and footer, and names all damage by file and offset. Changes nothing. Blocking; the log must not
// be open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/log_file.h"

namespace geminga {

struct LogDamage {
  std::string file;
  std::uint64_t offset = 0;
  std::string what;
};

struct DoctorReport {
  std::uint32_t log_count = 0;  // of the data folder, as the segments have it; 0: there is none
  std::uint64_t segments = 0;
  std::uint64_t free_segments = 0;
  std::uint64_t records = 0;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;    // of records
  std::uint64_t ledgers = 0;  // that exist
  std::vector<LogDamage> damage;
  // What a crash leaves and the next start repairs by itself: a missing footer, a torn tail.
  std::vector<std::string> notes;
  bool opens = false;   // a broker can start with this log
  std::string refusal;  // why not

  bool healthy() const { return damage.empty() && opens; }
};

// `folder` is one log ("DATA/log-0"). Errors: Io, NotFound.
Result<DoctorReport> check_log(const std::string& folder);
Result<DoctorReport> check_log(LogFolder& folder);

}  // namespace geminga
