// Base-128 numbers, lowest bits first, as protobuf writes them; signed ones zigzag. For the formats
// of this layer. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace geminga {

inline void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to.push_back(static_cast<char>(value | 128));
  to.push_back(static_cast<char>(value));
}
inline void put_signed_varint(std::string& to, std::int64_t value) {
  put_varint(to, static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

// False: the bytes end, or it is longer than 64 bits. Takes what it reads off `from`.
inline bool get_varint(std::string_view& from, std::uint64_t& value) {
  value = 0;
  for (std::size_t i = 0; i < from.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(from[i]);
    if (i == 9 && byte > 1) return false;
    value |= static_cast<std::uint64_t>(byte & 127) << (7 * i);
    if (byte < 128) {
      from.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}
inline bool get_signed_varint(std::string_view& from, std::int64_t& value) {
  std::uint64_t zigzag = 0;
  if (!get_varint(from, zigzag)) return false;
  value = static_cast<std::int64_t>(zigzag >> 1 ^ (~(zigzag & 1) + 1));
  return true;
}

}  // namespace geminga
