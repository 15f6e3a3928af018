// Prints messages that the broker gives (peek-messages, examine-messages, get-message-by-id), as
// pulsar-admin does: ids, times, properties, a dump of the payload.
#pragma once

#include <string>

#include "cli/admin/admin_client.h"

namespace geminga::admin_cli {

// One message, or each of a batch with a rule between. `by_id`: as
// get-message-by-id shows them. InvalidArgument if a batch is malformed.
Result<std::string> show_messages(const Answer& answer, bool by_id = false);
inline constexpr char kRule[] =
    "-------------------------------------------------------------------------\n";

}  // namespace geminga::admin_cli
