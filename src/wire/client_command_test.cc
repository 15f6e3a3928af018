#include "wire/client_command.h"

#include <gtest/gtest.h>

#include "PulsarApi.pb.h"
#include "wire/batch.h"
#include "wire/frame.h"
#include "wire/message_encoding.h"
#include "wire/message_metadata.h"
#include "wire/protobuf_fields.h"
#include "wire/wire_test_support.h"

namespace geminga {
namespace {

using pulsar::proto::BaseCommand;

std::string command_of(const std::string& frame) {
  const NextFrame next = next_frame(as_span(frame), 1 << 20);
  if (next.state != NextFrame::State::Ready) return "not a frame";
  return {reinterpret_cast<const char*>(next.frame.command.data()), next.frame.command.size()};
}

TEST(ClientCommand, SendIsReadByTheBrokersDecoder) {
  SendHeader header{3, 9, 5, 13, 0};
  const auto send = decode_send(as_span(command_of(encoded(header))));
  ASSERT_TRUE(send);
  EXPECT_EQ(send->producer_id, 3U);
  EXPECT_EQ(send->sequence_id, 9);
  EXPECT_EQ(send->num_messages, 5);
  EXPECT_EQ(send->highest_sequence_id, 13);
}

TEST(ClientCommand, FlowAndAck) {
  const auto flow = decode_flow(as_span(command_of(encoded(FlowCommand{4, 1000}))));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->permits, 1000U);

  const std::vector<Position> ids = {{1, 2}, {3, -1}};
  AckCommand ack;
  const std::string bytes = command_of(encoded(AckRequest{7, false, ids}));
  ASSERT_TRUE(decode_ack(as_span(bytes), ack));
  EXPECT_EQ(ack.consumer_id, 7U);
  EXPECT_FALSE(ack.cumulative);
  ASSERT_EQ(ack.ids.size(), 2U);
  EXPECT_EQ(ack.ids[1].position, (Position{3, -1}));
  ASSERT_TRUE(
      decode_ack(as_span(command_of(encoded(AckRequest{7, true, std::span(ids).first(1)}))), ack));
  EXPECT_TRUE(ack.cumulative);
}

TEST(ClientCommand, ReceiptAndError) {
  const auto receipt =
      decode_send_receipt(as_span(command_of(encoded(SendReceipt{1, 7, {5, 3}, 8}))));
  ASSERT_TRUE(receipt);
  EXPECT_EQ(receipt->message_id, (Position{5, 3}));
  EXPECT_EQ(receipt->sequence_id, 7);
  EXPECT_EQ(receipt->highest_sequence_id, 8);
  const std::string bytes = command_of(encoded(SendError{1, 7, 9, "bad"}));
  const auto error = decode_send_error(as_span(bytes));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error, 9);
  EXPECT_EQ(error->message, "bad");
  EXPECT_FALSE(decode_send_receipt(as_span(bytes)));
}

TEST(ClientCommand, MessageWithAckSet) {
  const std::vector<std::uint64_t> words = {1014, 1};
  MessageHeader header;
  header.consumer_id = 2;
  header.message_id = {4, 5};
  header.partition = 3;
  header.redelivery_count = 2;
  header.ack_set = words;
  const std::string bytes = command_of(encoded(header));
  const auto message = decode_message(as_span(bytes));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->message_id, (Position{4, 5}));
  EXPECT_EQ(message->partition, 3);
  EXPECT_EQ(message->redelivery_count, 2U);
  ASSERT_TRUE(message->has_ack_set);
  EXPECT_FALSE(ack_set_bit(*message, 0));
  EXPECT_TRUE(ack_set_bit(*message, 1));
  EXPECT_FALSE(ack_set_bit(*message, 3));
  EXPECT_TRUE(ack_set_bit(*message, 64));
  EXPECT_FALSE(ack_set_bit(*message, 128));
}

TEST(MessageEncoding, GoldenEntry) {
  OutgoingMetadata metadata;
  metadata.producer_name = "p";
  metadata.publish_time = 1000;
  const std::size_t size = encoded_size(metadata);
  std::vector<std::byte> entry(kEntryHeadSize + size + 5);
  put_raw(encode(metadata, entry.data() + kEntryHeadSize), "hello");
  seal_entry(entry, size);
  EXPECT_EQ(to_hex(entry), "0e01d9a52c30000000080a0170100018e80768656c6c6f");
}

TEST(MessageEncoding, MetadataIsWhatProtobufWrites) {
  const Property properties[] = {{"a", "b"}, {"c", ""}};
  OutgoingMetadata m;
  m.producer_name = "producer";
  m.sequence_id = 1;
  m.publish_time = 2;
  m.properties = properties;
  m.replicated_from = "west";
  m.partition_key = "k";
  m.compression = 3;
  m.uncompressed_size = 70000;
  m.num_messages_in_batch = 300;
  m.event_time = 4;
  m.schema_version = "12345678";
  m.partition_key_b64_encoded = true;
  m.ordering_key = "o";
  m.deliver_at_time = 5;
  m.marker_type = 21;
  m.txn = TxnId{7, std::uint64_t{1} << 40};
  m.highest_sequence_id = 6;
  pulsar::proto::MessageMetadata expected;
  expected.set_producer_name("producer");
  expected.set_sequence_id(1);
  expected.set_publish_time(2);
  for (const auto& [key, value] : properties) {
    auto* property = expected.add_properties();
    property->set_key(std::string(key));
    property->set_value(std::string(value));
  }
  expected.set_replicated_from("west");
  expected.set_partition_key("k");
  expected.set_compression(pulsar::proto::ZSTD);
  expected.set_uncompressed_size(70000);
  expected.set_num_messages_in_batch(300);
  expected.set_event_time(4);
  expected.set_schema_version("12345678");
  expected.set_partition_key_b64_encoded(true);
  expected.set_ordering_key("o");
  expected.set_deliver_at_time(5);
  expected.set_marker_type(21);
  expected.set_txnid_most_bits(7);
  expected.set_txnid_least_bits(std::uint64_t{1} << 40);
  expected.set_highest_sequence_id(6);
  EXPECT_EQ(to_hex(encoded(m)), to_hex(expected.SerializeAsString()));
}

TEST(MessageEncoding, ABatchIsReadBack) {
  const Property properties[] = {{"a", "b"}};
  std::string batch;
  for (std::int64_t i = 0; i < 3; ++i) {
    OutgoingSingle single;
    single.properties = properties;
    single.partition_key = "key";
    single.payload_size = 2;
    single.event_time = 9;
    single.partition_key_b64_encoded = true;
    single.ordering_key = "o";
    single.sequence_id = i;
    batch += encoded(single) + "xy";
  }
  BatchReader reader(as_span(batch), 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto message = reader.next();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->partition_key, "key");
    EXPECT_EQ(message->ordering_key, "o");
    EXPECT_EQ(message->sequence_id, i);
    EXPECT_EQ(message->event_time, 9U);
    EXPECT_TRUE(message->partition_key_b64_encoded);
    EXPECT_EQ(message->properties, 1U);
    EXPECT_EQ(message->payload.size(), 2U);
  }
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.ok());
}

}  // namespace
}  // namespace geminga
