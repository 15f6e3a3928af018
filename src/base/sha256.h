// SHA-256 (FIPS 180-4) of bytes in memory: names content (schemas), it guards no secrets. Any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace geminga {

// The 32 bytes of the digest.
std::string sha256(std::string_view bytes);

}  // namespace geminga
