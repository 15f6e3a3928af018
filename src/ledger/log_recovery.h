// Finds out what a log holds when it is opened (docs/format/log.md, "Recovery"): reads headers and
// footers, scans what has no footer, gives it one, and builds the table of ledgers. Blocking; runs
// on any thread, before anything else touches the folder.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ledger/ledger_state.h"
#include "ledger/log_file.h"
#include "ledger/log_footer.h"
#include "ledger/log_options.h"
#include "ledger/log_segments.h"

namespace geminga {

// Does the metadata say that the ledger may use the disk's reserve? Cursors may: acks must go on
// when the disk is full.
bool ledger_uses_reserve(const std::map<std::string, std::string>& metadata);

struct RecoveredLog {
  std::vector<std::shared_ptr<LogSegment>> segments;  // in use, ascending; sealed and footed
  std::vector<std::uint32_t> free_slots;
  std::uint64_t next_sequence = 1;
  std::uint32_t next_slot = 0;
  std::uint64_t previous = 0;  // the newest segment in use, 0 if none, and its end
  std::uint64_t previous_end = 0;
  LedgerId last_id = -1;
  std::uint64_t checkpoint = 0;  // sequence of the segment with the newest one, 0 if none
  std::unordered_map<LedgerId, std::shared_ptr<LedgerState>> ledgers;
  bool closed = false;  // the last run ended with close()
  // For the log line.
  std::size_t scanned_segments = 0;
  std::uint64_t cut_bytes = 0;
};

// Errors: Corruption (segment and offset), InvalidArgument (the folder belongs to another log or
// was made with another number of logs), Io.
// `read_only`: finds out the same without changing anything.
Result<RecoveredLog> recover_log(LogFolder& folder, const LogStoreOptions& options,
                                 bool read_only = false);

// One segment file as recovery and the offline check see it.
struct SegmentFile {
  std::string name;
  std::uint32_t slot = 0;
  std::shared_ptr<LogFile> file;
  log_format::SegmentHeader header;
  bool one_header_damaged = false;
};
// Corruption if both header copies are invalid.
Result<SegmentFile> read_segment_file(LogFolder& folder, const std::string& name, bool writable);

struct ScannedSegment {
  bool empty = true;  // no segment start: never written to
  SegmentSummary summary;
  SegmentIndex index;
  std::uint64_t checkpoint_parts = 0;  // found
};
// Scans a segment without footer. `known_end` 0: it is the newest, the end is to be found.
Result<ScannedSegment> scan_segment(const SegmentFile& segment, std::uint64_t known_end);
// The ledgers of the checkpoint in the segment.
Result<std::vector<log_format::CheckpointLedger>> read_checkpoint(
    const SegmentFile& segment, const log_format::SegmentStart& start, std::uint64_t data_end);

}  // namespace geminga
