// Times as Pulsar shows them: ISO-8601 in UTC. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace geminga {

// "2026-11-30T17:26:36.65Z" of milliseconds since 1970; the fraction without trailing zeros, as
// Java prints it.
std::string iso_time(std::int64_t ms);

}  // namespace geminga
