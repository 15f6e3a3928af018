#include "broker/batch_parts.h"

#include "broker/subscription_test_support.h"
#include "wire/batch.h"
#include "wire/compression.h"

namespace geminga {
namespace {

using namespace geminga::testing;

EntrySpec spec_of(const std::vector<std::string>& keys, const std::vector<std::string>& texts) {
  EntrySpec spec;
  spec.sequence_id = 7;
  spec.batch = static_cast<std::int32_t>(keys.size());
  spec.payload = batch_of(keys, texts);
  return spec;
}

std::vector<std::string> texts_of(const Buffer& entry) {
  const auto metadata = parse_entry_metadata(entry.span());
  EXPECT_TRUE(metadata.is_ok());
  const auto payload = batch_payload(entry, *metadata);
  EXPECT_TRUE(payload.is_ok()) << payload.status().to_string();
  std::vector<std::string> texts;
  BatchReader reader(payload->span(), metadata->num_messages);
  while (const auto message = reader.next()) {
    texts.emplace_back(reinterpret_cast<const char*>(message->payload.data()),
                       message->payload.size());
  }
  EXPECT_TRUE(reader.ok());
  return texts;
}

TEST(BatchParts, HashesAreThoseOfTheKeys) {
  const Buffer entry = make_test_entry(spec_of({"a", "b", "", "a"}, {"1", "2", "3", "4"}));
  const auto metadata = parse_entry_metadata(entry.span());
  ASSERT_TRUE(metadata.is_ok());
  EXPECT_TRUE(is_open_batch(*metadata));
  std::vector<std::uint32_t> hashes;
  ASSERT_TRUE(hashes_of_batch(*batch_payload(entry, *metadata), *metadata, hashes).is_ok());
  EXPECT_EQ(hashes, (std::vector<std::uint32_t>{sticky_key_hash("a"), sticky_key_hash("b"),
                                                sticky_key_hash("p-7"), sticky_key_hash("a")}));
}

TEST(BatchParts, PickedMessagesAreABatchOfTheirOwn) {
  const Buffer entry = make_test_entry(spec_of({"a", "b", "c", "a"}, {"1", "2", "3", "4"}));
  const auto metadata = parse_entry_metadata(entry.span());
  const AckSet picked{0b1001};
  const auto part = pick_messages(entry, *metadata, *batch_payload(entry, *metadata), picked);
  ASSERT_TRUE(part.is_ok()) << part.status().to_string();
  EXPECT_EQ(texts_of(*part), (std::vector<std::string>{"1", "4"}));
  EXPECT_EQ(verify_checksum(part->span()), ChecksumVerdict::Ok);
  const auto of_part = parse_entry_metadata(part->span());
  EXPECT_EQ(of_part->producer_name, "p");
  EXPECT_EQ(of_part->sequence_id, 7);
  EXPECT_EQ(of_part->num_messages, 2);
}

TEST(BatchParts, CompressedBatchesAreReadAndLargePartsCompressedAgain) {
  for (const std::size_t size : {std::size_t{10}, std::size_t{900'000}}) {
    EntrySpec spec =
        spec_of({"a", "b", "c"}, {std::string(size, 'x'), "2", std::string(size, 'y')});
    const std::string plain = spec.payload;
    const auto packed = compress(Codec::Lz4, std::as_bytes(std::span(plain)));
    ASSERT_TRUE(packed.is_ok());
    spec.payload = std::string(packed->view());
    spec.extra = varint_field(8, 1) + varint_field(9, plain.size());
    const Buffer entry = make_test_entry(spec);
    const auto metadata = parse_entry_metadata(entry.span());
    const AckSet picked{0b101};
    const auto part = pick_messages(entry, *metadata, *batch_payload(entry, *metadata), picked);
    ASSERT_TRUE(part.is_ok()) << part.status().to_string();
    EXPECT_EQ(texts_of(*part), (std::vector{std::string(size, 'x'), std::string(size, 'y')}));
    EXPECT_EQ(parse_entry_metadata(part->span())->compression, size > 1000 ? 1 : 0);
  }
}

TEST(BatchParts, WhatIsNoBatchIsRefused) {
  EntrySpec spec = spec_of({"a", "b"}, {"1", "2"});
  spec.batch = 3;
  const Buffer entry = make_test_entry(spec);
  const auto metadata = parse_entry_metadata(entry.span());
  std::vector<std::uint32_t> hashes;
  const Buffer payload = *batch_payload(entry, *metadata);
  EXPECT_EQ(hashes_of_batch(payload, *metadata, hashes).code(), ErrorCode::Corruption);
  const AckSet picked{1};
  EXPECT_EQ(pick_messages(entry, *metadata, payload, picked).code(), ErrorCode::Corruption);
}

}  // namespace
}  // namespace geminga
