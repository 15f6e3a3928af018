// Versions: our own, and the Pulsar release whose behaviour we answer for.
#pragma once

namespace geminga {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace geminga
