#include "server/json_text.h"

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>

namespace geminga {

namespace {

// Length of the UTF-8 sequence at `at`, 0 if it is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  std::size_t length = 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0)
    length = 2;
  else if (first >= 0xE0 && first < 0xF0)
    length = 3;
  else if (first >= 0xF0 && first < 0xF5)
    length = 4;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(at + 1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) {
    return 0;
  }
  return length;
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {  // Java writes these as text
    out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return;
  }
  // Between these Java prints no exponent.
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-3 && size < 1e7);
  std::array<char, 40> text;
  const auto [end, error] =
      plain ? std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed)
            : std::to_chars(text.data(), text.data() + text.size(), value);
  const std::string_view written(text.data(), static_cast<std::size_t>(end - text.data()));
  out += written;
  if (written.find_first_of(".e") == std::string_view::npos) out += ".0";
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    switch (c) {
      case '"':
        out += "\\\"";
        ++i;
        continue;
      case '\\':
        out += "\\\\";
        ++i;
        continue;
      case '\n':
        out += "\\n";
        ++i;
        continue;
      case '\r':
        out += "\\r";
        ++i;
        continue;
      case '\t':
        out += "\\t";
        ++i;
        continue;
      case '\b':
        out += "\\b";
        ++i;
        continue;
      case '\f':
        out += "\\f";
        ++i;
        continue;
      default: break;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
      ++i;
      continue;
    }
    const std::size_t length = utf8_length(text, i);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
  out += '"';
}

void append_json(std::string& out, const boost::json::value& value) {
  namespace json = boost::json;
  switch (value.kind()) {
    case json::kind::null: out += "null"; return;
    case json::kind::bool_: out += value.get_bool() ? "true" : "false"; return;
    case json::kind::int64: out += std::to_string(value.get_int64()); return;
    case json::kind::uint64: out += std::to_string(value.get_uint64()); return;
    case json::kind::double_: append_double(out, value.get_double()); return;
    case json::kind::string: append_json_string(out, value.get_string()); return;
    case json::kind::array: {
      char before = '[';
      for (const json::value& item : value.get_array()) {
        out += before;
        append_json(out, item);
        before = ',';
      }
      out += before == '[' ? "[]" : "]";
      return;
    }
    case json::kind::object: {
      char before = '{';
      for (const auto& member : value.get_object()) {
        out += before;
        append_json_string(out, member.key());
        out += ':';
        append_json(out, member.value());
        before = ',';
      }
      out += before == '{' ? "{}" : "}";
      return;
    }
  }
}

std::string to_json(const boost::json::value& value) {
  std::string out;
  append_json(out, value);
  return out;
}

Result<boost::json::value> parse_json(std::string_view text) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  if (error) return Status::InvalidArgument("the body is not JSON: " + error.message());
  return value;
}

}  // namespace geminga
