#include "broker/compaction_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/endian.h"
#include "broker/compaction_test_support.h"

namespace geminga {
namespace {

using testing::chunk_entry;
using testing::contents_of;
using ::testing::ElementsAre;
using testing::entry_of;
using testing::keyed_batch;
using testing::keyed_entry;
using Kind = CompactionEntry::Kind;

TEST(CompactionEntry, ReadsASingleMessage) {
  CompactionEntry entry;
  const Buffer full = keyed_entry({"k", "v"});
  entry.read(full.span());
  EXPECT_EQ(entry.kind(), Kind::Single);
  ASSERT_EQ(entry.messages().size(), 1U);
  EXPECT_EQ(entry.messages()[0].key, "k");
  EXPECT_FALSE(entry.messages()[0].empty);
  const Buffer tombstone = keyed_entry({"k", ""});
  entry.read(tombstone.span());
  EXPECT_TRUE(entry.messages()[0].empty);
  const Buffer keyless = keyed_entry({"", "v"});
  entry.read(keyless.span());
  EXPECT_FALSE(entry.messages()[0].has_key());
}

// Nothing compresses to something: the size before decides.
TEST(CompactionEntry, KnowsACompressedTombstone) {
  for (const Codec codec : {Codec::Lz4, Codec::Zlib, Codec::Zstd, Codec::Snappy}) {
    OutgoingMetadata metadata;
    metadata.partition_key = "k";
    metadata.compression = static_cast<int>(codec);
    const Buffer entry = entry_of(metadata, compress(codec, {}).value());
    CompactionEntry content;
    content.read(entry.span());
    ASSERT_EQ(content.messages().size(), 1U);
    EXPECT_TRUE(content.messages()[0].empty) << static_cast<int>(codec);
  }
}

TEST(CompactionEntry, TakesMessagesOutOfABatchAndKeepsTheirPlaces) {
  for (const Codec codec : {Codec::None, Codec::Lz4, Codec::Zlib, Codec::Zstd, Codec::Snappy}) {
    SCOPED_TRACE(static_cast<int>(codec));
    const Buffer batch = keyed_batch({{"a", "1"}, {"b", "2"}, {"", "3"}, {"c", ""}}, codec);
    EXPECT_THAT(contents_of(batch), ElementsAre("a=1", "b=2", "=3", "c="));
    CompactionEntry content;
    content.read(batch.span());
    EXPECT_EQ(content.kind(), Kind::Batch);
    EXPECT_EQ(content.last_batch_index(), 3);
    EXPECT_TRUE(content.messages()[3].empty);
    auto rewritten = content.rewritten({false, true, true, false});
    ASSERT_TRUE(rewritten.is_ok()) << rewritten.status().to_string();
    EXPECT_EQ(verify_checksum(rewritten->span()), ChecksumVerdict::Ok);
    EXPECT_THAT(contents_of(*rewritten), ElementsAre("-", "b=2", "=3", "-"));
    std::vector<std::uint64_t> retained;
    EXPECT_TRUE(retained_of_batch(rewritten->span(), retained));
    EXPECT_THAT(retained, ElementsAre(0b0110));
    EXPECT_FALSE(retained_of_batch(batch.span(), retained));
    CompactionEntry again;
    again.read(rewritten->span());
    EXPECT_EQ(again.count(), 4U) << "as many messages as before, for permits and indexes";
    EXPECT_EQ(again.last_batch_index(), 2);
    EXPECT_EQ(again.metadata().producer_name, "p");
    EXPECT_EQ(again.metadata().compression, static_cast<int>(codec));
  }
}

TEST(CompactionEntry, KeepsTheBrokersMetadataInFront) {
  const Buffer batch = keyed_batch({{"a", "1"}, {"b", "2"}});
  std::string whole("\x0e\x02\0\0\0\x02\x10\x07", 8);
  whole += batch.view();
  CompactionEntry content;
  const Buffer entry = Buffer::copy_of(whole);
  content.read(entry.span());
  ASSERT_EQ(content.kind(), Kind::Batch);
  auto rewritten = content.rewritten({true, false});
  ASSERT_TRUE(rewritten.is_ok());
  EXPECT_EQ(rewritten->view().substr(0, 8), whole.substr(0, 8));
  EXPECT_EQ(parse_entry_metadata(rewritten->span())->index, 7);
  EXPECT_THAT(contents_of(*rewritten), ElementsAre("a=1", "-"));
}

// What cannot be looked into is not taken apart, whatever its outer key says.
TEST(CompactionEntry, LeavesAloneWhatItDoesNotUnderstand) {
  OutgoingMetadata metadata;
  metadata.partition_key = "k";
  metadata.num_messages_in_batch = 2;
  CompactionEntry content;
  const Buffer garbage = entry_of(metadata, Buffer::copy_of("not a batch"));
  content.read(garbage.span());
  EXPECT_EQ(content.kind(), Kind::Opaque);
  EXPECT_EQ(content.count(), 2U);
  EXPECT_EQ(content.last_batch_index(), 1);
  metadata.compression = 9;
  metadata.uncompressed_size = 100;
  const Buffer unknown_codec = entry_of(metadata, Buffer::copy_of("xyz"));
  content.read(unknown_codec.span());
  EXPECT_EQ(content.kind(), Kind::Opaque);
  const Buffer no_entry = Buffer::copy_of("zzz");
  content.read(no_entry.span());
  EXPECT_EQ(content.kind(), Kind::Opaque);
  EXPECT_EQ(content.count(), 1U);
}

TEST(CompactionEntry, KnowsChunks) {
  CompactionEntry content;
  const Buffer chunk = chunk_entry("p-1", 1, 3, "k", "part");
  content.read(chunk.span());
  EXPECT_EQ(content.kind(), Kind::Chunk);
  EXPECT_EQ(content.metadata().uuid, "p-1");
  EXPECT_EQ(content.metadata().chunk_id, 1);
  EXPECT_EQ(content.messages()[0].key, "k");
}

}  // namespace
}  // namespace geminga
