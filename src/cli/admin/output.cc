#include "cli/admin/output.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

void append_pretty(std::string& out, const json::value& value, std::size_t level) {
  const std::string inside(2 * (level + 1), ' ');
  if (value.is_object()) {
    const json::object& object = value.get_object();
    if (object.empty()) {
      out += "{ }";
      return;
    }
    out += "{\n";
    bool first = true;
    for (const auto& member : object) {
      if (!std::exchange(first, false)) out += ",\n";
      out += inside;
      append_json_string(out, member.key());
      out += " : ";
      append_pretty(out, member.value(), level + 1);
    }
    out += "\n" + std::string(2 * level, ' ') + "}";
  } else if (value.is_array()) {
    const json::array& array = value.get_array();
    if (array.empty()) {
      out += "[ ]";
      return;
    }
    out += "[ ";
    bool first = true;
    for (const json::value& each : array) {
      if (!std::exchange(first, false)) out += ", ";
      append_pretty(out, each, level);
    }
    out += " ]";
  } else {
    append_json(out, value);
  }
}

void append_gson(std::string& out, const json::value& value, std::size_t level) {
  const std::string inside(2 * (level + 1), ' ');
  const std::string end = "\n" + std::string(2 * level, ' ');
  bool first = true;
  if (value.is_object() && !value.get_object().empty()) {
    out += "{\n";
    for (const auto& member : value.get_object()) {
      if (!std::exchange(first, false)) out += ",\n";
      out += inside;
      append_json_string(out, member.key());
      out += ": ";
      append_gson(out, member.value(), level + 1);
    }
    out += end + "}";
  } else if (value.is_array() && !value.get_array().empty()) {
    out += "[\n";
    for (const json::value& each : value.get_array()) {
      if (!std::exchange(first, false)) out += ",\n";
      out += inside;
      append_gson(out, each, level + 1);
    }
    out += end + "]";
  } else {
    append_json(out, value);
  }
}

using Rows = std::vector<std::pair<std::string, std::string>>;
void flatten(const std::string& path, const json::value& value, Rows& rows) {
  const auto below = [&](std::string_view name) {
    return path.empty() ? std::string(name) : path + "." + std::string(name);
  };
  if (value.is_object() && !value.get_object().empty()) {
    for (const auto& member : value.get_object())
      flatten(below(member.key()), member.value(), rows);
  } else if (value.is_array() &&
             std::any_of(value.get_array().begin(), value.get_array().end(),
                         [](const json::value& each) { return each.is_object(); })) {
    std::size_t index = 0;
    for (const json::value& each : value.get_array())
      flatten(below(std::to_string(index++)), each, rows);
  } else {
    rows.emplace_back(path, plain(value));
  }
}

std::string table_of(const json::value& value) {
  Rows rows;
  flatten("", value, rows);
  std::size_t width = 0;
  for (const auto& [name, text] : rows) width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, text] : rows)
    out += name + std::string(width - name.size() + 2, ' ') + text + "\n";
  return out;
}

std::string lines_of(const json::array& array) {
  std::string out;
  for (const json::value& each : array)
    out += (each.is_string() ? std::string(each.get_string()) : pretty(each)) + "\n";
  return out;
}

}  // namespace

std::string pretty(const json::value& value) {
  std::string out;
  append_pretty(out, value, 0);
  return out;
}

std::string pretty_gson(const json::value& value) {
  std::string out;
  append_gson(out, value, 0);
  return out;
}

std::string plain(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string());
  std::string out;
  if (value.is_array()) {
    for (const json::value& each : value.get_array())
      out += (out.empty() ? "" : ", ") + plain(each);
    return "[" + out + "]";
  }
  if (value.is_object()) {
    for (const auto& member : value.get_object()) {
      out += (out.empty() ? "" : ", ") + std::string(member.key()) + "=" + plain(member.value());
    }
    return "{" + out + "}";
  }
  return to_json(value);
}

std::string render(Print print, const std::string& body, bool table) {
  if (print == Print::Nothing) return {};
  if (print == Print::Text || print == Print::Raw) return body + "\n";
  if (print == Print::Plain && body.empty()) return "null\n";
  if (body.empty()) return print == Print::Json && !table ? "null\n" : "";
  const auto parsed = parse_json(body);
  if (!parsed) return body + "\n";
  if (print == Print::Lines && parsed->is_array()) return lines_of(parsed->get_array());
  if (print == Print::Plain) return plain(*parsed) + "\n";
  if (print == Print::Gson) return pretty_gson(*parsed) + "\n";
  if (print == Print::Map && parsed->is_object()) {
    std::string out;
    for (const auto& member : parsed->get_object())
      out += std::string(member.key()) + "    " + plain(member.value()) + "\n";
    return out;
  }
  if (table && parsed->is_object() && !parsed->get_object().empty()) return table_of(*parsed);
  return pretty(*parsed) + "\n";
}

}  // namespace geminga::admin_cli
