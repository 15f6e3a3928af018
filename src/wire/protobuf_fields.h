// The protobuf encoding by hand, for the few messages that pass once a message and must not
// allocate.
//
// `FieldReader` walks the fields of one encoded message: next() reads a tag and its value; the
// caller switches on tag(), and what it does not name is skipped, as protobuf does. Every read is
// checked against the end; a malformed message ends the walk with ok() == false. Groups (never used
// by this protocol) count as malformed. The put_* functions write into memory whose size the caller
// took from the *_size functions. Values; any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/endian.h"

namespace geminga {

constexpr std::uint32_t varint_tag(std::uint32_t field) { return field << 3; }
constexpr std::uint32_t bytes_tag(std::uint32_t field) { return field << 3 | 2; }

class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> message)
      : at_(reinterpret_cast<const std::uint8_t*>(message.data())), end_(at_ + message.size()) {}
  explicit FieldReader(std::string_view message) : FieldReader(std::as_bytes(std::span(message))) {}

  // Reads the next field. False at the end of the message or when it is malformed.
  bool next() {
    if (at_ == end_) return false;
    std::uint64_t tag = 0;
    if (!read_varint(tag) || tag > 0xffffffffU || tag >> 3 == 0) return fail();
    tag_ = static_cast<std::uint32_t>(tag);
    switch (tag & 7) {
      case 0: return read_varint(value_) || fail();
      case 1: return read_fixed(8);
      case 2: {
        std::uint64_t size = 0;
        if (!read_varint(size) || size > static_cast<std::uint64_t>(end_ - at_)) return fail();
        bytes_ = {reinterpret_cast<const char*>(at_), static_cast<std::size_t>(size)};
        at_ += size;
        return true;
      }
      case 5: return read_fixed(4);
      default: return fail();
    }
  }

  bool ok() const { return ok_; }
  // Field number and wire type as in the encoding; compare with varint_tag(), bytes_tag().
  std::uint32_t tag() const { return tag_; }
  // The value of a varint or fixed field.
  std::uint64_t value() const { return value_; }
  std::int64_t signed_value() const { return static_cast<std::int64_t>(value_); }
  std::int32_t int32() const { return static_cast<std::int32_t>(value_); }
  bool boolean() const { return value_ != 0; }
  // The value of a length-delimited field: a view into the message.
  std::string_view bytes() const { return bytes_; }

 private:
  bool fail() {
    ok_ = false;
    at_ = end_;
    return false;
  }
  bool read_fixed(std::ptrdiff_t size) {
    if (end_ - at_ < size) return fail();
    value_ = size == 8 ? load_le64(at_) : load_le32(at_);
    at_ += size;
    return true;
  }
  bool read_varint(std::uint64_t& value) {
    if (at_ == end_) return false;
    if (*at_ < 0x80) {
      value = *at_++;
      return true;
    }
    std::uint64_t result = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) return false;
      const std::uint8_t byte = *at_++;
      // The tenth byte holds the top bit only; what stands above it is dropped, as protobuf does.
      result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        value = result;
        return true;
      }
    }
    return false;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  std::uint32_t tag_ = 0;
  bool ok_ = true;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
};

inline std::size_t varint_size(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}
// A field numbered below 16: one byte of tag.
inline std::size_t varint_field_size(std::uint64_t value) { return 1 + varint_size(value); }
inline std::size_t bytes_field_size(std::size_t size) { return 1 + varint_size(size) + size; }

inline std::byte* put_varint(std::byte* to, std::uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<std::byte>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<std::byte>(value);
  return to;
}
inline std::byte* put_varint_field(std::byte* to, std::uint32_t field, std::uint64_t value) {
  *to++ = static_cast<std::byte>(varint_tag(field));
  return put_varint(to, value);
}
// The start of a length-delimited field; its `size` bytes follow.
inline std::byte* put_bytes_head(std::byte* to, std::uint32_t field, std::size_t size) {
  *to++ = static_cast<std::byte>(bytes_tag(field));
  return put_varint(to, size);
}
inline std::byte* put_raw(std::byte* to, std::string_view bytes) {
  std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace geminga
