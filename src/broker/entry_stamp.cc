#include "broker/entry_stamp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/endian.h"
#include "wire/message_metadata.h"
#include "wire/protobuf_fields.h"

namespace geminga {

namespace {

constexpr std::uint16_t kMagic = 0x0e02;
constexpr std::size_t kFront = 6;  // magic and size
// So many messages without an index are looked through for the last one.
constexpr int kLookBack = 100;

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (text.empty() || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

Task<Result<std::int64_t>> newest_index(ManagedLedger& log) {
  Position at = log.last_confirmed();
  for (int messages = 0; messages < kLookBack && at.entry >= 0 && log.exists(at);) {
    const auto entries = co_await log.read(at, 1, 1);
    if (!entries) co_return entries.status();
    if (entries->empty() || entries->front().position != at) break;
    const auto metadata = parse_entry_metadata(entries->front().data.span());
    if (metadata && metadata->index) co_return *metadata->index;
    // Markers of transactions never have one.
    if (!metadata || !metadata->is_marker()) ++messages;
    at = log.previous(at);
  }
  co_return -1;
}

}  // namespace

Result<EntryStampParts> parse_entry_stamp(std::string_view classes) {
  constexpr std::string_view kPackage = "org.apache.pulsar.common.intercept.";
  EntryStampParts parts;
  while (!classes.empty()) {
    const std::size_t comma = std::min(classes.find(','), classes.size());
    std::string_view name = classes.substr(0, comma);
    classes.remove_prefix(std::min(comma + 1, classes.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    std::string_view known = name;
    if (known.starts_with(kPackage)) known.remove_prefix(kPackage.size());
    if (known == "AppendBrokerTimestampMetadataInterceptor") {
      parts.timestamp = true;
    } else if (known == "AppendIndexMetadataInterceptor") {
      parts.index = true;
    } else {
      return Status::InvalidArgument(fmt::format(
          "brokerEntryMetadataInterceptors: '{0}' is not available; there are "
          "{1}AppendBrokerTimestampMetadataInterceptor and {1}AppendIndexMetadataInterceptor",
          name, kPackage));
    }
  }
  return parts;
}

Buffer without_stamp(const Buffer& entry) {
  if (entry.size() < kFront || load_be16(entry.data()) != kMagic) return entry;
  const std::size_t front = kFront + std::size_t{load_be32(entry.data() + 2)};
  return front <= entry.size() ? entry.slice(front) : entry;
}

Task<Result<std::unique_ptr<EntryStamp>>> EntryStamp::open(ManagedLedger& log,
                                                           EntryStampParts parts) {
  const auto kept = log.properties().find(kIndexProperty);
  std::optional<std::int64_t> stored;
  if (kept != log.properties().end()) stored = number(kept->second);
  std::optional<std::int64_t> index = stored;
  // Who has had an index goes on counting, so that it does not come twice when the setting comes
  // back.
  if (!parts.timestamp && !parts.index && !index) co_return std::unique_ptr<EntryStamp>();
  if (parts.index || index) {
    const auto newest = co_await newest_index(log);
    if (!newest) co_return newest.status();
    index = std::max({index.value_or(-1), *newest, log.total_messages() - 1});
  }
  // With the setting on the entries tell it. Off they bury what they told before: it is stored now.
  if (index && (parts.index ? !stored : index > stored)) {
    auto properties = log.properties();
    properties[kIndexProperty] = std::to_string(*index);
    const Status stored = co_await log.set_properties(std::move(properties));
    if (!stored) co_return stored;
  }
  co_return std::unique_ptr<EntryStamp>(new EntryStamp(parts, index.value_or(-1)));
}

Buffer EntryStamp::stamp(const Buffer& entry, std::uint32_t messages, std::int64_t now) {
  index_ += messages;
  if (!parts_.timestamp && !parts_.index) return entry;
  std::array<std::byte, 24> metadata;  // two tags and two varints
  std::byte* end = metadata.data();
  if (parts_.timestamp) end = put_varint_field(end, 1, static_cast<std::uint64_t>(now));
  if (parts_.index) end = put_varint_field(end, 2, static_cast<std::uint64_t>(index_));
  const auto size = static_cast<std::size_t>(end - metadata.data());
  const Buffer sent = without_stamp(entry);
  Block* block = Block::allocate(kFront + size + sent.size());
  std::byte* to = block->data();
  store_be16(to, kMagic);
  store_be32(to + 2, static_cast<std::uint32_t>(size));
  std::memcpy(to + kFront, metadata.data(), size);
  std::memcpy(to + kFront + size, sent.data(), sent.size());
  return Buffer::adopt(block, 0, kFront + size + sent.size());
}

void EntryStamp::keep(std::map<std::string, std::string>& properties) const {
  if (index_ >= 0) properties[kIndexProperty] = std::to_string(index_);
}

}  // namespace geminga
