#include "server/http_request.h"

#include <algorithm>
#include <charconv>

#include "base/url_encoding.h"

namespace geminga {

namespace {

constexpr std::size_t kMaxSegments = 64;
constexpr std::size_t kMaxQueryFields = 128;

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

Status parse_query(std::string_view text, HttpRequest& request) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (field.empty()) continue;
    if (request.query.size() == kMaxQueryFields) {
      return Status::InvalidArgument("more than " + std::to_string(kMaxQueryFields) +
                                     " query parameters");
    }
    const std::size_t equals = std::min(field.find('='), field.size());
    GM_ASSIGN_OR_RETURN(std::string name, url_decode(field.substr(0, equals)));
    GM_ASSIGN_OR_RETURN(std::string value,
                        url_decode(field.substr(std::min(equals + 1, field.size()))));
    request.query.emplace_back(std::move(name), std::move(value));
  }
  return Status::ok();
}

}  // namespace

std::string_view to_string(HttpMethod method) {
  switch (method) {
    case HttpMethod::Get: return "GET";
    case HttpMethod::Head: return "HEAD";
    case HttpMethod::Post: return "POST";
    case HttpMethod::Put: return "PUT";
    case HttpMethod::Delete: return "DELETE";
    case HttpMethod::Options: return "OPTIONS";
    case HttpMethod::Other: break;
  }
  return "OTHER";
}

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

std::optional<std::string_view> HttpRequest::query_value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

bool HttpRequest::query_flag(std::string_view name, bool if_absent) const {
  const auto value = query_value(name);
  return value ? equals_ignoring_case(*value, "true") : if_absent;
}

std::optional<std::int64_t> HttpRequest::query_number(std::string_view name) const {
  const auto value = query_value(name);
  if (!value) return std::nullopt;
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [at, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

const std::string& HttpRequest::param(std::string_view name) const {
  static const std::string kNone;
  for (const auto& [key, value] : params) {
    if (key == name) return value;
  }
  return kNone;
}

Status parse_target(std::string_view target, HttpRequest& request) {
  request.target = target;
  request.segments.clear();
  request.query.clear();
  if (target.empty() || target.front() != '/') {
    return Status::InvalidArgument("the request target must start with '/'");
  }
  const std::size_t path_end = std::min(target.find('?'), target.size());
  std::string_view path = target.substr(0, path_end);
  request.path = path;
  path.remove_prefix(1);
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end == 0) return Status::InvalidArgument("the path has an empty segment");
    if (request.segments.size() == kMaxSegments) {
      return Status::InvalidArgument("the path has more than " + std::to_string(kMaxSegments) +
                                     " segments");
    }
    GM_ASSIGN_OR_RETURN(std::string segment, url_decode(path.substr(0, end)));
    request.segments.push_back(std::move(segment));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return path_end < target.size() ? parse_query(target.substr(path_end + 1), request)
                                  : Status::ok();
}

}  // namespace geminga
