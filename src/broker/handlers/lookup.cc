// LOOKUP: which broker serves a topic. A standalone broker serves all of them. Whether the topic
// exists does not matter here (as in Pulsar's binary lookup).
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "broker/handlers/handlers.h"
#include "broker/handlers/topic_access.h"

namespace geminga {

namespace {

// With a loopback address advertised, clients elsewhere (port mappings, containers) can only get
// here through the address they dialled already; Pulsar's standalone does the same.
bool is_loopback(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::string_view host = url.substr(scheme == std::string_view::npos ? 0 : scheme + 3);
  return host.starts_with("localhost:") || host.starts_with("127.") || host.starts_with("[::1]");
}

}  // namespace

Task<void> handle_lookup(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command) {
  using Response = pulsar::proto::CommandLookupTopicResponse;
  const auto& request = command.lookuptopic();
  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::LOOKUP_RESPONSE);
  auto& response = *answer.mutable_lookuptopicresponse();
  response.set_request_id(request.request_id());
  const Result<TopicName> name = parse_client_topic(request.topic());
  if (!name) {
    response.set_response(Response::Failed);
    response.set_error(static_cast<pulsar::proto::ServerError>(error_info(name.code()).wire_code));
    response.set_message(name.status().message());
  } else if (!request.advertised_listener_name().empty()) {
    // The substring "the broker do not have ... listener" is what the C++ client looks for to go
    // on.
    response.set_response(Response::Failed);
    response.set_error(pulsar::proto::ServiceNotReady);
    response.set_message("the broker do not have " + request.advertised_listener_name() +
                         " listener");
  } else {
    const std::string& shared = session->broker().addresses().service_url;
    const std::string& url = session->broker().service_url_of(*name);
    response.set_response(Response::Connect);
    response.set_brokerserviceurl(url);
    response.set_authoritative(true);
    // A port of its own is there to be connected to.
    response.set_proxy_through_service_url(is_loopback(url) && &url == &shared);
  }
  ShardMetrics& metrics = session->broker().metrics().of(session->shard().id());
  (response.response() == Response::Connect ? metrics.lookups : metrics.lookups_failed).add();
  session->reply(answer);
  co_return;
}

}  // namespace geminga
