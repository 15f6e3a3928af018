#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace geminga {

std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const std::byte> bytes) {
  // crc32_iscsi works on the inverted state and takes an int length.
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), std::numeric_limits<int>::max() / 2);
    state = crc32_iscsi(const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data())),
                        static_cast<int>(n), state);
    bytes = bytes.subspan(n);
  }
  return ~state;
}

}  // namespace geminga
