#include "ledger/log_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ledger/log_footer.h"
#include "ledger/log_scan.h"

namespace geminga::log_format {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[static_cast<unsigned>(b) >> 4];
    out += kDigits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

RecordHeader sample() {
  RecordHeader header;
  header.kind = Kind::Entry;
  header.batch = 16;
  header.messages = 3;
  header.ledger = 0x0102030405060708;
  header.entry = 9;
  header.messages_through = 30;
  return header;
}

TEST(LogFormat, RecordHasTheBytesOfTheDocument) {
  std::vector<std::byte> out(record_bytes(5));
  ASSERT_EQ(out.size(), 56U);
  encode_record(sample(), bytes_of("hello"), seed_of_salt(0x1122334455667788), 8192, out.data());
  EXPECT_EQ(hex(std::span(out).subspan(8)),
            "05000000"
            "01"
            "00"
            "0000"
            "10000000"
            "03000000"
            "0807060504030201"
            "0900000000000000"
            "1e00000000000000"
            "68656c6c6f000000");
  // Golden: a change of these breaks logs that exist.
  EXPECT_EQ(hex(std::span(out).first(8)), "9460c89c088c7728");
}

TEST(LogFormat, RecordRoundTripAndEveryBitCounts) {
  const std::uint32_t seed = seed_of_salt(42);
  std::vector<std::byte> out(record_bytes(100));
  std::string payload(100, 'p');
  encode_record(sample(), bytes_of(payload), seed, 4096, out.data());
  const auto header = decode_record(out, seed, 4096);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->ledger, sample().ledger);
  EXPECT_EQ(header->entry, 9);
  EXPECT_EQ(header->messages, 3U);
  EXPECT_EQ(header->messages_through, 30);
  EXPECT_EQ(header->length, 100U);
  EXPECT_TRUE(payload_valid(*header, std::span(out).subspan(kRecordHeader, 100), seed, 4096));
  for (std::size_t bit = 0; bit < (kRecordHeader + 100) * 8; ++bit) {
    auto damaged = out;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto read = decode_record(damaged, seed, 4096);
    const bool valid =
        read && read->length == 100 &&
        payload_valid(*read, std::span(damaged).subspan(kRecordHeader, 100), seed, 4096);
    EXPECT_FALSE(valid) << "bit " << bit;
  }
}

TEST(LogFormat, RecordOfAnotherUseOrPlaceIsInvalid) {
  std::vector<std::byte> out(record_bytes(4));
  encode_record(sample(), bytes_of("data"), seed_of_salt(1), 8192, out.data());
  EXPECT_TRUE(decode_record(out, seed_of_salt(1), 8192));
  EXPECT_FALSE(decode_record(out, seed_of_salt(2), 8192));
  EXPECT_FALSE(decode_record(out, seed_of_salt(1), 8200));
  EXPECT_FALSE(decode_record(std::span(out).first(47), seed_of_salt(1), 8192));
}

TEST(LogFormat, SegmentHeader) {
  SegmentHeader header;
  header.sequence = 7;
  header.salt = 0xabcdef;
  header.segment_bytes = 64 << 20;
  header.log_index = 1;
  header.log_count = 4;
  header.written_ms = 1234;
  std::vector<std::byte> copy(kHeaderCopy, std::byte{0xff});
  encode(header, copy);
  const auto read = decode_segment_header(copy);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sequence, 7U);
  EXPECT_EQ(read->salt, 0xabcdefU);
  EXPECT_EQ(read->segment_bytes, 64U << 20);
  EXPECT_EQ(read->log_index, 1U);
  EXPECT_EQ(read->log_count, 4U);
  EXPECT_EQ(read->written_ms, 1234);
  for (std::size_t at = 0; at < 64; ++at) {
    auto damaged = copy;
    damaged[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_segment_header(damaged)) << at;
  }
}

TEST(LogFormat, CheckpointInParts) {
  std::vector<CheckpointLedger> ledgers;
  for (LedgerId id = 3; id < 3000; id += 2)
    ledgers.push_back({id, id % 3 == 0, id % 5 == 0, id * 7 - 22});
  const auto parts = encode_checkpoint(ledgers, 500);
  EXPECT_GT(parts.size(), 5U);
  std::vector<CheckpointLedger> read;
  for (const auto& part : parts) ASSERT_TRUE(decode_checkpoint(part, read));
  ASSERT_EQ(read.size(), ledgers.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].id, ledgers[i].id);
    EXPECT_EQ(read[i].sealed, ledgers[i].sealed);
    EXPECT_EQ(read[i].reserve, ledgers[i].reserve);
    EXPECT_EQ(read[i].last, ledgers[i].last);
  }
  EXPECT_EQ(encode_checkpoint({}, 500).size(), 1U);
  for (std::size_t cut = 0; cut < parts[0].size(); ++cut) {
    read.clear();
    EXPECT_FALSE(decode_checkpoint(std::span(parts[0]).first(cut), read)) << cut;
  }
}

TEST(LogFormat, Metadata) {
  const std::map<std::string, std::string> metadata{{"application", "pulsar"}, {"k", ""}};
  const auto bytes = encode_metadata(metadata);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*decode_metadata(*bytes), metadata);
  for (std::size_t cut = 0; cut < bytes->size(); ++cut) {
    EXPECT_TRUE(decode_metadata(std::span(*bytes).first(cut)).is(ErrorCode::Corruption)) << cut;
  }
  EXPECT_TRUE(encode_metadata({{std::string(70'000, 'k'), "v"}}).is(ErrorCode::InvalidArgument));
}

TEST(LogFormat, FooterRoundTripAndDamage) {
  SegmentHeader header;
  header.sequence = 5;
  header.salt = 99;
  header.segment_bytes = 1 << 20;
  SegmentSummary summary;
  summary.start = {4, 12345, 17, 5, 1};
  summary.last_id = 20;
  summary.extents = {{1, 0, 9, 100, 200, 10, false}, {2, 5, 6, 1, 2, 3, true}};
  summary.created = {{2, 64, false, true}};
  summary.sealed = {{1, 9}};
  summary.deleted = {3};
  SegmentIndex index;
  index.data_end = 32768;
  index.blocks = {16, 32, 40};
  index.points = {{1, 0, 0, 6}, {1, 6, 1, 4}, {2, 5, 2, 2}};
  const auto footer = encode_footer(header, summary, index);
  EXPECT_EQ(footer.size() % 4096, 0U);
  EXPECT_LE(footer.size(), footer_bytes(3, 3, 2, 3));

  const auto trailer_bytes = std::span(footer).last(kTrailer);
  const auto trailer = decode_trailer(trailer_bytes, header);
  ASSERT_TRUE(trailer);
  const std::size_t extents_at = footer.size() - kTrailer - trailer->extents_bytes;
  const std::size_t points_at = extents_at - trailer->points_bytes;
  const auto read =
      decode_extents(*trailer, std::span(footer).subspan(extents_at, trailer->extents_bytes));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->start.previous_end, 12345U);
  EXPECT_EQ(read->last_id, 20);
  ASSERT_EQ(read->extents.size(), 2U);
  EXPECT_EQ(read->extents[0].record_bytes, 200U);
  EXPECT_TRUE(read->extents[1].moved);
  EXPECT_TRUE(read->created[0].reserve);
  EXPECT_EQ(read->sealed[0].last, 9);
  EXPECT_THAT(read->deleted, ::testing::ElementsAre(3));
  const auto points =
      decode_points(*trailer, std::span(footer).subspan(points_at, trailer->points_bytes));
  ASSERT_TRUE(points);
  EXPECT_EQ(points->find(1, 0), 0U);
  EXPECT_EQ(points->find(1, 9), 1U);
  EXPECT_EQ(points->find(2, 6), 2U);
  EXPECT_FALSE(points->find(1, 10));
  EXPECT_FALSE(points->find(2, 4));
  EXPECT_FALSE(points->find(3, 0));
  EXPECT_EQ(points->block_end(2), 32768U);

  for (std::size_t at = 0; at < kTrailer; ++at) {
    std::vector<std::byte> damaged(trailer_bytes.begin(), trailer_bytes.end());
    damaged[at] ^= std::byte{1};
    EXPECT_FALSE(decode_trailer(damaged, header)) << at;
  }
  for (std::size_t at = points_at; at < footer.size() - kTrailer; ++at) {
    auto damaged = footer;
    damaged[at] ^= std::byte{1};
    const bool both =
        decode_extents(*trailer, std::span(damaged).subspan(extents_at, trailer->extents_bytes))
            .is_ok() &&
        decode_points(*trailer, std::span(damaged).subspan(points_at, trailer->points_bytes))
            .is_ok();
    EXPECT_FALSE(both) << at;
  }
  header.salt = 98;
  EXPECT_FALSE(decode_trailer(trailer_bytes, header));
}

TEST(RecordWalk, StepsOverPaddingAndResyncs) {
  const std::uint32_t seed = seed_of_salt(3);
  std::vector<std::byte> block(4096);
  std::size_t at = 0;
  const auto add = [&](EntryId entry, std::size_t size) {
    RecordHeader header = sample();
    header.entry = entry;
    encode_record(header, bytes_of(std::string(size, 'x')), seed, 8192 + at, block.data() + at);
    at += record_bytes(size);
  };
  add(0, 10);
  add(1, 300);
  at = 512;
  add(2, 20);
  at = 1536;
  add(3, 0);
  const std::size_t end = 2048;
  const auto walk_all = [&] {
    std::vector<EntryId> found;
    const std::span<const std::byte> bytes(block.data(), end);
    RecordWalk walk(bytes, 8192, seed, 512);
    for (auto step = walk.next(); step != RecordWalk::Step::End;) {
      if (step == RecordWalk::Step::Bad) {
        found.push_back(-static_cast<EntryId>(walk.offset()));
        step = walk.resync();
        continue;
      }
      found.push_back(walk.header().entry);
      step = walk.next();
    }
    return found;
  };
  // Entry 3 stands behind a gap that is no padding of one batch: nothing is at 1024.
  EXPECT_THAT(walk_all(), ::testing::ElementsAre(0, 1, 2, -(8192 + 1024), 3));
  block[512 + 20] ^= std::byte{1};
  EXPECT_THAT(walk_all(), ::testing::ElementsAre(0, 1, -(8192 + 512), 3));
  block[100] ^= std::byte{1};
  EXPECT_THAT(walk_all(), ::testing::ElementsAre(0, -(8192 + 64), 3));
}

}  // namespace
}  // namespace geminga::log_format
