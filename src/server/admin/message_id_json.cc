#include "server/admin/message_id_json.h"

namespace geminga {

namespace json = boost::json;

json::object message_id_json(Position position, std::int32_t partition) {
  json::object out;
  out["ledgerId"] = position.ledger;
  out["entryId"] = position.entry;
  out["partitionIndex"] = partition;
  out["batchIndex"] = -1;
  out["batchSize"] = 0;
  return out;
}

Result<MessageIdBody> read_message_id(const json::value& body) {
  if (!body.is_object())
    return Status::Protocol("a message id is {\"ledgerId\": n, \"entryId\": n}");
  const json::object& object = body.get_object();
  const auto number = [&](const char* name, std::int64_t if_absent) {
    const json::value* value = object.if_contains(name);
    return value != nullptr && value->is_int64() ? value->get_int64() : if_absent;
  };
  if (!object.contains("ledgerId") || !object.contains("entryId")) {
    return Status::Protocol("a message id names its ledgerId and entryId");
  }
  MessageIdBody out;
  out.position = {number("ledgerId", -1), number("entryId", -1)};
  out.partition = static_cast<std::int32_t>(number("partitionIndex", -1));
  out.batch_index = static_cast<std::int32_t>(number("batchIndex", -1));
  if (const json::value* excluded = object.if_contains("excluded")) {
    out.excluded = excluded->is_bool() && excluded->get_bool();
  }
  if (const json::value* properties = object.if_contains("properties"))
    out.properties = *properties;
  return out;
}

}  // namespace geminga
