#include "server/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/url_encoding.h"
#include "server/json_text.h"

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

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      default: out += c;
    }
  }
  return out;
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

HttpResponse no_content() { return {}; }

HttpResponse ok_empty() {
  HttpResponse response;
  response.status = 200;
  return response;
}

HttpResponse json_text(std::string body, unsigned status) {
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  response.body = std::move(body);
  return response;
}

HttpResponse reason(unsigned status, std::string_view text) {
  std::string body = "{\"reason\":";
  append_json_string(body, text);
  body += '}';
  return json_text(std::move(body), status);
}

HttpResponse reason(const Status& status) {
  const ErrorInfo& info = error_info(status.code());
  return reason(static_cast<unsigned>(info.http_status),
                status.message().empty() ? info.text : status.message());
}

std::string_view http_status_text(unsigned status) {
  switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 302: return "Found";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 412: return "Precondition Failed";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Entity";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 507: return "Insufficient Storage";
    default: return "Error";
  }
}

HttpResponse server_page(const HttpRequest& request, unsigned status, std::string_view text) {
  if (text.empty()) text = http_status_text(status);
  HttpResponse response;
  response.status = status;
  // The original makes pages for these methods only.
  if (request.method != HttpMethod::Get && request.method != HttpMethod::Head &&
      request.method != HttpMethod::Post) {
    return response;
  }
  constexpr std::string_view kServlet = "geminga";
  response.headers.emplace_back("Cache-Control", "must-revalidate,no-cache,no-store");
  const std::string_view accept = request.header("accept");
  const auto accepts = [&](std::string_view type) {
    return accept.find(type) != std::string_view::npos;
  };
  if (accepts("application/json")) {
    response.content_type = "application/json";
    response.body = "{\"servlet\":";
    append_json_string(response.body, kServlet);
    response.body += ",\"message\":";
    append_json_string(response.body, html_escaped(text));
    response.body += ",\"url\":";
    append_json_string(response.body, request.path);
    response.body += fmt::format(",\"status\":\"{}\"}}", status);
  } else if (accepts("text/plain")) {
    response.content_type = "text/plain;charset=iso-8859-1";
    response.body = fmt::format("HTTP ERROR {} {}\nURI: {}\nSTATUS: {}\nMESSAGE: {}\nSERVLET: {}\n",
                                status, text, request.path, status, text, kServlet);
  } else {
    response.content_type = "text/html;charset=iso-8859-1";
    const std::string shown = html_escaped(text);
    response.body = fmt::format(
        "<html>\n<head>\n<meta http-equiv=\"Content-Type\" "
        "content=\"text/html;charset=ISO-8859-1\"/>\n"
        "<title>Error {0} {1}</title>\n</head>\n<body>\n<h2>HTTP ERROR {0} {1}</h2>\n<table>\n"
        "<tr><th>URI:</th><td>{2}</td></tr>\n<tr><th>STATUS:</th><td>{0}</td></tr>\n"
        "<tr><th>MESSAGE:</th><td>{1}</td></tr>\n<tr><th>SERVLET:</th><td>{3}</td></tr>\n</"
        "table>\n</body>\n</html>\n",
        status, shown, html_escaped(request.path), kServlet);
  }
  return response;
}

}  // namespace geminga
