// BrokerEntryMetadata: what the broker puts in front of an entry when it is published, by the
// setting brokerEntryMetadataInterceptors: the time of the broker, and the index of the entry's
// last message in its topic.
//
// The index counts messages from 0 and never comes twice in a topic; it passes over messages that
// the log refused and those of a time when the setting was off. It is recovered from the newest
// entries, and from the managed ledger's property "index" (as Pulsar keeps it), which is stored
// with each ledger's end and so outlives what is trimmed. Owned by the topic, on its shard. The
// format is Pulsar's (wire-protocol §2: 0e02, BE32 size, BrokerEntryMetadata).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/task.h"

namespace geminga {

struct EntryStampParts {
  bool timestamp = false;
  bool index = false;
};
// Of the classes that the setting names, separated by commas. InvalidArgument names one that is not
// known.
Result<EntryStampParts> parse_entry_stamp(std::string_view classes);

// The entry as its producer sent it: without what a broker put in front.
Buffer without_stamp(const Buffer& entry);

class EntryStamp {
 public:
  static constexpr char kIndexProperty[] = "index";

  // Null if there is nothing to put in front and never was. Errors: of reading the log.
  static Task<Result<std::unique_ptr<EntryStamp>>> open(ManagedLedger& log, EntryStampParts parts);

  // The entry with its metadata in front, now (ms since 1970). `messages` at least 1.
  Buffer stamp(const Buffer& entry, std::uint32_t messages, std::int64_t now);
  // The index of the last message; -1: none yet.
  std::int64_t index() const { return index_; }
  // To be stored with the end of a ledger.
  void keep(std::map<std::string, std::string>& properties) const;

 private:
  EntryStamp(EntryStampParts parts, std::int64_t index) : parts_(parts), index_(index) {}

  const EntryStampParts parts_;
  std::int64_t index_;
};

}  // namespace geminga
