#include "cli/admin/admin_client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/json/value.hpp>
#include <cctype>
#include <chrono>
#include <utility>

#include "server/json_text.h"

namespace geminga::admin_cli {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {
constexpr std::uint64_t kMaxAnswer = 256 << 20;
}

struct AdminClient::Connection {
  asio::io_context io;
  beast::tcp_stream stream{io};
  beast::flat_buffer buffer;
  bool open = false;
};

std::string Answer::reason() const {
  if (const auto parsed = parse_json(body); parsed && parsed->is_object()) {
    for (const char* name : {"reason", "message"}) {
      const auto* found = parsed->get_object().if_contains(name);
      if (found != nullptr && found->is_string()) return std::string(found->get_string());
    }
  }
  return body.empty() ? "HTTP " + std::to_string(status) : body;
}

std::string Answer::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

AdminClient::AdminClient(ClientOptions options)
    : options_(std::move(options)), connection_(std::make_unique<Connection>()) {}
AdminClient::~AdminClient() = default;

Result<std::unique_ptr<AdminClient>> AdminClient::make(ClientOptions options) {
  constexpr std::string_view kScheme = "http://";
  if (options.url.starts_with("https://")) {
    return Status::Unsupported("the admin URL '" + options.url +
                               "' wants TLS, which this command does not speak yet; use http://");
  }
  if (!options.url.starts_with(kScheme) || options.url.size() == kScheme.size()) {
    return Status::InvalidArgument("the admin URL '" + options.url +
                                   "' must look like http://localhost:8080");
  }
  std::unique_ptr<AdminClient> client(new AdminClient(std::move(options)));
  std::string rest = client->options_.url.substr(kScheme.size());
  if (const auto slash = rest.find('/'); slash != std::string::npos) rest.resize(slash);
  // Of several brokers the first.
  if (const auto comma = rest.find(','); comma != std::string::npos) rest.resize(comma);
  const auto colon = rest.rfind(':');
  client->host_ = rest.substr(0, colon);
  client->port_ = colon == std::string::npos ? "80" : rest.substr(colon + 1);
  return client;
}

Result<Answer> AdminClient::ask(std::string_view method, const std::string& target,
                                const std::string& body, std::string_view content_type) {
  Connection& to = *connection_;
  boost::system::error_code error;
  if (!to.open) {
    asio::ip::tcp::resolver resolver(to.io);
    const auto found = resolver.resolve(host_, port_, error);
    to.stream.expires_after(std::chrono::seconds(options_.timeout_s));
    if (!error) to.stream.connect(found, error);
    if (error) {
      return Status::Io("nobody answers at " + options_.url + " (" + error.message() +
                        "); is the broker running? --admin-url names another");
    }
    to.stream.socket().set_option(asio::ip::tcp::no_delay(true), error);
    to.open = true;
  }
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.version(11);
  request.set(http::field::host, host_ + ":" + port_);
  request.set(http::field::accept, "application/json");
  if (!options_.token.empty()) request.set(http::field::authorization, "Bearer " + options_.token);
  if (!body.empty()) {
    request.set(http::field::content_type, content_type);
    request.body() = body;
  }
  request.prepare_payload();
  to.stream.expires_after(std::chrono::seconds(options_.timeout_s));
  http::write(to.stream, request, error);
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxAnswer);
  if (!error) http::read(to.stream, to.buffer, parser, error);
  if (error) {
    to.open = false;
    return Status::Io("asking " + options_.url + target + ": " + error.message());
  }
  auto& response = parser.get();
  to.open = response.keep_alive();
  if (!to.open) to.stream.close();
  Answer answer;
  answer.status = response.result_int();
  answer.content_type = response[http::field::content_type];
  for (const auto& header : response) {
    std::string name(header.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.starts_with("x-pulsar-")) answer.headers.emplace_back(name, header.value());
  }
  answer.body = std::move(response.body());
  return answer;
}

Result<Answer> AdminClient::must(std::string_view method, const std::string& target,
                                 const std::string& body, std::string_view content_type) {
  GM_ASSIGN_OR_RETURN(auto answer, ask(method, target, body, content_type));
  if (!answer.ok()) return Status::PreconditionFailed(answer.reason());
  return answer;
}

}  // namespace geminga::admin_cli
