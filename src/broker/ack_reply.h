// ACK_RESPONSE: the answer to an ACK that carries a request id. Any thread.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/status.h"

namespace geminga {

Buffer ack_response(std::uint64_t consumer_id, std::uint64_t request_id, const Status& status);

}  // namespace geminga
