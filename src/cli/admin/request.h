// The request of a command, from its row in the table and the values that were given. Pure.
//
// In a path "{name}" is a value, encoded as a segment ("{topic}" and "{namespace}" stay as they
// are); in a query "key={name}" is left out with its key if the value is missing, and
// "key={name?}" if it is false as well.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "cli/admin/command.h"

namespace geminga::admin_cli {

struct Request {
  std::string method;
  std::string target;
  std::string body;  // JSON, empty: none
};

Request make_request(const Command& command, const boost::json::object& values);

// The target alone, for handlers.
std::string make_target(std::string_view pattern, const boost::json::object& values);

}  // namespace geminga::admin_cli
