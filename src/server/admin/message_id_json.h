// Message ids as the admin API reads and shows them. Values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>

#include "base/position.h"
#include "base/status.h"

namespace geminga {

boost::json::object message_id_json(Position position, std::int32_t partition = -1);

struct MessageIdBody {
  Position position;
  std::int32_t partition = -1;
  std::int32_t batch_index = -1;
  bool excluded = false;
  boost::json::value properties;  // null if there are none
};
// {"ledgerId", "entryId", ...}. Protocol: it is none.
Result<MessageIdBody> read_message_id(const boost::json::value& body);

}  // namespace geminga
