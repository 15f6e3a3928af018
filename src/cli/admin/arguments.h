// The arguments of a command, from their description in the table. Pure functions.
//
// A description is tokens between spaces:
//   topic, namespace   a positional argument that names one; "topic" becomes the path
//                      "persistent/tenant/namespace/local"
//   <name>             another positional one; <name>? may be missing, <name>... takes the rest
//   -s,--size:KIND     an option with a value; `!` behind: must be given; `=text`: if it is not
//   -f,--force         a flag: false if it is not given
//   -e,--enable@on=true   a flag that gives `on` the value; of those with the same name one is
//   given
// An option's value has the name of its first long form without dashes (else of its short form).
// Kinds: text upper lower int num bool list (comma-separated, repeatable) map (k=v,k=v,
// repeatable) enum (upper, '_' for '-') json size (bytes) mb (of a size) sec min ms (of a time) id
// (message id) position date.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace geminga::admin_cli {

struct Option {
  std::vector<std::string> names;  // as typed, with their dashes
  std::string name;                // of its value
  std::string kind;                // empty: a flag
  std::string value;               // what a flag stands for; of an option: its default
  bool required = false;
  bool chooses = false;  // a flag with '@'
};
struct Positional {
  std::string name;
  bool topic = false;
  bool name_space = false;
  bool optional = false;
  bool rest = false;
};
struct Arguments {
  std::string domain;  // of topics that are named without one, as "non-persistent://"
  std::vector<Positional> positionals;
  std::vector<Option> options;
};

Arguments describe(std::string_view description);

// The values of a command line. Flags that are not given are false, other options are missing.
// InvalidArgument names the argument and what is allowed.
Result<boost::json::object> parse_arguments(const Arguments& arguments,
                                            const std::vector<std::string>& words);

// "persistent/tenant/namespace/local" of a topic's name; its local part is encoded.
Result<std::string> topic_path(std::string_view topic);

// "-s, --size SIZE": for help.
std::string usage_of(const Option& option);
std::string usage_of(const Positional& positional);

}  // namespace geminga::admin_cli
