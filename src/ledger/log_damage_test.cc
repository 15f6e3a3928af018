// What a log does about damaged bytes, failing disks and full disks.
#include <gmock/gmock.h>

#include "ledger/log_check.h"
#include "ledger/log_format.h"
#include "ledger/log_scan.h"
#include "ledger/log_test_support.h"
#include "ledger/memory_folder.h"

namespace geminga {
namespace {

using log_test::append_all;
using log_test::verify;
using ::testing::HasSubstr;

constexpr std::size_t kSize = 1000;
const std::map<std::string, std::string> kData{{"component", "managed-ledger"}};
const std::map<std::string, std::string> kCursor{{"component", "managed-ledger"},
                                                 {"pulsar/cursor", "c"}};

class LogDamageTest : public log_test::LogTest {
 protected:
  LogDamageTest() : files_(MemoryFolder::make()) {}

  LogStoreOptions options() const {
    auto options = LogTest::options();
    options.files = files_;
    options.io = LogIoKind::Inline;
    return options;
  }
  Task<std::unique_ptr<LogStore>> must_open() {
    auto store = co_await open_log(shard(), budget(), options());
    EXPECT_TRUE(store.is_ok()) << store.status().to_string();
    co_return store ? std::move(*store) : nullptr;
  }
  Status open_fails() {
    return run([&]() -> Task<Status> {
      auto store = co_await open_log(shard(), budget(), options());
      if (store) co_await (*store)->abandon();
      co_return store.status();
    });
  }
  // A log with one ledger of `entries`; left as a crash leaves it, or closed.
  void write_log(int entries, bool close) {
    run([&]() -> Task<void> {
      auto store = co_await must_open();
      auto ledger = co_await store->create({});
      for (int i = 0; i < entries; i += 10) {
        EXPECT_TRUE((co_await append_all(*ledger, std::min(10, entries - i), kSize)).is_ok());
      }
      if (close) {
        EXPECT_TRUE((co_await store->close()).is_ok());
      } else {
        co_await store->abandon();
      }
    });
  }
  // Where the record of an entry stands in the first segment.
  std::uint64_t offset_of(EntryId wanted) {
    MemoryBytes& bytes = *files_->bytes_of("segment-000000.log");
    std::vector<std::byte> all(bytes.size());
    bytes.read(0, all);
    const auto header = log_format::decode_segment_header(all);
    const std::span<const std::byte> records(all);
    RecordWalk walk(records.subspan(log_format::kDataStart), log_format::kDataStart,
                    log_format::seed_of_salt(header->salt), header->alignment);
    while (walk.next() == RecordWalk::Step::Record) {
      if (walk.header().kind == log_format::Kind::Entry && walk.header().entry == wanted)
        return walk.offset();
    }
    ADD_FAILURE() << "no entry " << wanted;
    return 0;
  }
  void damage(std::uint64_t offset, const std::string& name = "segment-000000.log") {
    MemoryBytes& bytes = *files_->bytes_of(name);
    std::byte b{};
    bytes.read(offset, {&b, 1});
    b ^= std::byte{0x40};
    bytes.write(offset, {&b, 1});
  }

  std::shared_ptr<MemoryFolder> files_;
};

TEST_F(LogDamageTest, DamagedPayloadIsNeverDelivered) {
  write_log(100, true);
  const std::uint64_t at = offset_of(40);
  damage(at + log_format::kRecordHeader + 17);
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto ledger = co_await store->open(0);
    auto before = co_await (*ledger)->read(0, 1000, 1 << 20);
    EXPECT_TRUE(before.is_ok());
    EXPECT_LT(before ? before->back().id : 40, 40);
    auto entries = co_await (*ledger)->read(39, 1000, 1 << 20);
    EXPECT_TRUE(entries.is_ok());
    EXPECT_EQ(entries ? entries->size() : 0U, 1U);
    auto bad = co_await (*ledger)->read(40, 1000, 1 << 20);
    EXPECT_TRUE(bad.is(ErrorCode::Corruption));
    EXPECT_THAT(bad.status().message(),
                HasSubstr("segment-000000.log offset " + std::to_string(at)));
    EXPECT_TRUE((co_await (*ledger)->messages_through(40)).is(ErrorCode::Corruption));
    auto after = co_await (*ledger)->read(41, 1, 1 << 20);
    EXPECT_TRUE(after.is_ok());
    EXPECT_GT(store->counters().read_errors, 0U);
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  const auto report = check_log(*files_);
  ASSERT_TRUE(report.is_ok());
  EXPECT_FALSE(report->healthy());
  EXPECT_TRUE(report->opens);
  ASSERT_EQ(report->damage.size(), 1U);
  EXPECT_EQ(report->damage[0].file, "segment-000000.log");
  EXPECT_EQ(report->damage[0].offset, at);
  EXPECT_THAT(report->damage[0].what, HasSubstr("entry 40 of ledger 0"));
}

TEST_F(LogDamageTest, DamagedHeaderHidesOnlyItsSector) {
  write_log(100, true);
  const std::uint64_t at = offset_of(40);
  damage(at + 24);
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto ledger = co_await store->open(0);
    EXPECT_TRUE((co_await (*ledger)->read(40, 1, 1 << 20)).is(ErrorCode::Corruption));
    EXPECT_TRUE((co_await (*ledger)->read(39, 1, 1 << 20)).is_ok());
    EXPECT_TRUE((co_await (*ledger)->read(55, 1, 1 << 20)).is_ok());
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
  const auto report = check_log(*files_);
  ASSERT_EQ(report->damage.size(), 1U);
  EXPECT_EQ(report->damage[0].offset, at);
}

TEST_F(LogDamageTest, DamageInTheMiddleOfTheOpenSegmentIsRefused) {
  write_log(100, false);
  const std::uint64_t at = offset_of(40);
  damage(at + log_format::kRecordHeader + 3);
  const Status status = open_fails();
  EXPECT_TRUE(status.is(ErrorCode::Corruption)) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("segment-000000.log offset " + std::to_string(at)));
  const auto report = check_log(*files_);
  ASSERT_TRUE(report.is_ok());
  EXPECT_FALSE(report->opens);
  ASSERT_EQ(report->damage.size(), 1U);
  EXPECT_EQ(report->damage[0].offset, at);
}

TEST_F(LogDamageTest, TornLastFlushIsCut) {
  write_log(100, false);
  damage(offset_of(95) + log_format::kRecordHeader + 3);  // in the last flush
  const auto report = check_log(*files_);
  EXPECT_TRUE(report->healthy());
  EXPECT_FALSE(report->notes.empty());
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto ledger = co_await store->open(0);
    EXPECT_EQ((*ledger)->last_confirmed(), 94);
    EXPECT_EQ(co_await verify(*ledger, kSize), "");
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogDamageTest, OneCopyOfTheHeaderIsEnough) {
  write_log(100, true);
  damage(20);
  EXPECT_TRUE(open_fails().is_ok());
  damage(20);
  damage(4096 + 20);
  EXPECT_TRUE(open_fails().is_ok());
  damage(20);
  const Status status = open_fails();
  EXPECT_TRUE(status.is(ErrorCode::Corruption));
  EXPECT_THAT(status.message(), HasSubstr("segment-000000.log"));
}

TEST_F(LogDamageTest, DamagedFootersAreRebuilt) {
  write_log(3000, true);
  for (const std::uint64_t behind : {10U, 170U, 300U}) {
    damage((1 << 20) - behind, "segment-000001.log");
    run([&]() -> Task<void> {
      auto store = co_await must_open();
      auto ledger = co_await store->open(0);
      EXPECT_EQ((*ledger)->last_confirmed(), 2999);
      EXPECT_EQ(co_await verify(*ledger, kSize), "");
      EXPECT_TRUE((co_await store->close()).is_ok());
    });
    EXPECT_TRUE(check_log(*files_)->healthy());
  }
}

TEST_F(LogDamageTest, MissingAndShortFilesAreRefused) {
  write_log(3000, true);
  MemoryBytes& bytes = *files_->bytes_of("segment-000001.log");
  bytes.resize(500'000);
  Status status = open_fails();
  EXPECT_TRUE(status.is(ErrorCode::Corruption));
  EXPECT_THAT(status.message(), HasSubstr("segment-000001.log offset 500000"));
  EXPECT_TRUE(files_->remove("segment-000001.log").is_ok());
  status = open_fails();
  EXPECT_TRUE(status.is(ErrorCode::Corruption));
  EXPECT_THAT(status.message(), HasSubstr("segment-000001.log is missing"));
  // After a crash there is no list.
  EXPECT_TRUE(files_->remove("CLEAN").is_ok());
  status = open_fails();
  EXPECT_TRUE(status.is(ErrorCode::Corruption));
  EXPECT_THAT(status.message(), HasSubstr("of ledger 0"));
}

TEST_F(LogDamageTest, WriteErrorStopsTheLogAndRestartRecovers) {
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto ledger = co_await store->create({});
    EXPECT_TRUE((co_await append_all(*ledger, 50, kSize)).is_ok());
    files_->set_fault([](std::string_view call, const std::string&) {
      return call == "write" ? Status::Io("injected") : Status::ok();
    });
    const Status status = co_await append_all(*ledger, 10, kSize);
    EXPECT_TRUE(status.is(ErrorCode::Io)) << status.to_string();
    EXPECT_FALSE(store->writable());
    EXPECT_TRUE((*ledger)->append(Buffer::of_static("x"), 1, nullptr).is(ErrorCode::Closed));
    EXPECT_TRUE((co_await store->create({})).is(ErrorCode::Io));
    EXPECT_EQ(co_await verify(*ledger, kSize), "");  // reads go on
    EXPECT_EQ((*ledger)->last_confirmed(), 49);
    EXPECT_FALSE((co_await store->close()).is_ok());
    files_->set_fault({});
  });
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto ledger = co_await store->open(0);
    EXPECT_EQ((*ledger)->last_confirmed(), 49);
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogDamageTest, MissingSegmentIsRefusedAndPutBack) {
  write_log(100, true);
  EXPECT_TRUE(check_log(*files_)->healthy());
  // All there is: without it the log would look new, and give the same ids out again.
  EXPECT_TRUE(files_->rename("segment-000000.log", "elsewhere").is_ok());
  for (int i = 0; i < 2; ++i) {
    const Status refused = open_fails();
    EXPECT_TRUE(refused.is(ErrorCode::Corruption)) << refused.to_string();
    EXPECT_THAT(refused.message(), HasSubstr("segment-000000.log"));
    const auto report = check_log(*files_);
    EXPECT_FALSE(report->opens);
    EXPECT_THAT(report->refusal, HasSubstr("segment-000000.log"));
  }
  EXPECT_TRUE(files_->rename("elsewhere", "segment-000000.log").is_ok());
  EXPECT_TRUE(check_log(*files_)->healthy());
  write_log(10, false);  // opens it
}

TEST_F(LogDamageTest, MissingNewestSegmentIsNoticedAfterACrash) {
  write_log(3000, false);  // several segments, and no list
  ASSERT_EQ(files_->bytes_of("CLEAN"), nullptr);
  ASSERT_NE(files_->bytes_of("NEWEST"), nullptr);
  std::string newest;
  std::uint64_t sequence = 0;
  const auto names = files_->list();
  for (const std::string& name : *names) {
    if (!segment_slot(name)) continue;
    const auto file = read_segment_file(*files_, name, false);
    const auto scanned = scan_segment(*file, 0);
    if (scanned->empty || file->header.sequence < sequence) continue;
    newest = name;
    sequence = file->header.sequence;
  }
  ASSERT_GT(sequence, 1U);
  EXPECT_TRUE(files_->rename(newest, "elsewhere").is_ok());
  for (int i = 0; i < 2; ++i) {
    const Status refused = open_fails();
    EXPECT_TRUE(refused.is(ErrorCode::Corruption)) << refused.to_string();
    EXPECT_THAT(refused.message(), HasSubstr(newest + " is missing"));
    EXPECT_FALSE(check_log(*files_)->opens);
  }
  EXPECT_TRUE(files_->rename("elsewhere", newest).is_ok());
  write_log(10, false);  // opens it
  // A note that was torn checks nothing, and hinders nothing.
  std::byte changed{'7'};
  files_->bytes_of("NEWEST")->write(12, {&changed, 1});
  files_->bytes_of("NEWEST")->write(4096 + 12, {&changed, 1});
  write_log(10, false);
}

TEST_F(LogDamageTest, TellsIfTheLastRunWasNotClosed) {
  const auto after_crash = [&](bool close) {
    return run([&]() -> Task<bool> {
      auto store = co_await must_open();
      const bool told = store->after_crash();
      (void)co_await store->create({});
      if (close) {
        EXPECT_TRUE((co_await store->close()).is_ok());
      } else {
        co_await store->abandon();
      }
      co_return told;
    });
  };
  EXPECT_FALSE(after_crash(true));  // a new log
  EXPECT_FALSE(after_crash(false));
  EXPECT_TRUE(after_crash(false));
  EXPECT_TRUE(after_crash(true));
  EXPECT_FALSE(after_crash(true));
}

TEST_F(LogDamageTest, SegmentOfAnotherTimeIsRefused) {
  write_log(100, true);
  const auto before = files_->copy();
  write_log(10, true);  // in a segment of its own
  MemoryBytes& now = *files_->bytes_of("segment-000001.log");
  std::vector<std::byte> bytes(now.size());
  before->bytes_of("segment-000000.log")->read(0, bytes);
  now.write(0, bytes);
  EXPECT_TRUE(open_fails().is(ErrorCode::Corruption));
}

TEST_F(LogDamageTest, ListOfSegmentsHoldsUntilTheNextStart) {
  write_log(100, true);
  write_log(100, false);  // as a crash leaves it: there is no list
  EXPECT_EQ(files_->bytes_of("CLEAN"), nullptr);
  write_log(10, true);
  MemoryBytes* list = files_->bytes_of("CLEAN");
  ASSERT_NE(list, nullptr);
  std::byte changed{'7'};
  list->write(30, {&changed, 1});
  const Status refused = open_fails();
  EXPECT_TRUE(refused.is(ErrorCode::Corruption)) << refused.to_string();
  EXPECT_THAT(refused.message(), HasSubstr("CLEAN is damaged"));
}

TEST_F(LogDamageTest, ReadErrorIsTold) {
  write_log(100, true);
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto ledger = co_await store->open(0);
    files_->set_fault([](std::string_view call, const std::string&) {
      return call == "read" ? Status::Io("injected") : Status::ok();
    });
    EXPECT_TRUE((co_await (*ledger)->read(0, 1, 1)).is(ErrorCode::Io));
    files_->set_fault({});
    EXPECT_EQ(co_await verify(*ledger, kSize), "");
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogDamageTest, FullDiskStopsDataAndNothingElse) {
  files_->set_free_bytes(6 << 20);
  auto with = options();
  with.disk_reserve_bytes = 3 << 20;
  run([&]() -> Task<void> {
    auto opened = co_await open_log(shard(), budget(), with);
    LogStore& store = **opened;
    auto data = co_await store.create(kData);
    auto cursor = co_await store.create(kCursor);
    Status status;
    int appended = 0;
    while (status.is_ok() && appended < 20'000) {
      status = co_await append_all(*data, 50, kSize);
      appended += 50;
    }
    EXPECT_TRUE(status.is(ErrorCode::DiskFull)) << status.to_string();
    EXPECT_FALSE(store.writable());
    EXPECT_GT(store.counters().refused_disk_full, 0U);
    EXPECT_TRUE((co_await append_all(*cursor, 50, 100)).is_ok());
    EXPECT_EQ(co_await verify(*data, kSize), "");
    EXPECT_TRUE((co_await (*data)->seal()).is_ok());
    auto next = co_await store.create({});
    EXPECT_TRUE(next.is_ok());
    EXPECT_TRUE((*next)->append(Buffer::of_static("x"), 1, nullptr).is(ErrorCode::DiskFull));
    // Space freed resumes it.
    EXPECT_TRUE((co_await store.remove((*data)->id())).is_ok());
    for (int i = 0; i < 100 && !store.writable(); ++i) co_await sleep_for(Millis(10));
    EXPECT_TRUE(store.writable());
    EXPECT_TRUE((co_await append_all(*next, 50, kSize)).is_ok());
    EXPECT_TRUE((co_await store.close()).is_ok());
  });
}

TEST_F(LogDamageTest, NoSpaceForASegmentWaitsAndGoesOn) {
  files_->set_free_bytes(2 << 20);
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto cursor = co_await store->create(kCursor);
    log_test::Acks acks;
    for (int i = 0; i < 3000; ++i) {
      EXPECT_TRUE(
          (*cursor)->append(Buffer::copy_of(log_test::payload_of(0, i, kSize)), 1, &acks).is_ok());
    }
    co_await sleep_for(Millis(50));
    EXPECT_LT(acks.done.size(), 3000U);
    EXPECT_FALSE(store->writable());
    files_->set_free_bytes(10 << 20);
    for (int i = 0; i < 200 && acks.done.size() < 3000; ++i) co_await sleep_for(Millis(10));
    EXPECT_EQ(acks.done.size(), 3000U);
    EXPECT_TRUE(acks.failures.empty());
    EXPECT_EQ(co_await verify(*cursor, kSize), "");
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogDamageTest, FullDiskIsToldAndSurvivesRestarts) {
  files_->set_free_bytes(12 << 20);
  auto with = options();
  with.disk_reserve_bytes = 2 << 20;
  with.rewrite_bytes_per_second = 1 << 30;
  LedgerId data_id = -1;
  run([&]() -> Task<void> {
    auto opened = co_await open_log(shard(), budget(), with);
    LogStore& store = **opened;
    auto data = co_await store.create(kData);
    data_id = (*data)->id();
    Status status;
    while (status.is_ok()) status = co_await append_all(*data, 50, kSize);
    EXPECT_TRUE(status.is(ErrorCode::DiskFull)) << status.to_string();
    EXPECT_TRUE((co_await store.close()).is_ok());
  });
  // Each start seals a segment and needs another: what the data must not take is enough for that.
  EntryId last = -1;
  for (int start = 0; start < 8; ++start) {
    run([&]() -> Task<void> {
      auto opened = co_await open_log(shard(), budget(), with);
      LogStore& store = **opened;
      EXPECT_FALSE(store.writable());
      auto data = co_await store.open(data_id);
      EXPECT_TRUE(data.is_ok()) << data.status().to_string();
      if (last < 0) last = (*data)->last_confirmed();
      EXPECT_EQ((*data)->last_confirmed(), last);
      auto cursor = co_await store.create(kCursor);
      EXPECT_TRUE(cursor.is_ok()) << cursor.status().to_string();
      EXPECT_TRUE((co_await append_all(*cursor, 10, 100)).is_ok());
      EXPECT_TRUE((co_await store.remove((*cursor)->id())).is_ok());
      co_await sleep_for(Millis(50));
      EXPECT_TRUE((co_await store.close()).is_ok());
    });
  }
  run([&]() -> Task<void> {
    auto opened = co_await open_log(shard(), budget(), with);
    LogStore& store = **opened;
    EXPECT_EQ(co_await verify(*(co_await store.open(data_id)), kSize), "");
    EXPECT_TRUE((co_await store.remove(data_id)).is_ok());
    for (int i = 0; i < 200 && !store.writable(); ++i) co_await sleep_for(Millis(10));
    EXPECT_TRUE(store.writable());
    EXPECT_TRUE((co_await store.close()).is_ok());
  });
}

TEST_F(LogDamageTest, WithoutRoomForAnySegmentALedgerIsRefused) {
  files_->set_free_bytes(1 << 19);
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    for (int i = 0; i < 2; ++i) {
      auto refused = co_await store->create(kCursor);
      EXPECT_TRUE(refused.is(ErrorCode::DiskFull)) << refused.status().to_string();
      EXPECT_THAT(refused.status().message(), HasSubstr("no space left"));
    }
    files_->set_free_bytes(10 << 20);
    for (int i = 0; i < 200 && !store->writable(); ++i) co_await sleep_for(Millis(10));
    EXPECT_TRUE((co_await store->create(kCursor)).is_ok());
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

TEST_F(LogDamageTest, SmallLongLivedLedgersDoNotPinSegments) {
  auto with = options();
  with.rewrite_bytes_per_second = 1 << 30;
  run([&]() -> Task<void> {
    auto opened = co_await open_log(shard(), budget(), with);
    LogStore& store = **opened;
    auto cursor = co_await store.create(kCursor);
    for (int round = 0; round < 15; ++round) {
      EXPECT_TRUE((co_await append_all(*cursor, 5, 200)).is_ok());
      auto data = co_await store.create({});
      EXPECT_TRUE((co_await append_all(*data, 1000, kSize)).is_ok());
      EXPECT_TRUE((co_await store.remove((*data)->id())).is_ok());
    }
    for (int i = 0; i < 200 && store.stats().disk_bytes > 8 << 20; ++i)
      co_await sleep_for(Millis(10));
    EXPECT_GT(store.counters().rewritten_segments, 5U);
    EXPECT_LE(store.stats().disk_bytes, 9 << 20);
    EXPECT_EQ(co_await verify(*cursor, 200), "");
    EXPECT_TRUE((co_await store.close()).is_ok());
  });
  EXPECT_TRUE(check_log(*files_)->healthy());
  run([&]() -> Task<void> {
    auto store = co_await must_open();
    auto cursor = co_await store->open(0);
    EXPECT_EQ((*cursor)->last_confirmed(), 74);
    EXPECT_EQ(co_await verify(*cursor, 200), "");
    EXPECT_TRUE((co_await store->close()).is_ok());
  });
}

}  // namespace
}  // namespace geminga
