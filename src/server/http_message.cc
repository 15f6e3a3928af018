#include "server/http_message.h"

#include <fmt/format.h>

#include "server/json_text.h"

namespace geminga {

namespace {

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

}  // namespace

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
