// Java's URLEncoder (application/x-www-form-urlencoded over UTF-8), which names of topics, cursors
// and schemas have in Pulsar's paths: letters, digits and - _ . * stay, a space becomes '+', the
// rest %XX in upper case. Decoding accepts '+' and %20, lower and upper case; InvalidArgument for a
// broken escape. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

std::string url_encode(std::string_view text);
Result<std::string> url_decode(std::string_view text);

}  // namespace geminga
