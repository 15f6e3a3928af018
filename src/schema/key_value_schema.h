// The data of a KEY_VALUE schema: BE32 length, key schema, BE32 length, value schema. REST shows
// and takes it as JSON,
// {"key": ..., "value": ...}, where a part without a definition (a primitive type) is "". Values;
// any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

// Corruption if the lengths do not fit.
Result<std::string> key_value_schema_to_json(std::string_view data);
// IncompatibleSchema if it is no such JSON.
Result<std::string> key_value_schema_from_json(std::string_view text);

}  // namespace geminga
