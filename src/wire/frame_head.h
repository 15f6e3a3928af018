// The start of a frame whose command's body is encoded by hand: lengths, BaseCommand.type and the
// head of the body's field. Shared by the codecs of this layer; works for types below 16 (all that
// pass once a message). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/endian.h"
#include "base/position.h"
#include "wire/protobuf_fields.h"

namespace geminga {

// Of the whole frame without its rest, given the size of the body.
inline std::size_t hot_frame_size(std::size_t body) { return 8 + 2 + bytes_field_size(body); }

// The `body` bytes follow, then `rest` bytes.
inline std::byte* put_frame_head(std::byte* to, int type, std::size_t body, std::size_t rest) {
  const std::size_t command = 2 + bytes_field_size(body);
  store_be32(to, static_cast<std::uint32_t>(4 + command + rest));
  store_be32(to + 4, static_cast<std::uint32_t>(command));
  to = put_varint_field(to + 8, 1, static_cast<std::uint64_t>(type));
  return put_bytes_head(to, static_cast<std::uint32_t>(type), body);
}

// The two required fields of MessageIdData.
inline std::size_t position_size(const Position& position) {
  return varint_field_size(static_cast<std::uint64_t>(position.ledger)) +
         varint_field_size(static_cast<std::uint64_t>(position.entry));
}
inline std::byte* put_position(std::byte* to, const Position& position) {
  to = put_varint_field(to, 1, static_cast<std::uint64_t>(position.ledger));
  return put_varint_field(to, 2, static_cast<std::uint64_t>(position.entry));
}

// The body of a command whose type must be `type` (for all commands the number of the type is the
// number of the body's field). As protobuf would merge repeated bodies, which no client sends, the
// last one counts.
inline std::optional<std::string_view> body_of(std::span<const std::byte> command,
                                               std::uint32_t type) {
  FieldReader fields(command);
  std::optional<std::string_view> body;
  bool right_type = false;
  while (fields.next()) {
    if (fields.tag() == varint_tag(1)) {
      right_type = fields.value() == type;
    } else if (fields.tag() == bytes_tag(type)) {
      body = fields.bytes();
    }
  }
  if (!fields.ok() || !right_type) return std::nullopt;
  return body;
}

}  // namespace geminga
