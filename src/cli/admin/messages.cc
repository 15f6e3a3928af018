#include "cli/admin/messages.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "PulsarApi.pb.h"
#include "cli/admin/units.h"
#include "server/json_text.h"
#include "wire/batch.h"

namespace geminga::admin_cli {

namespace {

std::string dump(std::string_view bytes) {
  constexpr std::size_t kRow = 16;
  const std::string line = "+--------+-------------------------------------------------+";
  std::string out =
      "         +-------------------------------------------------+\n"
      "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n" +
      line + "----------------+\n";
  for (std::size_t at = 0; at < bytes.size(); at += kRow) {
    out += fmt::format("|{:08x}|", at);
    std::string text;
    for (std::size_t i = at; i < at + kRow; ++i) {
      if (i >= bytes.size()) {
        out += "   ";
        text += ' ';
        continue;
      }
      const auto byte = static_cast<unsigned char>(bytes[i]);
      out += fmt::format(" {:02x}", byte);
      text += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '.';
    }
    out += " |" + text + "|\n";
  }
  return out + line + "----------------+\n";
}

std::int64_t time_of(const std::string& header) {
  const auto ms = header.empty() ? Result<std::int64_t>(std::int64_t{0}) : parse_date_time(header);
  return ms ? *ms : 0;
}

using Properties = std::map<std::string, std::string>;

std::string show_one(const Answer& answer, const std::string& id, std::int64_t event_ms,
                     const Properties& properties, std::string_view payload, bool by_id) {
  std::string out = id + fmt::format("\nPublish time: {}\nEvent time: {}\n",
                                     time_of(answer.header("x-pulsar-publish-time")), event_ms);
  if (const auto stamp = answer.header("x-pulsar-broker-entry-metadata-timestamp"); !stamp.empty())
    out += fmt::format("Broker entry metadata timestamp: {}\n", time_of(stamp));
  if (const auto index = answer.header("x-pulsar-broker-entry-metadata-index"); !index.empty())
    out += "Broker entry metadata index: " + index + "\n";
  if (by_id) out += "Redelivery count: 0\n";
  if (!properties.empty()) {
    out += "Properties:\n";
    for (const auto& [key, value] : properties) out += key + "    " + value + "\n";
  }
  return out + dump(payload);
}

}  // namespace

Result<std::string> show_messages(const Answer& answer, bool by_id) {
  const std::string id = answer.header("x-pulsar-message-id");
  const std::string in_batch = answer.header("x-pulsar-num-batch-message");
  if (in_batch.empty()) {
    // The message's own properties are not shown, as in pulsar-admin.
    return show_one(answer, "Message ID: " + id, time_of(answer.header("x-pulsar-event-time")), {},
                    answer.body, by_id);
  }
  std::int32_t count = 0;
  std::from_chars(in_batch.data(), in_batch.data() + in_batch.size(), count);
  BatchReader batch(std::as_bytes(std::span(answer.body)), count);
  std::string out;
  int index = 0;
  while (const auto message = batch.next()) {
    pulsar::proto::SingleMessageMetadata metadata;
    if (!metadata.ParseFromArray(message->metadata.data(),
                                 static_cast<int>(message->metadata.size())))
      break;
    Properties properties{{"X-Pulsar-batch-size", answer.header("x-pulsar-batch-size")},
                          {"X-Pulsar-num-batch-message", in_batch}};
    for (const auto& property : metadata.properties())
      properties[property.key()] = property.value();
    if (index > 0) out += kRule;
    out += show_one(
        answer, fmt::format("Batch Message ID: {}:{}", id, index),
        static_cast<std::int64_t>(metadata.event_time()), properties,
        {reinterpret_cast<const char*>(message->payload.data()), message->payload.size()}, by_id);
    ++index;
  }
  if (!batch.ok() || index != count)
    return Status::InvalidArgument("message " + id + " holds no whole batch of " + in_batch);
  return out;
}

}  // namespace geminga::admin_cli
