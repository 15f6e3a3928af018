// The hash by which clients and broker agree that a list of topics has not changed: CRC-32C of the
// sorted names joined by commas, as eight hex digits, lowest byte first. Any thread.
#pragma once

#include <string>
#include <vector>

namespace geminga {

std::string topics_hash(std::vector<std::string> topics);

}  // namespace geminga
