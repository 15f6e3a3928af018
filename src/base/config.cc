// Reading settings: properties files, the environment, sizes.
#include "base/config.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>

namespace geminga {

namespace {

constexpr std::size_t kMaxFile = 4 << 20;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\f'; }

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Undoes the escapes of `text`. False: a broken \u.
bool unescape(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) break;
    switch (text[i]) {
      case 't': out += '\t'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 'f': out += '\f'; break;
      case 'u': {
        std::uint32_t code = 0;
        if (text.size() - i - 1 < 4) return false;
        const char* digits = text.data() + i + 1;
        if (std::from_chars(digits, digits + 4, code, 16).ptr != digits + 4) return false;
        append_utf8(out, code);
        i += 4;
        break;
      }
      default: out += text[i];
    }
  }
  return true;
}

// Does the line end in an odd number of backslashes, that is, go on in the next one?
bool goes_on(std::string_view line) {
  std::size_t count = 0;
  while (count < line.size() && line[line.size() - 1 - count] == '\\') ++count;
  return count % 2 == 1;
}

// Where the key of a logical line ends: the first '=', ':' or space that is not escaped.
std::size_t end_of_key(std::string_view line) {
  std::size_t i = 0;
  while (i < line.size()) {
    if (line[i] == '\\') {
      i += 2;
      continue;
    }
    if (line[i] == '=' || line[i] == ':' || is_space(line[i])) break;
    ++i;
  }
  return i < line.size() ? i : line.size();
}

class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  // The next natural line without its end; false at the end of the text.
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find_first_of("\r\n");
    line = rest_.substr(0, end);
    if (end == std::string_view::npos) {
      rest_ = {};
    } else {
      const bool crlf = rest_[end] == '\r' && end + 1 < rest_.size() && rest_[end + 1] == '\n';
      rest_.remove_prefix(end + (crlf ? 2 : 1));
    }
    ++number_;
    return true;
  }
  int number() const { return number_; }

 private:
  std::string_view rest_;
  int number_ = 0;
};

}  // namespace

Result<std::vector<ConfigSetting>> parse_properties(std::string_view text, std::string_view name) {
  if (text.size() > kMaxFile) {
    return Status::InvalidArgument(
        fmt::format("{}: larger than 4 MiB, this is no configuration file", name));
  }
  std::vector<ConfigSetting> settings;
  Lines lines(text);
  std::string_view natural;
  while (lines.next(natural)) {
    const int number = lines.number();
    natural = trim_left(natural);
    if (natural.empty() || natural.front() == '#' || natural.front() == '!') continue;
    std::string logical(natural);
    while (goes_on(logical)) {
      logical.pop_back();
      if (!lines.next(natural)) break;
      logical += trim_left(natural);
    }
    const std::size_t key_end = end_of_key(logical);
    std::string_view value = trim_left(std::string_view(logical).substr(key_end));
    if (!value.empty() && (value.front() == '=' || value.front() == ':')) {
      value = trim_left(value.substr(1));
    }
    ConfigSetting setting;
    setting.source = fmt::format("{}:{}", name, number);
    if (!unescape(std::string_view(logical).substr(0, key_end), setting.key) ||
        !unescape(value, setting.value)) {
      return Status::InvalidArgument(
          fmt::format("{}: a \\u escape needs four hexadecimal digits", setting.source));
    }
    while (!setting.value.empty() && is_space(setting.value.back())) setting.value.pop_back();
    settings.push_back(std::move(setting));
  }
  return settings;
}

Result<std::vector<ConfigSetting>> read_properties_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::NotFound(fmt::format("configuration file {} cannot be opened", path));
  std::string text;
  text.resize(kMaxFile + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return Status::Io(fmt::format("configuration file {} cannot be read", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_properties(text, path);
}

std::vector<ConfigSetting> settings_of_environment(const char* const* environment) {
  static constexpr std::string_view kPrefix = "PULSAR_PREFIX_";
  std::vector<ConfigSetting> settings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    const std::size_t equals = variable.find('=');
    if (!variable.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    settings.push_back({std::string(variable.substr(kPrefix.size(), equals - kPrefix.size())),
                        std::string(variable.substr(equals + 1)),
                        "environment variable " + std::string(variable.substr(0, equals))});
  }
  return settings;
}

Result<std::size_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  std::string unit(stopped, end);
  for (char& c : unit) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.size() > 1 && unit.ends_with("b")) {
    unit.resize(unit.size() - 1);
  }
  int shift = -1;
  if (unit.empty() || unit == "b") shift = 0;
  if (unit == "k") shift = 10;
  if (unit == "m") shift = 20;
  if (unit == "g") shift = 30;
  if (unit == "t") shift = 40;
  if (error != std::errc() || shift < 0 ||
      number > (std::numeric_limits<std::size_t>::max() >> shift)) {
    return Status::InvalidArgument(fmt::format(
        "'{}' is no size; write bytes or a number with K, M, G or T, for example 512M", text));
  }
  return static_cast<std::size_t>(number) << shift;
}

Result<std::size_t> memory_of_jvm_options(std::string_view options) {
  static constexpr std::string_view kFlags[] = {"-Xmx", "-XX:MaxDirectMemorySize="};
  std::size_t found[2] = {0, 0};
  while (!options.empty()) {
    while (!options.empty() && (is_space(options.front()) || options.front() == '\n' ||
                                options.front() == '"' || options.front() == '\'')) {
      options.remove_prefix(1);
    }
    const std::size_t end = std::min(options.find_first_of(" \t\n\"'"), options.size());
    const std::string_view option = options.substr(0, end);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!option.starts_with(kFlags[i])) continue;
      auto size = parse_size(option.substr(kFlags[i].size()));
      if (!size) return size.status().with_context(fmt::format("option {}", option));
      found[i] = *size;
    }
    options.remove_prefix(end);
  }
  return found[0] + found[1];
}

}  // namespace geminga
