#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace geminga {
namespace {

// The definition, a bit at a time.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xffffffffu;
  for (const std::byte byte : bytes) {
    state ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
    }
  }
  return ~state;
}

std::vector<std::byte> noise(std::size_t size) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32c, EveryLengthAtEveryAlignment) {
  const std::vector<std::byte> bytes = noise(1700);
  for (std::size_t offset = 0; offset < 8; ++offset) {
    for (std::size_t length = 0; length + offset <= bytes.size(); length += length < 800 ? 1 : 37) {
      const auto part = std::span(bytes).subspan(offset, length);
      ASSERT_EQ(crc32c(part), by_definition(part)) << offset << " " << length;
    }
  }
}

TEST(Crc32c, LargeInputsWholeAndInPieces) {
  const std::vector<std::byte> bytes = noise(100'000);
  const std::uint32_t expected = by_definition(bytes);
  EXPECT_EQ(crc32c(bytes), expected);
  for (const std::size_t cut : {1, 767, 768, 12'287, 12'288, 12'289, 99'999}) {
    const auto whole = std::span<const std::byte>(bytes);
    EXPECT_EQ(crc32c_extend(crc32c(whole.first(cut)), whole.subspan(cut)), expected) << cut;
  }
}

}  // namespace
}  // namespace geminga
