#include "schema/key_value_schema.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdint>

#include "base/endian.h"

namespace geminga {

namespace {

// The next part, or nullptr data if the lengths do not fit. A length of -1 is an empty part.
bool take_part(std::string_view& data, std::string_view& part) {
  if (data.size() < 4) return false;
  const auto length = static_cast<std::int32_t>(load_be32(data.data()));
  data.remove_prefix(4);
  if (length < -1 || (length > 0 && static_cast<std::size_t>(length) > data.size())) return false;
  part = data.substr(0, length > 0 ? static_cast<std::size_t>(length) : 0);
  data.remove_prefix(part.size());
  return true;
}

// A definition goes in as it is; what is not JSON (nothing, a name) as text.
std::string json_of(std::string_view part) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(part, error);
  if (!error && (value.is_object() || value.is_array())) return std::string(part);
  return boost::json::serialize(boost::json::value(part));
}

void append_part(std::string& out, const boost::json::value* part) {
  std::string text;
  if (part != nullptr && part->is_string()) {
    text = std::string(part->get_string());
  } else if (part != nullptr && !part->is_null()) {
    text = boost::json::serialize(*part);
  }
  char length[4];
  store_be32(length, static_cast<std::uint32_t>(text.size()));
  out.append(length, sizeof length);
  out += text;
}

}  // namespace

Result<std::string> key_value_schema_to_json(std::string_view data) {
  std::string_view key;
  std::string_view value;
  if (!take_part(data, key) || !take_part(data, value)) {
    return Status::Corruption("the lengths in a KEY_VALUE schema do not fit");
  }
  return "{\"key\":" + json_of(key) + ",\"value\":" + json_of(value) + "}";
}

Result<std::string> key_value_schema_from_json(std::string_view text) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(text, error);
  if (error || !value.is_object()) {
    return Status::IncompatibleSchema("Invalid schema definition data for KEY_VALUE schema");
  }
  std::string data;
  append_part(data, value.get_object().if_contains("key"));
  append_part(data, value.get_object().if_contains("value"));
  return data;
}

}  // namespace geminga
