// Types of schemas. The numbers are those of the wire (pulsar.proto.Schema.Type); stored schemas
// (SchemaInfo.SchemaType) count from 1, and REST spells names. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace geminga {

enum class SchemaType : std::int32_t {
  None = 0,  // also BYTES: a topic without a schema
  String = 1,
  Json = 2,
  Protobuf = 3,
  Avro = 4,
  Boolean = 5,
  Int8 = 6,
  Int16 = 7,
  Int32 = 8,
  Int64 = 9,
  Float = 10,
  Double = 11,
  Date = 12,
  Time = 13,
  Timestamp = 14,
  KeyValue = 15,
  Instant = 16,
  LocalDate = 17,
  LocalTime = 18,
  LocalDateTime = 19,
  ProtobufNative = 20,
  AutoConsume = 21,  // on the wire only: "give me what is there"
};

// Empty for a number that is no type.
std::optional<SchemaType> schema_type_from_wire(std::int32_t number);
std::optional<SchemaType> schema_type_from_stored(std::int32_t number);
// The number of SchemaInfo.SchemaType. Not for AutoConsume.
std::int32_t stored_schema_type(SchemaType type);

// "KEY_VALUE", as REST spells it; the parser also accepts "BYTES" for None.
std::string_view to_string(SchemaType type);
std::optional<SchemaType> parse_schema_type(std::string_view name);

// Types whose data is an Avro schema in JSON.
constexpr bool is_avro_defined(SchemaType type) {
  return type == SchemaType::Json || type == SchemaType::Avro || type == SchemaType::Protobuf;
}

}  // namespace geminga
