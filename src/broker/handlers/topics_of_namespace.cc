// GET_TOPICS_OF_NAMESPACE: the topics of a namespace, filtered by a pattern if the client sends
// one.
#include "base/config.h"
#include "broker/broker.h"
#include "broker/handlers/handlers.h"
#include "broker/topics_pattern.h"
#include "wire/topics_hash.h"

namespace geminga {

Task<void> handle_topics_of_namespace(std::shared_ptr<Session> session,
                                      pulsar::proto::BaseCommand command) {
  using Request = pulsar::proto::CommandGetTopicsOfNamespace;
  const Request& request = command.gettopicsofnamespace();
  const Result<NamespaceName> name_space = NamespaceName::parse(request.namespace_());
  if (!name_space) co_return session->reply_error(request.request_id(), name_space.status());
  const bool persistent = request.mode() != Request::NON_PERSISTENT;
  const bool non_persistent = request.mode() != Request::PERSISTENT;
  Result<std::vector<std::string>> topics = co_await session->broker().list_topics(
      request.namespace_(), persistent, non_persistent, false);
  if (!topics) co_return session->reply_error(request.request_id(), topics.status());
  bool filtered = false;
  const BrokerConfig& config = session->broker().config();
  const auto longest = static_cast<std::size_t>(config.subscription_pattern_max_length);
  if (config.enable_broker_side_subscription_pattern_evaluation && request.has_topics_pattern() &&
      request.topics_pattern().size() <= longest) {
    // A pattern that we cannot read is left to the client, which filters by itself then.
    if (const Result<TopicsPattern> pattern = TopicsPattern::compile(request.topics_pattern());
        pattern) {
      std::erase_if(*topics, [&](const std::string& topic) { return !pattern->matches(topic); });
      filtered = true;
    }
  }
  const std::string hash = topics_hash(*topics);
  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::GET_TOPICS_OF_NAMESPACE_RESPONSE);
  auto& response = *answer.mutable_gettopicsofnamespaceresponse();
  response.set_request_id(request.request_id());
  response.set_filtered(filtered);
  response.set_topics_hash(hash);
  response.set_changed(!request.has_topics_hash() || request.topics_hash() != hash);
  if (response.changed()) {
    for (std::string& topic : *topics) response.add_topics(std::move(topic));
  }
  session->reply(answer);
}

}  // namespace geminga
