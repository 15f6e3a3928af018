#include "schema/schema_type.h"

#include <array>

namespace geminga {

namespace {

// By wire number.
constexpr std::array<std::string_view, 22> kNames = {"NONE",
                                                     "STRING",
                                                     "JSON",
                                                     "PROTOBUF",
                                                     "AVRO",
                                                     "BOOLEAN",
                                                     "INT8",
                                                     "INT16",
                                                     "INT32",
                                                     "INT64",
                                                     "FLOAT",
                                                     "DOUBLE",
                                                     "DATE",
                                                     "TIME",
                                                     "TIMESTAMP",
                                                     "KEY_VALUE",
                                                     "INSTANT",
                                                     "LOCAL_DATE",
                                                     "LOCAL_TIME",
                                                     "LOCAL_DATE_TIME",
                                                     "PROTOBUF_NATIVE",
                                                     "AUTO_CONSUME"};

}  // namespace

std::optional<SchemaType> schema_type_from_wire(std::int32_t number) {
  if (number < 0 || number > static_cast<std::int32_t>(SchemaType::AutoConsume))
    return std::nullopt;
  return static_cast<SchemaType>(number);
}

std::optional<SchemaType> schema_type_from_stored(std::int32_t number) {
  if (number < 1 || number > static_cast<std::int32_t>(SchemaType::ProtobufNative) + 1) {
    return std::nullopt;
  }
  return static_cast<SchemaType>(number - 1);
}

std::int32_t stored_schema_type(SchemaType type) { return static_cast<std::int32_t>(type) + 1; }

std::string_view to_string(SchemaType type) { return kNames[static_cast<std::size_t>(type)]; }

std::optional<SchemaType> parse_schema_type(std::string_view name) {
  if (name == "BYTES") return SchemaType::None;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<SchemaType>(i);
  }
  return std::nullopt;
}

}  // namespace geminga
