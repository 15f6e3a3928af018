// Every command with every field: messages are made at random from the text of PulsarApi.proto by
// an encoder of this test's own, parsed, written again and compared byte by byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "PulsarApi.pb.h"
#include "wire/command.h"
#include "wire/frame.h"
#include "wire/protobuf_fields.h"
#include "wire/wire_test_support.h"

namespace geminga {
namespace {

struct Field {
  std::string label;  // required, optional, repeated, oneof
  std::string type;
  std::string name;
  std::uint32_t number = 0;
};

struct Schema {
  std::map<std::string, std::vector<Field>> messages;
  std::map<std::string, std::vector<std::int64_t>> enums;
};

Schema read_schema() {
  std::ifstream file(GEMINGA_PROTO_DIR "/PulsarApi.proto");
  Schema schema;
  std::vector<std::pair<std::string, std::string>> nesting;  // kind, full name
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "message" || first == "enum" || first == "oneof") {
      std::string name;
      words >> name;
      const bool nested = !nesting.empty() && first == "enum";
      nesting.emplace_back(first, nested ? nesting.back().second + "." + name : name);
      if (first == "message") schema.messages[name];
    } else if (first == "}") {
      nesting.pop_back();
    } else if (nesting.empty() || first.empty() || first.starts_with("//")) {
      continue;
    } else if (nesting.back().first == "enum") {
      std::string equals;
      std::int64_t number = 0;
      words >> equals >> number;
      schema.enums[nesting.back().second].push_back(number);
    } else {
      Field field;
      std::string equals;
      if (nesting.back().first == "oneof") {
        field.label = "oneof";
        field.type = first;
      } else {
        field.label = first;
        words >> field.type;
      }
      words >> field.name >> equals >> field.number;
      std::string message;
      for (const auto& [kind, name] : nesting) {
        if (kind == "message") message = name;
      }
      schema.messages[message].push_back(field);
    }
  }
  for (auto& [name, fields] : schema.messages) {
    std::sort(fields.begin(), fields.end(),
              [](const Field& a, const Field& b) { return a.number < b.number; });
  }
  return schema;
}

class Maker {
 public:
  Maker(const Schema& schema, std::uint64_t seed, bool all)
      : schema_(schema), random_(seed), all_(all) {}

  std::string message(const std::string& type, int depth = 0) {
    std::string out;
    bool oneof_done = false;
    for (const Field& field : schema_.messages.at(type)) {
      if (field.label == "oneof") {
        if (oneof_done || random_() % 2 == 0) continue;
        oneof_done = true;
      }
      if (field.label == "optional" && !all_ && random_() % 2 == 0) continue;
      // Recursion (first_chunk_message_id) ends somewhere.
      if (field.label != "required" && depth > 4) continue;
      const auto times = field.label == "repeated" ? (all_ ? 2 : random_() % 3) : 1;
      for (std::uint64_t i = 0; i < times; ++i) append(out, field, depth);
    }
    return out;
  }

 private:
  void append(std::string& out, const Field& field, int depth) {
    if (schema_.messages.contains(field.type)) {
      append_bytes(out, field.number, message(field.type, depth + 1));
    } else if (field.type == "string" || field.type == "bytes") {
      append_bytes(out, field.number, std::string(random_() % 20, 'a'));
    } else if (field.type == "double") {
      append_varint(out, field.number << 3 | 1);
      const double value = static_cast<double>(random_() % 1000) / 8;
      out.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      append_varint(out, varint_tag(field.number));
      append_varint(out, scalar(field.type));
    }
  }

  std::uint64_t scalar(const std::string& type) {
    const std::uint64_t value = random_() >> (random_() % 64);
    if (type == "bool") return value & 1;
    if (type == "uint32") return static_cast<std::uint32_t>(value);
    if (type == "int32") {
      return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(value)});
    }
    if (type == "int64" || type == "uint64") return value;
    const auto& numbers = schema_.enums.at(type);
    return static_cast<std::uint64_t>(numbers[value % numbers.size()]);
  }

  static void append_varint(std::string& out, std::uint64_t value) {
    std::byte bytes[10];
    const auto* end = put_varint(bytes, value);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  }
  static void append_bytes(std::string& out, std::uint32_t number, const std::string& value) {
    append_varint(out, bytes_tag(number));
    append_varint(out, value.size());
    out += value;
  }

  const Schema& schema_;
  std::mt19937_64 random_;
  const bool all_;
};

std::string make_command(Maker& maker, const Field& body) {
  std::string command;
  std::byte bytes[20];
  auto* end = put_varint_field(bytes, 1, body.number);
  command.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  const std::string inside = maker.message(body.type);
  end = put_varint(put_varint(bytes, bytes_tag(body.number)), inside.size());
  command.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  return command + inside;
}

TEST(EveryCommand, RoundTripsWithEveryField) {
  const Schema schema = read_schema();
  std::vector<std::int64_t> types = schema.enums.at("BaseCommand.Type");
  ASSERT_EQ(types.size(), 70U);
  std::size_t tried = 0;
  for (const Field& body : schema.messages.at("BaseCommand")) {
    if (body.number == 1) continue;
    ASSERT_NE(std::find(types.begin(), types.end(), body.number), types.end()) << body.name;
    ++tried;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Maker maker(schema, seed, seed == 0);
      const std::string bytes = make_command(maker, body);
      ASSERT_EQ(peek_command_type(as_span(bytes)), static_cast<int>(body.number));
      const auto parsed = parse_command(as_span(bytes));
      ASSERT_TRUE(parsed) << body.name << " seed " << seed << ": " << parsed.status().to_string();
      const Buffer frame = encode_command(*parsed);
      const NextFrame next = next_frame(frame.span(), 1 << 20);
      ASSERT_EQ(next.state, NextFrame::State::Ready);
      ASSERT_EQ(to_hex(next.frame.command), to_hex(bytes)) << body.name << " seed " << seed;
    }
  }
  EXPECT_EQ(tried, types.size());
}

TEST(EveryCommand, CutShortOrFlippedNeverHarms) {
  const Schema schema = read_schema();
  std::mt19937_64 random(5);
  AckCommand ack;
  for (const Field& body : schema.messages.at("BaseCommand")) {
    if (body.number == 1) continue;
    Maker maker(schema, 3, true);
    const std::string good = make_command(maker, body);
    for (std::size_t size = 0; size < good.size(); size += 1 + random() % 7) {
      (void)parse_command(as_span(std::string_view(good).substr(0, size)));
    }
    for (int round = 0; round < 50; ++round) {
      std::string bytes = good;
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      const auto parsed = parse_command(as_span(bytes));
      if (parsed) (void)encode_command(*parsed);
      (void)decode_send(as_span(bytes));
      (void)decode_flow(as_span(bytes));
      (void)decode_ack(as_span(bytes), ack);
    }
  }
}

// The decoders made by hand see what the generated class sees.
TEST(EveryCommand, HandWrittenDecodersAgreeWithProtobuf) {
  const Schema schema = read_schema();
  AckCommand ack;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Maker maker(schema, seed, false);
    const std::string send_bytes = make_command(maker, {"", "CommandSend", "", 6});
    const auto send = decode_send(as_span(send_bytes));
    const auto send_command = parse_command(as_span(send_bytes));
    ASSERT_TRUE(send && send_command);
    const auto& send_body = send_command->send();
    EXPECT_EQ(send->producer_id, send_body.producer_id());
    EXPECT_EQ(send->sequence_id, static_cast<std::int64_t>(send_body.sequence_id()));
    EXPECT_EQ(send->num_messages, send_body.num_messages());
    EXPECT_EQ(send->highest_sequence_id.has_value(), send_body.has_highest_sequence_id());
    EXPECT_EQ(send->is_chunk, send_body.is_chunk());
    EXPECT_EQ(send->marker, send_body.marker());
    EXPECT_EQ(send->message_id.has_value(), send_body.has_message_id());
    EXPECT_EQ(send->txn.has_value(),
              send_body.has_txnid_least_bits() && send_body.has_txnid_most_bits());

    const std::string ack_bytes = make_command(maker, {"", "CommandAck", "", 10});
    const auto ack_command = parse_command(as_span(ack_bytes));
    ASSERT_TRUE(ack_command && decode_ack(as_span(ack_bytes), ack));
    const auto& body = ack_command->ack();
    EXPECT_EQ(ack.consumer_id, body.consumer_id());
    EXPECT_EQ(ack.cumulative, body.ack_type() == pulsar::proto::CommandAck::Cumulative);
    EXPECT_EQ(ack.request_id.has_value(), body.has_request_id());
    EXPECT_EQ(ack.validation_error.has_value(), body.has_validation_error());
    ASSERT_EQ(ack.ids.size(), static_cast<std::size_t>(body.message_id_size()));
    ASSERT_EQ(ack.properties.size(), static_cast<std::size_t>(body.properties_size()));
    for (int i = 0; i < body.message_id_size(); ++i) {
      const auto& id = ack.ids[static_cast<std::size_t>(i)];
      EXPECT_EQ(id.position.ledger, static_cast<std::int64_t>(body.message_id(i).ledgerid()));
      EXPECT_EQ(id.position.entry, static_cast<std::int64_t>(body.message_id(i).entryid()));
      EXPECT_EQ(id.partition, body.message_id(i).partition());
      EXPECT_EQ(id.batch_index, body.message_id(i).batch_index());
      const auto words = ack.ack_set(id);
      ASSERT_EQ(words.size(), static_cast<std::size_t>(body.message_id(i).ack_set_size()));
      for (int w = 0; w < body.message_id(i).ack_set_size(); ++w) {
        EXPECT_EQ(words[static_cast<std::size_t>(w)],
                  static_cast<std::uint64_t>(body.message_id(i).ack_set(w)));
      }
    }
  }
}

}  // namespace
}  // namespace geminga
