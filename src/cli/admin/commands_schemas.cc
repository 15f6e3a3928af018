// `schemas`.
#include <fstream>
#include <sstream>

#include "cli/admin/command.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

// "tenant/namespace/topic", as schemas are addressed.
std::string schema_path(const Call& call, std::string_view rest) {
  const std::string topic(call.values.at("topic").as_string());
  return "/admin/v2/schemas/" + topic.substr(topic.find('/') + 1) + make_target(rest, call.values);
}

// A file with {"type": ..., "schema": ..., "properties": {...}}.
Result<std::string> payload_of(const Call& call) {
  const std::string name(call.values.at("filename").as_string());
  std::ifstream file(name);
  if (!file) return Status::Io("cannot read the schema file " + name);
  std::ostringstream text;
  text << file.rdbuf();
  auto parsed = parse_json(text.str());
  if (!parsed || !parsed->is_object()) {
    return Status::InvalidArgument("the schema file " + name +
                                   " is no JSON object with type, "
                                   "schema and properties" +
                                   (parsed ? "" : ": " + parsed.status().message()));
  }
  json::object& body = parsed->get_object();
  if (!body.contains("properties")) body["properties"] = json::object();
  return to_json(*parsed);
}

Status get(Call& call) {
  const bool all = call.values.at("all-version").as_bool();
  if (all) {
    GM_ASSIGN_OR_RETURN(const Answer answer,
                        call.client.must("GET", schema_path(call, "/schemas")));
    print_text(render(Print::Json, answer.body, false));
    return Status::ok();
  }
  const bool one = call.values.contains("version");
  GM_ASSIGN_OR_RETURN(
      const Answer answer,
      call.client.must("GET", schema_path(call, one ? "/schema/{version}" : "/schema")));
  GM_ASSIGN_OR_RETURN(const json::value found, parse_json(answer.body));
  const auto member = [&](const char* name) {
    const json::value* value = found.as_object().if_contains(name);
    return value == nullptr ? json::value() : *value;
  };
  // The definition itself is JSON for most types: shown as such.
  json::value definition = member("data");
  if (definition.is_string()) {
    if (auto parsed = parse_json(std::string(definition.get_string()));
        parsed && parsed->is_object())
      definition = std::move(*parsed);
  }
  const std::string topic(call.values.at("topic-name").as_string());
  const json::object info{{"name", topic.substr(topic.rfind('/') + 1)},
                          {"schema", definition},
                          {"type", member("type")},
                          {"timestamp", member("timestamp")},
                          {"properties", member("properties")}};
  const json::value shown =
      one ? json::value(info) : json::object{{"version", member("version")}, {"schemaInfo", info}};
  print_text(pretty_gson(shown) + "\n");
  return Status::ok();
}

Status post(Call& call, std::string_view rest, bool print) {
  GM_ASSIGN_OR_RETURN(const std::string body, payload_of(call));
  GM_ASSIGN_OR_RETURN(const Answer answer, call.client.must("POST", schema_path(call, rest), body));
  if (print) print_text(render(Print::Json, answer.body, !call.as_json));
  return Status::ok();
}

constexpr Command kCommands[] = {
    {"get",
     "topic -v,--version:int -a,--all-version",
     {},
     {},
     Print::Nothing,
     "Shows the schema of a topic",
     get},
    {"upload",
     "topic -f,--filename:text!",
     {},
     {},
     Print::Nothing,
     "Gives a topic a schema",
     [](Call& call) { return post(call, "/schema", false); }},
    {"delete",
     "topic -f,--force",
     {},
     {},
     Print::Nothing,
     "Deletes the schema of a topic",
     [](Call& call) {
       return call.client.must("DELETE", schema_path(call, "/schema?force={force}")).status();
     }},
    {"metadata",
     "topic",
     {},
     {},
     Print::Nothing,
     "Shows where the versions are stored",
     [](Call& call) {
       GM_ASSIGN_OR_RETURN(const Answer answer,
                           call.client.must("GET", schema_path(call, "/metadata")));
       print_text(render(Print::Json, answer.body, !call.as_json));
       return Status::ok();
     }},
    {"compatibility",
     "topic -f,--filename:text!",
     {},
     {},
     Print::Nothing,
     "Asks whether a schema would be taken",
     [](Call& call) { return post(call, "/compatibility", true); }},
    {"extract",
     "topic -j,--jar:text! -t,--type:upper! -c,--classname:text! -a,--always-allow-null:text "
     "-n,--dry-run",
     {},
     {},
     Print::Nothing,
     "Would read a schema out of a Java class",
     [](Call&) {
       return Status::Unsupported(
           "schemas extract needs a Java runtime; write the schema into a file and use "
           "`schemas upload`");
     }},
};

}  // namespace

Group schemas_group() { return {"schemas", "Schemas of topics", kCommands}; }

}  // namespace geminga::admin_cli
