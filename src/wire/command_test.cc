#include "wire/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "PulsarApi.pb.h"
#include "wire/frame.h"
#include "wire/wire_test_support.h"

namespace geminga {
namespace {

using pulsar::proto::BaseCommand;
using testing::ElementsAre;

std::string frame_of(const BaseCommand& command) {
  return std::string(encode_command(command).view());
}
std::string command_bytes(const BaseCommand& command) { return command.SerializeAsString(); }

// The golden bytes were written by Pulsar 4.0.8's own library.

TEST(GoldenBytes, Pong) {
  BaseCommand command;
  command.set_type(BaseCommand::PONG);
  command.mutable_pong();
  EXPECT_EQ(to_hex(frame_of(command)), "000000090000000508139a0100");
}

TEST(GoldenBytes, Connect) {
  const std::string frame = from_hex(
      "0000002d 00000029 0802 1225 0a0d50756c73617220436c69656e74 1a00 2015 2a046e6f6e65 520a 0801 "
      "1001 "
      "1801 2801 3001");
  const NextFrame next = next_frame(as_span(frame), 1024);
  ASSERT_EQ(next.state, NextFrame::State::Ready);
  const auto command = parse_command(next.frame.command);
  ASSERT_TRUE(command) << command.status().to_string();
  ASSERT_EQ(command->type(), BaseCommand::CONNECT);
  EXPECT_EQ(command->connect().client_version(), "Pulsar Client");
  EXPECT_EQ(command->connect().protocol_version(), 21);
  EXPECT_EQ(command->connect().auth_method_name(), "none");
  EXPECT_TRUE(command->connect().feature_flags().supports_partial_producer());
  EXPECT_FALSE(command->connect().feature_flags().supports_topic_watchers());
  EXPECT_EQ(to_hex(frame_of(*command)), to_hex(frame));
}

TEST(GoldenBytes, Connected) {
  BaseCommand command;
  command.set_type(BaseCommand::CONNECTED);
  auto& connected = *command.mutable_connected();
  connected.set_server_version("Pulsar Server4.0.8");
  connected.set_protocol_version(21);
  connected.set_max_message_size(5242880);
  auto& flags = *connected.mutable_feature_flags();
  flags.set_supports_topic_watchers(true);
  flags.set_supports_get_partitioned_metadata_without_auto_creation(true);
  flags.set_supports_repl_dedup_by_lid_and_eid(true);
  EXPECT_EQ(to_hex(frame_of(command)),
            "0000002b00000027"
            "08031a23"
            "0a12"
            "50756c736172205365727665"
            "72342e302e38"
            "1015"
            "188080c002"
            "2206200128013001");
}

TEST(GoldenBytes, SendReceipt) {
  EXPECT_EQ(to_hex(encoded(SendReceipt{1, 7, {5, 3}, -1})),
            "0000001d0000001908073a15080110071a040805100320ffffffffffffffffff01");
}

TEST(GoldenBytes, SendReceiptOfADuplicate) {
  const std::string frame = encoded(SendReceipt{1, 7, {-1, -1}, -1});
  EXPECT_THAT(to_hex(frame), testing::HasSubstr("1a1608ffffffffffffffffff0110ffffffffffffffffff0120"
                                                "ffffffffffffffffff01"));
}

TEST(GoldenBytes, CloseConsumerByTheBroker) {
  BaseCommand command;
  command.set_type(BaseCommand::CLOSE_CONSUMER);
  command.mutable_close_consumer()->set_consumer_id(3);
  command.mutable_close_consumer()->set_request_id(~std::uint64_t{0});
  EXPECT_EQ(to_hex(frame_of(command)), "0000001600000012081082010d080310ffffffffffffffffff01");
}

TEST(GoldenBytes, MessageHeader) {
  MessageHeader header;
  header.consumer_id = 3;
  header.message_id = {4, 5};
  header.entry_size = 23;
  EXPECT_EQ(to_hex(encoded(header)),
            "000000320000001708094a130803120f0804100518ffffffffffffffffff01");
}

// The hand-written codecs against the generated ones.

TEST(HotCommands, EncodersWriteWhatProtobufWrites) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto any = [&] { return random() >> (random() % 64); };
    {
      const SendReceipt receipt{
          any(),
          static_cast<std::int64_t>(any()),
          {static_cast<std::int64_t>(any()), static_cast<std::int64_t>(any())},
          static_cast<std::int64_t>(any())};
      BaseCommand command;
      command.set_type(BaseCommand::SEND_RECEIPT);
      auto& body = *command.mutable_send_receipt();
      body.set_producer_id(receipt.producer_id);
      body.set_sequence_id(receipt.sequence_id);
      body.mutable_message_id()->set_ledgerid(receipt.message_id.ledger);
      body.mutable_message_id()->set_entryid(receipt.message_id.entry);
      body.set_highest_sequence_id(receipt.highest_sequence_id);
      ASSERT_EQ(to_hex(encoded(receipt)), to_hex(frame_of(command)));
    }
    {
      const std::string text(any() % 300, 'x');
      const SendError error{any(), static_cast<std::int64_t>(any()), static_cast<int>(any() % 26),
                            text};
      BaseCommand command;
      command.set_type(BaseCommand::SEND_ERROR);
      auto& body = *command.mutable_send_error();
      body.set_producer_id(error.producer_id);
      body.set_sequence_id(error.sequence_id);
      body.set_error(static_cast<pulsar::proto::ServerError>(error.error));
      body.set_message(text);
      ASSERT_EQ(to_hex(encoded(error)), to_hex(frame_of(command)));
    }
    {
      std::vector<std::uint64_t> words(any() % 5);
      for (auto& word : words) word = any();
      MessageHeader header;
      header.consumer_id = any();
      header.message_id = {static_cast<std::int64_t>(any()), static_cast<std::int64_t>(any())};
      header.partition = static_cast<std::int32_t>(any() % 5) - 1;
      header.redelivery_count = static_cast<std::uint32_t>(any() % 3);
      header.ack_set = words;
      if (any() % 2 == 0) header.consumer_epoch = static_cast<std::int64_t>(any());
      BaseCommand command;
      command.set_type(BaseCommand::MESSAGE);
      auto& body = *command.mutable_message();
      body.set_consumer_id(header.consumer_id);
      body.mutable_message_id()->set_ledgerid(header.message_id.ledger);
      body.mutable_message_id()->set_entryid(header.message_id.entry);
      body.mutable_message_id()->set_partition(header.partition);
      if (header.redelivery_count > 0) body.set_redelivery_count(header.redelivery_count);
      for (const auto word : words) body.add_ack_set(static_cast<std::int64_t>(word));
      if (header.consumer_epoch) body.set_consumer_epoch(*header.consumer_epoch);
      ASSERT_EQ(to_hex(encoded(header)), to_hex(frame_of(command)));
    }
  }
}

TEST(HotCommands, DecodeSend) {
  BaseCommand command;
  command.set_type(BaseCommand::SEND);
  auto& body = *command.mutable_send();
  body.set_producer_id(9);
  body.set_sequence_id(~std::uint64_t{0});
  auto send = decode_send(as_span(command_bytes(command)));
  ASSERT_TRUE(send);
  EXPECT_EQ(send->producer_id, 9U);
  EXPECT_EQ(send->sequence_id, -1);
  EXPECT_EQ(send->num_messages, 1);
  EXPECT_FALSE(send->highest_sequence_id);
  EXPECT_FALSE(send->txn);
  EXPECT_FALSE(send->message_id);

  body.set_num_messages(10);
  body.set_highest_sequence_id(99);
  body.set_is_chunk(true);
  body.set_marker(true);
  body.set_txnid_least_bits(5);
  body.set_txnid_most_bits(0);
  body.mutable_message_id()->set_ledgerid(3);
  body.mutable_message_id()->set_entryid(4);
  send = decode_send(as_span(command_bytes(command)));
  ASSERT_TRUE(send);
  EXPECT_EQ(send->num_messages, 10);
  EXPECT_EQ(send->highest_sequence_id, 99);
  EXPECT_TRUE(send->is_chunk);
  EXPECT_TRUE(send->marker);
  EXPECT_EQ(send->txn, (TxnId{0, 5}));
  EXPECT_EQ(send->message_id, (Position{3, 4}));
}

TEST(HotCommands, DecodersRefuseMissingFieldsAndOtherTypes) {
  EXPECT_FALSE(decode_send(as_span(from_hex("0806 3204 0801 1801"))));  // no sequence id
  EXPECT_FALSE(decode_send(as_span(from_hex("0807 3204 0801 1001"))));  // type says SEND_RECEIPT
  EXPECT_FALSE(decode_send(as_span(from_hex("0806"))));                 // no body
  EXPECT_TRUE(decode_send(as_span(from_hex("0806 3204 0801 1001"))));
  EXPECT_FALSE(decode_flow(as_span(from_hex("080b 5a02 0801"))));
  EXPECT_TRUE(decode_flow(as_span(from_hex("080b 5a04 0801 1005"))));
  AckCommand ack;
  EXPECT_FALSE(decode_ack(as_span(from_hex("080a 5202 0801")), ack));
  EXPECT_TRUE(decode_ack(as_span(from_hex("080a 5204 0801 1000")), ack));
  EXPECT_FALSE(decode_ack(as_span(from_hex("080a 5204 0801 1002")), ack));  // no such ack type
  EXPECT_FALSE(
      decode_ack(as_span(from_hex("080a 5208 0801 1000 1a02 0801")), ack));  // id without entry
}

TEST(HotCommands, DecodeAckOfManyIds) {
  BaseCommand command;
  command.set_type(BaseCommand::ACK);
  auto& body = *command.mutable_ack();
  body.set_consumer_id(2);
  body.set_ack_type(pulsar::proto::CommandAck::Individual);
  auto* first = body.add_message_id();
  first->set_ledgerid(1);
  first->set_entryid(2);
  auto* second = body.add_message_id();
  second->set_ledgerid(1);
  second->set_entryid(3);
  second->set_batch_size(70);
  second->set_batch_index(4);
  second->set_partition(6);
  second->add_ack_set(-1);
  second->add_ack_set(0x3f);
  auto* third = body.add_message_id();
  third->set_ledgerid(1);
  third->set_entryid(~std::uint64_t{0});
  body.set_validation_error(pulsar::proto::CommandAck::ChecksumMismatch);
  body.set_request_id(77);
  body.set_txnid_least_bits(8);
  body.set_txnid_most_bits(9);
  auto* property = body.add_properties();
  property->set_key("CompactedTopicLedger");
  property->set_value(12);

  AckCommand ack;
  const std::string bytes = command_bytes(command);
  for (int again = 0; again < 2; ++again) {  // the object is filled afresh each time
    ASSERT_TRUE(decode_ack(as_span(bytes), ack));
    EXPECT_EQ(ack.consumer_id, 2U);
    EXPECT_FALSE(ack.cumulative);
    ASSERT_EQ(ack.ids.size(), 3U);
    EXPECT_EQ(ack.ids[0].position, (Position{1, 2}));
    EXPECT_TRUE(ack.ack_set(ack.ids[0]).empty());
    EXPECT_EQ(ack.ids[1].batch_size, 70);
    EXPECT_EQ(ack.ids[1].batch_index, 4);
    EXPECT_EQ(ack.ids[1].partition, 6);
    EXPECT_THAT(ack.ack_set(ack.ids[1]), ElementsAre(~std::uint64_t{0}, 0x3f));
    EXPECT_EQ(ack.ids[2].position, (Position{1, -1}));
    EXPECT_EQ(ack.validation_error, 2);
    EXPECT_EQ(ack.request_id, 77U);
    EXPECT_EQ(ack.txn, (TxnId{9, 8}));
    EXPECT_THAT(ack.properties,
                ElementsAre(std::pair<std::string_view, std::int64_t>("CompactedTopicLedger", 12)));
  }

  command.Clear();
  command.set_type(BaseCommand::ACK);
  command.mutable_ack()->set_consumer_id(2);
  command.mutable_ack()->set_ack_type(pulsar::proto::CommandAck::Cumulative);
  ASSERT_TRUE(decode_ack(as_span(command_bytes(command)), ack));
  EXPECT_TRUE(ack.cumulative);
  EXPECT_TRUE(ack.ids.empty());
  EXPECT_FALSE(ack.request_id);
  EXPECT_FALSE(ack.validation_error);
  EXPECT_FALSE(ack.txn);
  EXPECT_TRUE(ack.properties.empty());
}

TEST(HotCommands, PackedAckSet) {
  AckCommand ack;
  // message_id { 1:2, ack_set packed [-1, 63] }
  ASSERT_TRUE(decode_ack(
      as_span(from_hex("080a 5217 0802 1000 1a11 0801 1002 2a0b ffffffffffffffffff01 3f")), ack));
  EXPECT_THAT(ack.ack_set(ack.ids[0]), ElementsAre(~std::uint64_t{0}, 63));
  // The last word cut off.
  EXPECT_FALSE(decode_ack(as_span(from_hex("080a 520d 0802 1000 1a07 0801 1002 2a01 ff")), ack));
}

TEST(HotCommands, PeekType) {
  EXPECT_EQ(peek_command_type(as_span(from_hex("0806 3204 0801 1001"))), BaseCommand::SEND);
  EXPECT_EQ(peek_command_type(as_span(from_hex("3204 0801 1001 0806"))), BaseCommand::SEND);
  EXPECT_EQ(peek_command_type(as_span(from_hex("3204 0801 1001"))), 0);
  EXPECT_EQ(peek_command_type(as_span(from_hex("32ff"))), 0);
  EXPECT_EQ(peek_command_type({}), 0);
}

TEST(HotCommands, UnknownFieldsAreSkippedAndGroupsRefused) {
  const std::string with_unknown = from_hex("080b 5a11 0801 1005 f8060a fa06021122 2d01020304");
  const auto flow = decode_flow(as_span(with_unknown));
  ASSERT_TRUE(flow);
  EXPECT_EQ(flow->permits, 5U);
  EXPECT_FALSE(decode_flow(as_span(from_hex("080b 5a06 0801 1005 1b1c"))));
}

TEST(ParseCommand, SaysWhatIsMissing) {
  auto command = parse_command(as_span(from_hex("0804")));
  EXPECT_THAT(command.status().message(), testing::HasSubstr("SUBSCRIBE without its body"));
  command = parse_command(as_span(from_hex("0804 2203 0a0161")));
  EXPECT_THAT(command.status().message(), testing::HasSubstr("SUBSCRIBE lacks required fields"));
  command = parse_command(as_span(from_hex("08ff01")));
  EXPECT_THAT(command.status().message(), testing::HasSubstr("number 255"));
  command = parse_command(as_span(from_hex("0a")));
  EXPECT_FALSE(command);
  EXPECT_TRUE(parse_command(as_span(from_hex("0812"))));  // PING without a body
}

TEST(HotCommands, DamagedBytesNeverHarm) {
  BaseCommand command;
  command.set_type(BaseCommand::ACK);
  auto& body = *command.mutable_ack();
  body.set_consumer_id(2);
  body.set_ack_type(pulsar::proto::CommandAck::Individual);
  for (int i = 0; i < 5; ++i) {
    auto* id = body.add_message_id();
    id->set_ledgerid(i);
    id->set_entryid(i);
    id->add_ack_set(-1);
  }
  const std::string good = command_bytes(command);
  AckCommand ack;
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_ack(as_span(std::string_view(good).substr(0, size)), ack)) << size;
  }
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    decode_ack(as_span(bytes), ack);
    for (const auto& id : ack.ids) EXPECT_LE(ack.ack_set(id).size(), bytes.size());
    (void)decode_send(as_span(bytes));
    (void)decode_flow(as_span(bytes));
    (void)peek_command_type(as_span(bytes));
    (void)parse_command(as_span(bytes));
  }
}

TEST(Command, FindsTheRequestOfACommandOfTheFuture) {
  const auto request_of = [](std::string_view bytes) {
    return request_of_unknown_command(std::as_bytes(std::span(bytes)));
  };
  // type 99, body in field 99 = {1: 77}
  EXPECT_EQ(request_of(std::string_view("\x08\x63\x9a\x06\x02\x08\x4d", 7)), 77U);
  EXPECT_EQ(request_of(std::string_view("\x08\x63", 2)), std::nullopt);  // no body
  EXPECT_EQ(request_of(std::string_view("\x08\x12\x92\x01\x00", 5)),
            std::nullopt);  // PING is known
  EXPECT_EQ(request_of(std::string_view("\x08\x63\x9a\x06\x7f", 5)), std::nullopt);  // cut off
}

}  // namespace
}  // namespace geminga
