#include "wire/message_metadata.h"

#include <gtest/gtest.h>

#include <random>

#include "PulsarApi.pb.h"
#include "wire/base64.h"
#include "wire/wire_test_support.h"

namespace geminga {
namespace {

// Written by Pulsar 4.0.8: producer p, sequence 0, published at 1000, "hello".
const std::string kGolden = from_hex("0e01 d9a52c30 00000008 0a0170 1000 18e807 68656c6c6f");

TEST(EntryMetadata, GoldenEntry) {
  const auto metadata = parse_entry_metadata(as_span(kGolden));
  ASSERT_TRUE(metadata) << metadata.status().to_string();
  EXPECT_EQ(metadata->producer_name, "p");
  EXPECT_EQ(metadata->sequence_id, 0);
  EXPECT_EQ(metadata->publish_time, 1000);
  EXPECT_FALSE(metadata->is_batch);
  EXPECT_EQ(metadata->num_messages, 1);
  EXPECT_FALSE(metadata->has_partition_key());
  EXPECT_FALSE(metadata->has_ordering_key());
  EXPECT_FALSE(metadata->is_marker());
  EXPECT_EQ(kGolden.substr(metadata->payload_offset, metadata->payload_size), "hello");
  EXPECT_EQ(verify_checksum(as_span(kGolden)), ChecksumVerdict::Ok);
}

TEST(EntryMetadata, ChecksumVerdicts) {
  std::string damaged = kGolden;
  damaged.back() ^= 1;
  EXPECT_EQ(verify_checksum(as_span(damaged)), ChecksumVerdict::Mismatch);
  const std::string bare = kGolden.substr(6);
  EXPECT_EQ(verify_checksum(as_span(bare)), ChecksumVerdict::Absent);
  EXPECT_TRUE(parse_entry_metadata(as_span(bare)));
  EXPECT_EQ(verify_checksum(as_span(kGolden.substr(0, 5))), ChecksumVerdict::Mismatch);
}

TEST(EntryMetadata, BrokerMetadataStandsInFrontAndIsNotCovered) {
  pulsar::proto::BrokerEntryMetadata broker;
  broker.set_broker_timestamp(123456);
  broker.set_index(41);
  const std::string inside = broker.SerializeAsString();
  std::string entry = from_hex("0e02 00000000");
  store_be32(entry.data() + 2, static_cast<std::uint32_t>(inside.size()));
  entry += inside + kGolden;
  const auto metadata = parse_entry_metadata(as_span(entry));
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata->broker_timestamp, 123456);
  EXPECT_EQ(metadata->index, 41);
  EXPECT_EQ(metadata->timestamp(), 123456);
  EXPECT_EQ(verify_checksum(as_span(entry)), ChecksumVerdict::Ok);
  const auto parts = split_entry(as_span(entry));
  ASSERT_TRUE(parts);
  EXPECT_EQ(to_hex(as_span(entry).subspan(parts->checksum_offset)), to_hex(kGolden));
}

pulsar::proto::MessageMetadata full_metadata() {
  pulsar::proto::MessageMetadata m;
  m.set_producer_name("producer-1");
  m.set_sequence_id(5);
  m.set_publish_time(1700000000000);
  auto* property = m.add_properties();
  property->set_key("k");
  property->set_value("v");
  property = m.add_properties();
  property->set_key("position");
  property->set_value("3:4");
  m.set_replicated_from("west");
  m.set_partition_key("a2V5");
  m.set_compression(pulsar::proto::ZSTD);
  m.set_uncompressed_size(1000);
  m.set_num_messages_in_batch(3);
  m.set_event_time(9);
  auto* key = m.add_encryption_keys();
  key->set_key("k");
  key->set_value("v");
  m.set_schema_version(std::string("\0\0\0\0\0\0\0\1", 8));
  m.set_partition_key_b64_encoded(true);
  m.set_deliver_at_time(1700000005000);
  m.set_marker_type(20);
  m.set_txnid_least_bits(1);
  m.set_txnid_most_bits(2);
  m.set_highest_sequence_id(7);
  m.set_null_value(true);
  m.set_uuid("producer-1-5");
  m.set_num_chunks_from_msg(4);
  m.set_total_chunk_msg_size(4000);
  m.set_chunk_id(3);
  return m;
}

TEST(EntryMetadata, EveryFieldTheBrokerReads) {
  const std::string entry = make_entry(full_metadata().SerializeAsString(), "payload");
  const auto parsed = parse_entry_metadata(as_span(entry));
  ASSERT_TRUE(parsed);
  const EntryMetadata& m = *parsed;
  EXPECT_EQ(m.producer_name, "producer-1");
  EXPECT_EQ(m.sequence_id, 5);
  EXPECT_EQ(m.highest_sequence_id, 7);
  EXPECT_EQ(m.last_sequence_id(), 7);
  EXPECT_EQ(m.publish_time, 1700000000000);
  EXPECT_EQ(m.timestamp(), 1700000000000);
  EXPECT_TRUE(m.is_batch);
  EXPECT_EQ(m.num_messages, 3);
  EXPECT_EQ(m.partition_key, "a2V5");
  EXPECT_TRUE(m.partition_key_b64_encoded);
  EXPECT_EQ(m.replicated_from, "west");
  EXPECT_EQ(m.schema_version.size(), 8U);
  EXPECT_TRUE(m.has_schema_version);
  EXPECT_EQ(m.deliver_at_time, 1700000005000);
  EXPECT_EQ(m.event_time, 9);
  EXPECT_EQ(m.encryption_keys, 1U);
  EXPECT_EQ(m.properties, 2U);
  EXPECT_TRUE(m.is_marker());
  EXPECT_EQ(m.txn, (TxnId{2, 1}));
  EXPECT_EQ(m.compression, pulsar::proto::ZSTD);
  EXPECT_EQ(m.uncompressed_size, 1000U);
  EXPECT_TRUE(m.null_value);
  EXPECT_EQ(m.uuid, "producer-1-5");
  EXPECT_TRUE(m.is_chunk());
  EXPECT_TRUE(m.is_last_chunk());
  EXPECT_EQ(m.total_chunk_size, 4000);
  EXPECT_EQ(m.payload_size, 7U);
  EXPECT_EQ(find_property(as_span(entry), "position"), "3:4");
  EXPECT_EQ(find_property(as_span(entry), "none"), std::nullopt);
}

TEST(EntryMetadata, ABatchOfOneIsABatch) {
  auto metadata = full_metadata();
  metadata.set_num_messages_in_batch(1);
  const auto batch = parse_entry_metadata(as_span(make_entry(metadata.SerializeAsString(), "")));
  ASSERT_TRUE(batch);
  EXPECT_TRUE(batch->is_batch);
}

TEST(EntryMetadata, RefusesWhatIsMissingOrCut) {
  auto metadata = full_metadata();
  metadata.clear_producer_name();
  EXPECT_FALSE(parse_entry_metadata(as_span(make_entry(metadata.SerializePartialAsString(), "x"))));
  const std::string entry = make_entry(full_metadata().SerializeAsString(), "");
  for (std::size_t size = 0; size < entry.size(); ++size) {
    EXPECT_FALSE(parse_entry_metadata(as_span(std::string_view(entry).substr(0, size)))) << size;
  }
  EXPECT_FALSE(parse_entry_metadata(as_span(from_hex("0e02 ffffffff 00"))));
  EXPECT_FALSE(parse_entry_metadata(as_span(from_hex("ffffffff 00"))));
}

TEST(EntryMetadata, FlippedBitsNeverHarm) {
  const std::string entry = make_entry(full_metadata().SerializeAsString(), "payload");
  std::mt19937 random(3);
  std::string scratch;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = entry;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    const auto metadata = parse_entry_metadata(as_span(bytes));
    (void)verify_checksum(as_span(bytes));
    if (metadata) {
      EXPECT_EQ(metadata->payload_offset + metadata->payload_size, bytes.size());
      (void)sticky_key(*metadata, scratch);
    }
  }
}

TEST(StickyKey, OrderOfPreference) {
  EntryMetadata metadata;
  metadata.producer_name = "standalone-0-5";
  metadata.sequence_id = 42;
  std::string scratch;
  EXPECT_EQ(sticky_key(metadata, scratch), "standalone-0-5-42");
  metadata.partition_key = "k1";
  EXPECT_EQ(sticky_key(metadata, scratch), "k1");
  metadata.partition_key = "a2V5";
  metadata.partition_key_b64_encoded = true;
  EXPECT_EQ(sticky_key(metadata, scratch), "key");
  metadata.partition_key = "not base64!";
  EXPECT_EQ(sticky_key(metadata, scratch), "not base64!");
  metadata.ordering_key = "ordering";
  EXPECT_EQ(sticky_key(metadata, scratch), "ordering");
  metadata.ordering_key = std::string_view("", 0);
  EXPECT_EQ(sticky_key(metadata, scratch), "");
}

TEST(StickyKey, HashVectors) {
  EXPECT_EQ(sticky_key_hash(""), 0U);
  EXPECT_EQ(sticky_key_hash("a"), 1009084850U);
  EXPECT_EQ(sticky_key_hash("hello"), 613153351U);
  EXPECT_EQ(sticky_key_hash("key-0"), 1664612543U);
  EXPECT_EQ(sticky_key_hash("key-1"), 414258592U);
}

TEST(Base64, BothWays) {
  for (const std::string_view text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    std::string back;
    ASSERT_TRUE(decode_base64(encode_base64(text), back));
    EXPECT_EQ(back, text);
  }
  EXPECT_EQ(encode_base64("foob"), "Zm9vYg==");
  std::string out;
  EXPECT_TRUE(decode_base64("Zm9vYg", out));
  EXPECT_EQ(out, "foob");
  EXPECT_FALSE(decode_base64("Zm9vY", out));
  EXPECT_FALSE(decode_base64("Zm9*Yg==", out));
}

}  // namespace
}  // namespace geminga
