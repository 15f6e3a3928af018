// `geminga admin`: asks a running broker over its HTTP API.
#include <CLI/CLI.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <string>

#include "base/status.h"
#include "base/url_encoding.h"
#include "broker/topic_name.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"

namespace geminga {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace json = boost::json;

constexpr std::chrono::seconds kPatience{30};
constexpr std::uint64_t kMaxAnswer = 64 << 20;

struct Answer {
  unsigned status = 0;
  std::string body;
};

struct Url {
  std::string host, port;
};
Result<Url> parse_url(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) {
    return Status::InvalidArgument("the admin URL '" + text +
                                   "' must look like http://localhost:8080");
  }
  std::string rest = text.substr(kScheme.size());
  if (const auto slash = rest.find('/'); slash != std::string::npos) rest.resize(slash);
  const auto colon = rest.rfind(':');
  if (colon == std::string::npos) return Url{rest, "80"};
  return Url{rest.substr(0, colon), rest.substr(colon + 1)};
}

Result<Answer> get(const std::string& admin_url, const std::string& path) {
  GM_ASSIGN_OR_RETURN(const Url url, parse_url(admin_url));
  asio::io_context io;
  asio::ip::tcp::resolver resolver(io);
  beast::tcp_stream stream(io);
  boost::system::error_code error;
  const auto found = resolver.resolve(url.host, url.port, error);
  stream.expires_after(kPatience);
  if (!error) stream.connect(found, error);
  if (error) {
    return Status::Io("nobody answers at " + admin_url + " (" + error.message() +
                      "); is the broker running? --admin-url names another");
  }
  http::request<http::empty_body> request{http::verb::get, path, 11};
  request.set(http::field::host, url.host);
  request.set(http::field::accept, "application/json");
  http::write(stream, request, error);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> response;
  response.body_limit(kMaxAnswer);
  if (!error) http::read(stream, buffer, response, error);
  if (error) return Status::Io("asking " + admin_url + path + ": " + error.message());
  return Answer{response.get().result_int(), std::move(response.get().body())};
}

std::string text_of(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}
long long number_of(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

void print_explanation(const json::object& why) {
  std::printf("%s, subscription %s%s%s\n  %s (%s)\n", text_of(why, "topic").c_str(),
              text_of(why, "subscription").c_str(), why.contains("type") ? ", " : "",
              text_of(why, "type").c_str(), text_of(why, "explanation").c_str(),
              text_of(why, "reason").c_str());
  if (why.contains("advice")) std::printf("  -> %s\n", text_of(why, "advice").c_str());
  std::printf("  backlog        %lld messages in %lld entries, behind %s; the log ends at %s\n",
              number_of(why, "backlogMessages"), number_of(why, "backlogEntries"),
              text_of(why, "markDeletePosition").c_str(),
              text_of(why, "lastConfirmedEntry").c_str());
  std::printf(
      "  with consumers %lld messages not acknowledged; %lld delayed; %lld entries to be sent "
      "again\n",
      number_of(why, "unackedMessages"), number_of(why, "delayedMessages"),
      number_of(why, "entriesToBeSentAgain"));
  if (const json::value* consumers = why.if_contains("consumers");
      consumers != nullptr && consumers->is_array()) {
    for (const json::value& each : consumers->get_array()) {
      if (!each.is_object()) continue;
      const json::object& of = each.get_object();
      std::printf("  consumer %s: %s; %lld permits, %lld messages not acknowledged\n",
                  text_of(of, "consumerName").c_str(), text_of(of, "explanation").c_str(),
                  number_of(of, "availablePermits"), number_of(of, "unackedMessages"));
    }
  }
  if (const json::value* keys = why.if_contains("drainingHashes");
      keys != nullptr && keys->is_array()) {
    for (const json::value& each : keys->get_array()) {
      if (!each.is_object()) continue;
      const json::object& key = each.get_object();
      std::printf("  key hash %lld: %s must acknowledge %lld entries, %lld wait for that\n",
                  number_of(key, "hash"), text_of(key, "heldBy").c_str(),
                  number_of(key, "unackedEntries"), number_of(key, "waitingEntries"));
    }
  }
}

int explain(const std::string& admin_url, const std::string& topic, const std::string& subscription,
            bool as_json) {
  const auto name = TopicName::parse(topic);
  if (!name) {
    std::fprintf(stderr, "geminga admin: %s\n", name.status().message().c_str());
    return kExitUsage;
  }
  const std::string path = "/admin/v2/" + std::string(to_string(name->domain())) + "/" +
                           std::string(name->ns()) + "/" + name->encoded_local() +
                           "/subscription/" + url_encode(subscription) + "/explain";
  const auto answer = get(admin_url, path);
  if (!answer) {
    std::fprintf(stderr, "geminga admin: %s\n", answer.status().message().c_str());
    return kExitFailed;
  }
  boost::system::error_code error;
  const json::value body = json::parse(answer->body, error);
  if (answer->status != 200 || error || !body.is_object()) {
    const std::string reason =
        !error && body.is_object() ? text_of(body.get_object(), "reason") : answer->body;
    std::fprintf(stderr, "geminga admin: the broker answers %u: %s\n", answer->status,
                 reason.c_str());
    return kExitFailed;
  }
  if (as_json) {
    std::printf("%s\n", answer->body.c_str());
  } else {
    print_explanation(body.get_object());
  }
  return kExitOk;
}

}  // namespace

int admin_main(int argc, char** argv) {
  CLI::App app{"Asks a running broker over its HTTP API."};
  app.name(argv[0]);
  app.require_subcommand(1);
  std::string admin_url = "http://localhost:8080";
  std::string output;
  app.add_option("--admin-url", admin_url, "where the broker's HTTP API is")->capture_default_str();
  CLI::App* topics = app.add_subcommand("topics", "topics and their subscriptions");
  topics->require_subcommand(1);
  std::string topic;
  std::string subscription;
  CLI::App* why = topics->add_subcommand(
      "explain", "why a subscription or its consumers get nothing at this moment");
  why->add_option("topic", topic, "the topic, or one partition of it")->required();
  why->add_option("-s,--subscription", subscription, "the subscription")->required();
  why->add_option("-o,--output", output, "json: as the broker answers it")
      ->check(CLI::IsMember({"json", "text"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      std::fputs(app.help("", CLI::AppFormatMode::All).c_str(), stdout);
      return kExitOk;
    }
    std::fprintf(stderr, "%s\n`geminga admin --help` lists the commands\n", e.what());
    return kExitUsage;
  }
  return explain(admin_url, topic, subscription, output == "json");
}

}  // namespace geminga
