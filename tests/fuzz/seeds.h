// Seeds made in code: libFuzzer gets them through a custom mutator that now and then starts afresh
// from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace geminga::fuzz {

inline std::string unhex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    bytes.push_back(static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return bytes;
}

inline std::size_t mutate_from(const std::vector<std::string>& seeds, std::uint8_t* data,
                               std::size_t size, std::size_t max_size, unsigned random) {
  if (size <= 1 || random % 64 == 0) {
    const std::string& seed = seeds[random / 64 % seeds.size()];
    if (seed.size() <= max_size) {
      std::memcpy(data, seed.data(), seed.size());
      size = seed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

}  // namespace geminga::fuzz
