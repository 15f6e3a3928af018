// A segment file as a broken disk could give it back: whatever the bytes, recovery, the cold-read
// walk and the offline check end with a value or an error. The input is laid over a valid segment:
// each 12 bytes of it are an offset (4), a length (1), and a pattern (7) that is written there; so
// the fuzzer reaches what lies behind checksums.
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/endian.h"
#include "base/log.h"
#include "ledger/log_check.h"
#include "ledger/log_footer.h"
#include "ledger/log_format.h"
#include "ledger/log_recovery.h"
#include "ledger/log_scan.h"
#include "ledger/memory_folder.h"

namespace geminga {
namespace {

using namespace log_format;

constexpr std::uint64_t kBytes = kMinSegment;

SegmentHeader header() {
  SegmentHeader header;
  header.sequence = 1;
  header.salt = 0x5eed;
  header.segment_bytes = kBytes;
  return header;
}

// A header and some records: a start with a checkpoint, ledgers, entries, in two batches.
MemoryBytes valid_segment() {
  MemoryBytes file;
  file.resize(kBytes);
  std::vector<std::byte> copy(kHeaderCopy);
  encode(header(), copy);
  file.write(0, copy);
  file.write(kHeaderCopy, copy);
  std::vector<std::byte> data(16 << 10);
  std::size_t at = 0;
  std::uint32_t batch = static_cast<std::uint32_t>(kDataStart / kSector);
  const auto add = [&](RecordHeader record, std::span<const std::byte> payload) {
    record.batch = batch;
    encode_record(record, payload, seed_of_salt(header().salt), kDataStart + at, data.data() + at);
    at += record_bytes(payload.size());
  };
  SegmentStart start;
  start.checkpoint = 1;
  start.checkpoint_parts = 1;
  std::byte start_bytes[kSegmentStart];
  encode(start, start_bytes);
  RecordHeader record;
  record.kind = Kind::Start;
  add(record, start_bytes);
  record.kind = Kind::Checkpoint;
  record.entry = 0;
  add(record, encode_checkpoint({}, 100)[0]);
  record.kind = Kind::Created;
  record.ledger = 0;
  add(record, *encode_metadata({{"component", "managed-ledger"}}));
  record.kind = Kind::Entry;
  record.messages = 1;
  for (EntryId entry = 0; entry < 20; ++entry) {
    if (entry == 10) {
      at = static_cast<std::size_t>(align_up(at, kSector));
      batch = static_cast<std::uint32_t>((kDataStart + at) / kSector);
    }
    record.entry = entry;
    record.messages_through = entry + 1;
    add(record, std::span(start_bytes));
  }
  file.write(kDataStart, data);
  return file;
}

}  // namespace
}  // namespace geminga

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace geminga;
  static const bool quiet = [] {
    set_log_level(LogLevel::Off);
    return true;
  }();
  (void)quiet;
  static const MemoryBytes valid = valid_segment();
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);

  // The decoders alone.
  std::vector<CheckpointLedger> ledgers;
  (void)decode_checkpoint(input, ledgers);
  (void)decode_metadata(input);
  if (const auto trailer = decode_trailer(input, header())) {
    (void)decode_extents(*trailer, input);
    (void)decode_points(*trailer, input);
  }
  RecordWalk walk(input, kDataStart, seed_of_salt(header().salt), 512);
  for (auto step = walk.next(); step != RecordWalk::Step::End;) {
    if (step == RecordWalk::Step::Bad) {
      step = walk.resync();
      continue;
    }
    (void)walk.payload_valid();
    step = walk.next();
  }

  // A whole file.
  auto folder = MemoryFolder::make();
  if (!folder->create("segment-000000.log", kBytes)) return 0;
  MemoryBytes& file = *folder->bytes_of("segment-000000.log");
  file = valid;
  for (std::size_t at = 0; at + 12 <= size; at += 12) {
    const std::uint64_t offset = load_le32(data + at) % kBytes;
    const std::size_t length = std::min<std::size_t>(data[at + 4], 7);
    if (offset + length <= kBytes) file.write(offset, input.subspan(at + 5, length));
  }
  (void)check_log(*folder);
  (void)recover_log(*folder, LogStoreOptions{});
  return 0;
}
