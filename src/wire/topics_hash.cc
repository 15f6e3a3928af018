#include "wire/topics_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/crc32c.h"

namespace geminga {

std::string topics_hash(std::vector<std::string> topics) {
  std::sort(topics.begin(), topics.end());
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < topics.size(); ++i) {
    if (i > 0) crc = crc32c_extend(crc, std::as_bytes(std::span(",", 1)));
    crc = crc32c_extend(crc, std::as_bytes(std::span(topics[i])));
  }
  return fmt::format("{:08x}", __builtin_bswap32(crc));
}

}  // namespace geminga
