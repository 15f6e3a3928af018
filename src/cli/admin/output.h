// Prints answers as pulsar-admin does, or as tables for a terminal.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "cli/admin/command.h"

namespace geminga::admin_cli {

// As Java's Jackson prints it: two spaces a level, `"name" : value`, arrays on one line.
std::string pretty(const boost::json::value& value);
// As Java's Gson prints it.
std::string pretty_gson(const boost::json::value& value);
// As Java's toString() shows a value in a map: no quotes, "[a, b]".
std::string plain(const boost::json::value& value);

// What a command prints for a body; ends with a line feed unless it is empty. `table`: for a
// terminal, objects as aligned "path  value" lines. A body that is no JSON is shown as it is.
std::string render(Print print, const std::string& body, bool table);

}  // namespace geminga::admin_cli
