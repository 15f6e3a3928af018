// A command of `geminga admin`, as a row of a table: what it is called, what it takes, what it asks
// the broker, how the answer is printed. The grammar (names of groups, commands and options) is
// pulsar-admin's, so that any of its command lines can be pasted.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cli/admin/admin_client.h"

namespace geminga::admin_cli {

// How the body of an answer is shown.
enum class Print : std::uint8_t {
  Nothing,
  Json,   // as pulsar-admin writes most answers: indented by two, " : " between name and value
  Gson,   // as it writes some: `"name": value`, elements of arrays on lines of their own
  Raw,    // in one piece; with --indent as Gson
  Plain,  // a string without its quotes, null if there is nothing
  Lines,  // each element on a line of its own
  Text,   // the body as it is
  Map,    // "name    value" lines
};

// What a handler gets. Values have the types that the row's arguments say.
struct Call {
  AdminClient& client;
  const boost::json::object& values;
  bool as_json = false;     // -o json, or the output goes into a pipe
  bool wants_json = false;  // -o json
};

struct Command {
  std::string_view names;  // "stats|info": the first is shown
  // Tokens between spaces (arguments.h): "topic -s,--subscription:text! -ap,--applied".
  std::string_view arguments;
  // "POST /admin/v2/{topic}/retention?applied={applied}": see request.h. Empty: `run` does it.
  std::string_view request;
  // JSON in which the string "$name" stands for a value; a member without its value is left out.
  std::string_view body = {};
  Print print = Print::Nothing;
  std::string_view help = {};  // empty: told from the name (get-x, set-x, remove-x)
  Status (*run)(Call& call) = nullptr;
};

struct Group {
  std::string_view names;
  std::string_view help;
  std::span<const Command> commands;
};

// All groups, in the order that help shows them.
std::span<const Group> groups();

// One file each.
Group topics_group();
Group topic_policies_group();
Group namespaces_group();
Group tenants_group();
Group clusters_group();
Group isolation_group();
Group brokers_group();
Group broker_stats_group();
Group bookies_group();
Group resource_quotas_group();
Group resource_groups_group();
Group schemas_group();
Group transactions_group();
Group functions_worker_group();
Group functions_group();
Group sources_group();
Group sinks_group();
Group packages_group();
Group proxy_stats_group();

// Does `names` ("a|b") have `name`?
bool has_name(std::string_view names, std::string_view name);
std::string_view first_name(std::string_view names);

}  // namespace geminga::admin_cli
