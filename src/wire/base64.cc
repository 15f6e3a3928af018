#include "wire/base64.h"

#include <array>
#include <cstdint>

namespace geminga {

namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_values() {
  std::array<std::int8_t, 256> values{};
  for (auto& value : values) value = -1;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<std::uint8_t>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}
constexpr auto kValues = make_values();

}  // namespace

bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  if (text.size() % 4 == 1) return false;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<std::uint8_t>(c)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xff));
    }
  }
  return true;
}

std::string encode_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<std::uint8_t>(c);
    count += 8;
    while (count >= 6) {
      count -= 6;
      out.push_back(kAlphabet[bits >> count & 63]);
    }
  }
  if (count > 0) out.push_back(kAlphabet[bits << (6 - count) & 63]);
  while (out.size() % 4 != 0) out.push_back('=');
  return out;
}

}  // namespace geminga
