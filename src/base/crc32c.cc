#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#else
#error "Geminga needs a processor with CRC-32C instructions: SSE4.2 (x86-64-v2) or ARMv8 with +crc"
#endif

namespace geminga {

namespace {

inline std::uint32_t add_word(std::uint32_t state, const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
#if defined(__SSE4_2__)
  return static_cast<std::uint32_t>(_mm_crc32_u64(state, word));
#else
  return __crc32cd(state, word);
#endif
}

inline std::uint32_t add_byte(std::uint32_t state, std::byte byte) {
#if defined(__SSE4_2__)
  return _mm_crc32_u8(state, static_cast<unsigned char>(byte));
#else
  return __crc32cb(state, static_cast<unsigned char>(byte));
#endif
}

// A matrix over GF(2): column i is what bit i becomes.
using Matrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t times(const Matrix& matrix, std::uint32_t bits) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; bits != 0; ++i, bits >>= 1) {
    if ((bits & 1) != 0) sum ^= matrix[i];
  }
  return sum;
}

// Appends `Bytes` zero bytes to what a state stands for: a linear map, kept as a table for each
// byte of the state.
template <std::size_t Bytes>
class Shift {
 public:
  constexpr Shift() {
    static_assert((Bytes & (Bytes - 1)) == 0);
    Matrix matrix{};
    // One zero bit: the reflected polynomial where a bit falls out, each other bit one place down.
    matrix[0] = 0x82f63b78u;
    for (std::size_t i = 1; i < 32; ++i) matrix[i] = 1u << (i - 1);
    for (std::size_t bits = 1; bits < Bytes * 8; bits *= 2) {
      Matrix square{};
      for (std::size_t i = 0; i < 32; ++i) square[i] = times(matrix, matrix[i]);
      matrix = square;
    }
    for (std::size_t byte = 0; byte < 4; ++byte) {
      for (std::uint32_t value = 0; value < 256; ++value) {
        table_[byte][value] = times(matrix, value << (8 * byte));
      }
    }
  }

  std::uint32_t operator()(std::uint32_t state) const {
    return table_[0][state & 0xff] ^ table_[1][(state >> 8) & 0xff] ^
           table_[2][(state >> 16) & 0xff] ^ table_[3][state >> 24];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> table_{};
};

// The instruction takes three cycles and one can start each cycle: three parts of the input go side
// by side.
template <std::size_t Part>
std::uint32_t three_parts(std::uint32_t state, std::span<const std::byte>& bytes) {
  static constexpr Shift<Part> kShift;
  while (bytes.size() >= 3 * Part) {
    const std::byte* at = bytes.data();
    std::uint32_t second = 0;
    std::uint32_t third = 0;
    for (std::size_t i = 0; i < Part; i += sizeof(std::uint64_t)) {
      state = add_word(state, at + i);
      second = add_word(second, at + Part + i);
      third = add_word(third, at + 2 * Part + i);
    }
    state = kShift(kShift(state) ^ second) ^ third;
    bytes = bytes.subspan(3 * Part);
  }
  return state;
}

}  // namespace

std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint32_t state = ~crc;
  state = three_parts<4096>(state, bytes);
  state = three_parts<256>(state, bytes);
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    state = add_word(state, bytes.data());
  }
  for (const std::byte byte : bytes) state = add_byte(state, byte);
  return ~state;
}

}  // namespace geminga
