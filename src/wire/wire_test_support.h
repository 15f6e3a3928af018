// What the tests of this layer share: bytes from hex, entries made to order. Test code only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"

namespace geminga {

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<char>(high << 4 | digit));
      high = -1;
    }
  }
  return bytes;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : bytes) {
    hex.push_back(kDigits[static_cast<unsigned>(b) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned>(b) & 15]);
  }
  return hex;
}
inline std::string to_hex(std::string_view bytes) {
  return to_hex(std::as_bytes(std::span(bytes)));
}

inline std::span<const std::byte> as_span(std::string_view bytes) {
  return std::as_bytes(std::span(bytes));
}

// The frame that encode() writes for `value`.
template <typename T>
std::string encoded(const T& value) {
  std::vector<std::byte> memory(encoded_size(value));
  const std::byte* end = encode(value, memory.data());
  if (end != memory.data() + memory.size()) return "encoded_size() and encode() disagree";
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

// [0e01 crc][size][metadata]payload.
inline std::string make_entry(std::string_view metadata, std::string_view payload) {
  std::string checked(4, '\0');
  store_be32(checked.data(), static_cast<std::uint32_t>(metadata.size()));
  checked.append(metadata).append(payload);
  std::string entry(6, '\0');
  store_be16(entry.data(), 0x0e01);
  store_be32(entry.data() + 2, crc32c(as_span(checked)));
  return entry + checked;
}

}  // namespace geminga
