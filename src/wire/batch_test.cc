#include "wire/batch.h"

#include <gtest/gtest.h>

#include <random>

#include "PulsarApi.pb.h"
#include "wire/wire_test_support.h"

namespace geminga {
namespace {

std::string slot(const pulsar::proto::SingleMessageMetadata& metadata, std::string_view payload) {
  const std::string inside = metadata.SerializePartialAsString();
  std::string bytes(4, '\0');
  store_be32(bytes.data(), static_cast<std::uint32_t>(inside.size()));
  return bytes + inside + std::string(payload);
}

std::string two_messages() {
  pulsar::proto::SingleMessageMetadata first;
  first.set_payload_size(5);
  first.set_partition_key("k");
  first.set_sequence_id(8);
  auto* property = first.add_properties();
  property->set_key("a");
  property->set_value("b");
  pulsar::proto::SingleMessageMetadata second;
  second.set_payload_size(0);
  second.set_compacted_out(true);
  second.set_null_value(true);
  second.set_event_time(77);
  second.set_ordering_key("o");
  return slot(first, "hello") + slot(second, "");
}

TEST(BatchReader, WalksTheMessages) {
  const std::string payload = two_messages();
  BatchReader reader(as_span(payload), 2);
  auto message = reader.next();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->partition_key, "k");
  EXPECT_EQ(message->sequence_id, 8);
  EXPECT_EQ(message->properties, 1U);
  EXPECT_EQ(to_hex(message->payload), to_hex("hello"));
  EXPECT_FALSE(message->compacted_out);
  EXPECT_EQ(message->ordering_key.data(), nullptr);
  message = reader.next();
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->compacted_out);
  EXPECT_TRUE(message->null_value);
  EXPECT_EQ(message->event_time, 77U);
  EXPECT_EQ(message->ordering_key, "o");
  EXPECT_EQ(message->slot.data() + message->slot.size(), as_span(payload).data() + payload.size());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.ok());
}

TEST(BatchReader, RefusesWhatDoesNotFit) {
  const std::string payload = two_messages();
  const auto walk = [](std::string_view bytes, int count) {
    BatchReader reader(as_span(bytes), count);
    while (reader.next()) {
    }
    return reader.ok();
  };
  EXPECT_TRUE(walk(payload, 2));
  EXPECT_FALSE(walk(payload, 1));  // bytes left over
  EXPECT_FALSE(walk(payload, 3));  // a message short
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(walk(std::string_view(payload).substr(0, size), 2)) << size;
  }
  pulsar::proto::SingleMessageMetadata negative;
  negative.set_payload_size(-1);
  EXPECT_FALSE(walk(slot(negative, ""), 1));
  EXPECT_FALSE(walk(slot(pulsar::proto::SingleMessageMetadata(), ""), 1));  // no payload size
  std::mt19937 random(9);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = payload;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    (void)walk(bytes, 2);
  }
}

}  // namespace
}  // namespace geminga
