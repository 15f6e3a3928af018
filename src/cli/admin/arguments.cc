#include "cli/admin/arguments.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/url_encoding.h"
#include "broker/topic_name.h"
#include "cli/admin/units.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Option describe_option(std::string_view token) {
  Option option;
  if (token.ends_with('!')) {
    option.required = true;
    token.remove_suffix(1);
  }
  if (const auto at = token.find('@'); at != std::string_view::npos) {
    const std::string_view choice = token.substr(at + 1);
    option.chooses = true;
    option.name = choice.substr(0, choice.find('='));
    option.value = choice.substr(choice.find('=') + 1);
    token = token.substr(0, at);
  } else if (const auto colon = token.find(':'); colon != std::string_view::npos) {
    const std::string_view kind = token.substr(colon + 1);
    const auto equals = kind.find('=');
    option.kind = kind.substr(0, equals);
    if (equals != std::string_view::npos) option.value = kind.substr(equals + 1);
    token = token.substr(0, colon);
  }
  option.names = split(token, ',');
  if (option.name.empty()) {
    const auto at = std::find_if(option.names.begin(), option.names.end(),
                                 [](const std::string& name) { return name.starts_with("--"); });
    const std::string& shown = at == option.names.end() ? option.names.front() : *at;
    option.name = shown.substr(shown.find_first_not_of('-'));
  }
  return option;
}

Positional describe_positional(std::string_view token) {
  Positional positional;
  positional.rest = token.ends_with("...");
  positional.optional = token.ends_with('?') || positional.rest;
  positional.topic = token == "topic";
  positional.name_space = token == "namespace";
  if (token.starts_with('<')) token = token.substr(1, token.find('>') - 1);
  positional.name = token;
  return positional;
}

Status allowed(std::string_view text, std::string_view what) {
  return Status::InvalidArgument("'" + std::string(text) + "' is not " + std::string(what));
}

std::string with_case(std::string_view text, bool upper) {
  std::string changed(text);
  std::transform(changed.begin(), changed.end(), changed.begin(), [upper](unsigned char c) {
    return static_cast<char>(upper ? std::toupper(c) : std::tolower(c));
  });
  return changed;
}

Result<json::value> integer(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return allowed(text, "a whole number");
  return json::value(number);
}

Result<json::value> number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return allowed(text, "a number");
  return json::value(value);
}

Result<json::value> amount(std::string_view kind, std::string_view text) {
  if (kind == "size" || kind == "mb") {
    GM_ASSIGN_OR_RETURN(const std::int64_t bytes, parse_size(text));
    if (kind == "size" || bytes <= 0) return json::value(bytes);
    if (bytes < (1 << 20)) return allowed(text, "at least 1M, 0 or -1");
    return json::value(bytes >> 20);
  }
  GM_ASSIGN_OR_RETURN(const std::int64_t seconds, parse_duration(text));
  if (kind == "sec" || seconds < 0) return json::value(seconds);
  if (kind == "ms") return json::value(seconds * 1000);
  if (seconds > 0 && seconds < 60) return allowed(text, "at least 1m, 0 or -1");
  return json::value(seconds / 60);
}

// "a=1,b=2". A comma that begins no new pair belongs to the value before it.
Result<json::value> pairs(std::string_view text) {
  json::object found;
  if (text == "{}") return json::value(std::move(found));
  std::string last;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || (equals == std::string::npos && last.empty()))
      return allowed(text, "of the form key=value,key=value");
    if (equals == std::string::npos) {
      found[last] = std::string(found[last].as_string()) + "," + part;
      continue;
    }
    last = part.substr(0, equals);
    found[last] = part.substr(equals + 1);
  }
  return json::value(std::move(found));
}

Result<json::value> convert(std::string_view kind, std::string_view text) {
  if (kind == "int") return integer(text);
  if (kind == "num") return number(text);
  if (kind == "upper") return json::value(with_case(text, true));
  if (kind == "lower") return json::value(with_case(text, false));
  if (kind == "enum") {
    std::string name = with_case(text, true);
    std::replace(name.begin(), name.end(), '-', '_');
    return json::value(std::move(name));
  }
  if (kind == "size" || kind == "mb" || kind == "sec" || kind == "min" || kind == "ms")
    return amount(kind, text);
  if (kind == "map") return pairs(text);
  if (kind == "json") return parse_json(text);
  if (kind == "bool") {
    if (text == "true" || text == "false") return json::value(text == "true");
    return allowed(text, "true or false");
  }
  if (kind == "list") {
    json::array list;
    for (std::string& part : split(text, ',')) list.emplace_back(std::move(part));
    return json::value(std::move(list));
  }
  if (kind == "id" || kind == "position") {
    GM_ASSIGN_OR_RETURN(auto id, kind == "id" ? parse_message_id(text) : parse_position(text));
    return json::value(std::move(id));
  }
  if (kind == "date") {
    GM_ASSIGN_OR_RETURN(const std::int64_t ms, parse_date_time(text));
    return json::value(ms);
  }
  return json::value(text);
}

// A list or map that is given again grows.
void put(json::object& values, const Option& option, json::value value) {
  json::value& place = values[option.name];
  if (place.is_array() && value.is_array()) {
    for (json::value& each : value.get_array()) place.get_array().push_back(std::move(each));
  } else if (option.kind == "map" && place.is_object() && value.is_object()) {
    for (auto& each : value.get_object()) place.get_object()[each.key()] = each.value();
  } else {
    place = std::move(value);
  }
}

class Parser {
 public:
  Parser(const Arguments& arguments, const std::vector<std::string>& words)
      : arguments_(arguments), words_(words) {}

  Result<json::object> run() {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      // A negative number is a value.
      const bool dashed = word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
      GM_RETURN_IF_ERROR(dashed ? take_option(word) : take_positional(word));
    }
    GM_RETURN_IF_ERROR(complete());
    return std::move(values_);
  }

 private:
  const Option* find(std::string_view name) const {
    for (const Option& option : arguments_.options) {
      if (std::find(option.names.begin(), option.names.end(), name) != option.names.end())
        return &option;
    }
    return nullptr;
  }

  Status take_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = find(name);
    if (option == nullptr) return Status::InvalidArgument("there is no option " + name);
    if (option->kind.empty()) {
      if (equals != std::string::npos) {
        const std::string given = word.substr(equals + 1);
        if (option->chooses || (given != "true" && given != "false"))
          return Status::InvalidArgument(name + " takes no value");
        values_[option->name] = given == "true";
        return Status::ok();
      }
      if (option->chooses && values_.contains(option->name))
        return Status::InvalidArgument(name + " contradicts an option before it");
      values_[option->name] = !option->chooses || option->value == "true";
      return Status::ok();
    }
    std::string text;
    if (equals != std::string::npos) {
      text = word.substr(equals + 1);
    } else if (at_ + 1 < words_.size()) {
      text = words_[++at_];
    } else {
      return Status::InvalidArgument(name + " needs a value: " + usage_of(*option));
    }
    auto value = convert(option->kind, text);
    if (!value) return Status::InvalidArgument(name + ": " + value.status().message());
    put(values_, *option, std::move(*value));
    return Status::ok();
  }

  Status take_positional(const std::string& word) {
    if (position_ >= arguments_.positionals.size())
      return Status::InvalidArgument("there is no place for '" + word + "'");
    const Positional& positional = arguments_.positionals[position_];
    if (positional.rest) {
      json::value& all = values_[positional.name];
      if (!all.is_array()) all = json::array();
      all.get_array().emplace_back(word);
      return Status::ok();
    }
    ++position_;
    values_[positional.name] = word;
    if (positional.topic) {
      const bool bare = word.find("://") == std::string::npos;
      const std::string name = bare ? arguments_.domain + word : word;
      GM_ASSIGN_OR_RETURN(std::string path, topic_path(name));
      values_["topic-name"] = TopicName::parse_lenient(name)->full();
      values_[positional.name] = std::move(path);
    } else if (positional.name_space) {
      const std::string full = word.find('/') == std::string::npos ? "public/" + word : word;
      GM_RETURN_IF_ERROR(NamespaceName::parse(full).status());
      values_[positional.name] = full;
    }
    return Status::ok();
  }

  // What was not given.
  Status complete() {
    for (const Positional& positional : arguments_.positionals) {
      if (!positional.optional && !values_.contains(positional.name))
        return Status::InvalidArgument("missing: " + usage_of(positional));
    }
    for (const Option& option : arguments_.options) {
      if (values_.contains(option.name)) continue;
      if (option.required) return Status::InvalidArgument("missing: " + usage_of(option));
      if (option.kind.empty()) {
        if (!option.chooses) values_[option.name] = false;
      } else if (!option.value.empty()) {
        GM_ASSIGN_OR_RETURN(values_[option.name], convert(option.kind, option.value));
      }
    }
    std::map<std::string, std::string> choices;
    for (const Option& option : arguments_.options) {
      if (option.chooses)
        choices[option.name] += (choices[option.name].empty() ? "" : " or ") + option.names.back();
    }
    for (const auto& [name, options] : choices) {
      if (!values_.contains(name)) return Status::InvalidArgument("missing: " + options);
    }
    return Status::ok();
  }

  const Arguments& arguments_;
  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  std::size_t position_ = 0;
  json::object values_;
};

}  // namespace

Arguments describe(std::string_view description) {
  Arguments arguments;
  for (const std::string& token : split(description, ' ')) {
    if (token.empty()) continue;
    if (token.starts_with('-')) {
      arguments.options.push_back(describe_option(token));
    } else {
      arguments.positionals.push_back(describe_positional(token));
    }
  }
  return arguments;
}

Result<json::object> parse_arguments(const Arguments& arguments,
                                     const std::vector<std::string>& words) {
  return Parser(arguments, words).run();
}

Result<std::string> topic_path(std::string_view topic) {
  GM_ASSIGN_OR_RETURN(const TopicName name, TopicName::parse_lenient(topic));
  return std::string(to_string(name.domain())) + "/" + std::string(name.ns()) + "/" +
         name.encoded_local();
}

std::string usage_of(const Option& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + name;
  if (option.kind.empty()) return text;
  static const std::map<std::string, std::string> kKinds = {{"int", "NUMBER"},
                                                            {"num", "NUMBER"},
                                                            {"bool", "true|false"},
                                                            {"list", "A,B,..."},
                                                            {"map", "KEY=VALUE,..."},
                                                            {"json", "JSON"},
                                                            {"size", "SIZE (10M, 2G)"},
                                                            {"mb", "SIZE (10M, 2G)"},
                                                            {"sec", "TIME (30s, 5m, 2h)"},
                                                            {"min", "TIME (5m, 2h)"},
                                                            {"ms", "TIME (30s, 5m)"},
                                                            {"id", "latest|earliest|LEDGER:ENTRY"},
                                                            {"position", "LEDGER:ENTRY"},
                                                            {"date", "2026-05-06T07:08:09Z"}};
  const auto kind = kKinds.find(option.kind);
  text += " " + (kind == kKinds.end() ? with_case(option.name, true) : kind->second);
  if (!option.value.empty()) text += " [" + option.value + "]";
  return text;
}

std::string usage_of(const Positional& positional) {
  if (positional.topic) return "TOPIC";
  if (positional.name_space) return "TENANT/NAMESPACE";
  return with_case(positional.name, true) + (positional.rest ? "..." : "");
}

}  // namespace geminga::admin_cli
