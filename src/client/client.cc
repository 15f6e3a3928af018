#include "client/client.h"

#include <fmt/format.h>

namespace geminga::client {

namespace {

using pulsar::proto::BaseCommand;
using pulsar::proto::CommandLookupTopicResponse;
using pulsar::proto::CommandPartitionedTopicMetadataResponse;

constexpr int kMostRedirects = 20;

std::string error_text(int error, const std::string& message) {
  return fmt::format(
      "{}{}{}", pulsar::proto::ServerError_Name(static_cast<pulsar::proto::ServerError>(error)),
      message.empty() ? "" : ": ", message);
}

}  // namespace

Client::Client(asio::io_context& io, ClientOptions options)
    : io_(io), options_(std::move(options)) {}

Task<Result<std::shared_ptr<Connection>>> Client::connect(HostPort address,
                                                          std::string proxied_broker) {
  const AsyncMutex::Lock lock = co_await connecting_.lock();
  auto& connections = pool_[{address.to_string(), proxied_broker}];
  std::erase_if(connections, [](const auto& connection) { return !connection->is_open(); });
  const std::size_t wanted = std::max(options_.connections_per_broker, 1U);
  if (connections.size() >= wanted) co_return connections[next_connection_++ % wanted];
  auto opened = co_await Connection::open(io_, address, proxied_broker, options_);
  if (opened.is_ok()) connections.push_back(*opened);
  co_return opened;
}

Task<Result<std::shared_ptr<Connection>>> Client::service_connection() {
  const auto hosts = parse_service_url(options_.service_url);
  if (!hosts) co_return hosts.status();
  Status last;
  for (std::size_t tried = 0; tried < hosts->size(); ++tried) {
    auto connection = co_await connect((*hosts)[next_host_ % hosts->size()], "");
    if (connection.is_ok()) co_return connection;
    last = connection.status();
    ++next_host_;
  }
  co_return last;
}

Task<Result<std::uint32_t>> Client::partitions(std::string topic) {
  GM_CO_ASSIGN_OR_RETURN(const auto connection, co_await service_connection());
  BaseCommand command;
  command.set_type(BaseCommand::PARTITIONED_METADATA);
  const std::uint64_t request_id = connection->next_request_id();
  command.mutable_partitionmetadata()->set_topic(full_topic_name(topic));
  command.mutable_partitionmetadata()->set_request_id(request_id);
  const auto answer = co_await connection->request(std::move(command), request_id);
  if (!answer.is_ok()) co_return answer.status();
  const auto& body = answer->partitionmetadataresponse();
  if (body.response() == CommandPartitionedTopicMetadataResponse::Failed) {
    co_return Status::TopicNotFound(
        fmt::format("partitions of {}: {}", topic, error_text(body.error(), body.message())));
  }
  co_return body.partitions();
}

Task<Result<std::vector<std::string>>> Client::topics_of_namespace(std::string name_space) {
  GM_CO_ASSIGN_OR_RETURN(const auto connection, co_await service_connection());
  BaseCommand command;
  command.set_type(BaseCommand::GET_TOPICS_OF_NAMESPACE);
  const std::uint64_t request_id = connection->next_request_id();
  command.mutable_gettopicsofnamespace()->set_namespace_(name_space);
  command.mutable_gettopicsofnamespace()->set_request_id(request_id);
  const auto answer = co_await connection->request(std::move(command), request_id);
  if (!answer.is_ok()) co_return answer.status();
  const auto& topics = answer->gettopicsofnamespaceresponse().topics();
  co_return std::vector<std::string>(topics.begin(), topics.end());
}

Task<Result<std::shared_ptr<Connection>>> Client::connection_for(std::string topic) {
  GM_CO_ASSIGN_OR_RETURN(std::shared_ptr<Connection> ask, co_await service_connection());
  bool authoritative = false;
  for (int redirect = 0; redirect < kMostRedirects; ++redirect) {
    BaseCommand command;
    command.set_type(BaseCommand::LOOKUP);
    const std::uint64_t request_id = ask->next_request_id();
    auto& lookup = *command.mutable_lookuptopic();
    lookup.set_topic(topic);
    lookup.set_request_id(request_id);
    lookup.set_authoritative(authoritative);
    const auto answer = co_await ask->request(std::move(command), request_id);
    if (!answer.is_ok()) co_return answer.status();
    const auto& body = answer->lookuptopicresponse();
    if (!body.has_response() || body.response() == CommandLookupTopicResponse::Failed) {
      co_return Status::ServiceNotReady(
          fmt::format("lookup of {}: {}", topic, error_text(body.error(), body.message())));
    }
    const auto hosts = parse_service_url(body.brokerserviceurl());
    if (!hosts) co_return hosts.status().with_context(fmt::format("lookup of {}", topic));
    const HostPort& broker = hosts->front();
    if (body.response() == CommandLookupTopicResponse::Redirect) {
      authoritative = body.authoritative();
      GM_CO_ASSIGN_OR_RETURN(ask, co_await connect(broker, ""));
      continue;
    }
    if (!body.proxy_through_service_url()) co_return co_await connect(broker, "");
    const auto service = parse_service_url(options_.service_url);
    co_return co_await connect((*service)[next_host_ % service->size()], broker.to_string());
  }
  co_return Status::ServiceNotReady(
      fmt::format("lookup of {} was redirected {} times", topic, kMostRedirects));
}

Task<Result<std::shared_ptr<Producer>>> Client::create_producer(ProducerOptions options) {
  options.topic = full_topic_name(options.topic);
  GM_CO_ASSIGN_OR_RETURN(auto connection, co_await connection_for(options.topic));
  co_return co_await Producer::open(std::move(connection), std::move(options));
}

Task<Result<std::shared_ptr<Consumer>>> Client::subscribe(ConsumerOptions options) {
  options.topic = full_topic_name(options.topic);
  GM_CO_ASSIGN_OR_RETURN(auto connection, co_await connection_for(options.topic));
  co_return co_await Consumer::open(std::move(connection), std::move(options));
}

void Client::close() {
  auto pool = std::exchange(pool_, {});
  for (auto& [address, connections] : pool) {
    for (auto& connection : connections) connection->close(Status::Closed("the client was closed"));
  }
}

}  // namespace geminga::client
