// What the crash explorer does to a log, and what it may expect of it afterwards.
//
// A Workload runs random creates, appends, seals and removals on a log and notes, for each, before
// which event of the recorded I/O it was asked for and before which it was acknowledged. From
// these, expect_at(n) says what a log that was cut off behind n events must hold, may hold, and
// must not. All on the log's shard.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ledger/log_store.h"
#include "ledger/memory_folder.h"

namespace geminga::crash {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

struct LedgerExpectation {
  bool must_exist = false;
  EntryId min_last = -1;
  EntryId max_last = -1;
  std::uint64_t life = 0;  // which run wrote it: part of the payload
};
struct Expectation {
  std::map<LedgerId, LedgerExpectation> ledgers;  // those that may exist
  LedgerId used_id = -1;                          // no new ledger may have this id or a lower one
};

// The payload of an entry, and how many messages it has, follow from these.
std::string payload(std::uint64_t life, LedgerId ledger, EntryId entry);
std::uint32_t messages(EntryId entry);

class Workload {
 public:
  Workload(Shard& shard, LogStore& store, MemoryFolder& folder, std::uint64_t seed)
      : shard_(shard), store_(store), folder_(folder), random_(seed), life_(seed) {}

  // Some workers side by side, each doing `steps` steps.
  Task<void> run(int workers, int steps);
  Expectation expect_at(std::size_t events) const;

 private:
  struct Entry {
    std::size_t asked = kNever;
    std::size_t acknowledged = kNever;
  };
  struct Known final : AppendSink {
    explicit Known(MemoryFolder& folder) : folder(folder) {}
    void append_done(LedgerId ledger, EntryId id, const Status& status) override;
    MemoryFolder& folder;
    std::size_t create_asked = kNever;
    std::size_t created = kNever;
    std::size_t remove_asked = kNever;
    std::size_t removed = kNever;
    std::vector<Entry> entries;
    std::shared_ptr<Ledger> handle;
  };

  std::size_t now() const { return folder_.trace().size(); }
  Task<Known*> create(bool cursor);
  Task<void> worker(int number, int steps);
  void append(Known& ledger, int count);

  Shard& shard_;
  LogStore& store_;
  MemoryFolder& folder_;
  std::mt19937_64 random_;
  const std::uint64_t life_;
  std::map<LedgerId, std::unique_ptr<Known>> known_;
  LedgerId next_id_ = 0;
};

// Opens the log in `folder`, compares it with what is expected and returns "" or what is wrong. On
// the way every ledger is opened and read. `seen`, if given, becomes the expectation that this
// opening justifies for the next.
Task<std::string> check(Shard& shard, MemoryBudget& budget, std::shared_ptr<MemoryFolder> folder,
                        Expectation expected, Expectation* seen);

LogStoreOptions log_options(std::shared_ptr<MemoryFolder> folder);

}  // namespace geminga::crash
