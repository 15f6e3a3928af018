// Base64 as the clients use it for keys that are bytes (standard alphabet, with or without
// padding). Any thread.
#pragma once

#include <string>
#include <string_view>

namespace geminga {

// Overwrites `out`. False if `text` is not base64.
bool decode_base64(std::string_view text, std::string& out);
std::string encode_base64(std::string_view bytes);

}  // namespace geminga
