// CRC-32C (Castagnoli, reflected, init and xorout 0xffffffff), as Pulsar and BookKeeper use it, by
// the processor's instruction. crc32c_extend(crc32c(a), b) == crc32c(a followed by b). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace geminga {

std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const std::byte> bytes);
inline std::uint32_t crc32c(std::span<const std::byte> bytes) { return crc32c_extend(0, bytes); }

}  // namespace geminga
