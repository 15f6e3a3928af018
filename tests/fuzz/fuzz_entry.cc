// One entry: its metadata, its checksum, its key, and the messages of its batch, decompressed if
// need be.
#include <cstdlib>

#include "PulsarApi.pb.h"
#include "base/endian.h"
#include "fuzz/seeds.h"
#include "wire/batch.h"
#include "wire/compression.h"
#include "wire/message_metadata.h"

using namespace geminga;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto entry = fuzz::as_bytes(data, size);
  (void)verify_checksum(entry);
  (void)find_property(entry, "k");
  const auto metadata = parse_entry_metadata(entry);
  if (!metadata) return 0;
  if (metadata->payload_offset + metadata->payload_size != size) std::abort();
  std::string scratch;
  (void)sticky_key_hash(sticky_key(*metadata, scratch));
  auto payload = entry.subspan(metadata->payload_offset);
  const auto unpacked = decompress(static_cast<Codec>(metadata->compression), payload,
                                   metadata->uncompressed_size, 1 << 20);
  if (unpacked && metadata->compression != 0) payload = unpacked->span();
  if (!metadata->is_batch) return 0;
  BatchReader reader(payload, metadata->num_messages);
  std::size_t bytes = 0;
  while (const auto message = reader.next()) bytes += message->slot.size();
  if (bytes > payload.size() ||
      (reader.ok() && metadata->num_messages >= 0 && bytes != payload.size())) {
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned random) {
  static const std::vector<std::string> seeds = [] {
    std::vector<std::string> made = {fuzz::unhex("0e01d9a52c30000000080a0170100018e80768656c6c6f")};
    pulsar::proto::SingleMessageMetadata single;
    single.set_payload_size(3);
    single.set_partition_key("k");
    const std::string head = single.SerializeAsString();
    std::string batch(4, '\0');
    store_be32(batch.data(), static_cast<std::uint32_t>(head.size()));
    batch += head + "abc";
    batch += batch;
    for (int codec = 0; codec <= 4; ++codec) {
      pulsar::proto::MessageMetadata metadata;
      metadata.set_producer_name("p");
      metadata.set_sequence_id(1);
      metadata.set_publish_time(2);
      metadata.set_num_messages_in_batch(2);
      metadata.set_compression(static_cast<pulsar::proto::CompressionType>(codec));
      metadata.set_uncompressed_size(static_cast<std::uint32_t>(batch.size()));
      metadata.set_partition_key("a2V5");
      metadata.set_partition_key_b64_encoded(true);
      const std::string inside = metadata.SerializeAsString();
      std::string entry(4, '\0');
      store_be32(entry.data(), static_cast<std::uint32_t>(inside.size()));
      entry += inside;
      entry += compress(static_cast<Codec>(codec), std::as_bytes(std::span(batch)))->view();
      made.push_back(entry);
    }
    return made;
  }();
  return fuzz::mutate_from(seeds, data, size, max_size, random);
}
