// WATCH_TOPIC_LIST and its end: a Java pattern consumer hears of topics that come and go
// (wire-protocol §4.4).
#include <fmt/format.h>

#include "base/config.h"
#include "broker/broker.h"
#include "broker/handlers/handlers.h"
#include "broker/topic_list_watch.h"
#include "wire/topics_hash.h"

namespace geminga {

Task<void> handle_watch_topic_list(std::shared_ptr<Session> session,
                                   pulsar::proto::BaseCommand command) {
  const auto& request = command.watchtopiclist();
  const std::uint64_t watcher_id = request.watcher_id();
  const BrokerConfig& config = session->broker().config();
  if (!config.enable_broker_side_subscription_pattern_evaluation) {
    session->reply_error(
        request.request_id(),
        Status::NotAllowed("Unable to create topic list watcher: patterns are not evaluated by "
                           "this broker"));
    co_return;
  }
  const std::int64_t longest = config.subscription_pattern_max_length;
  if (static_cast<std::int64_t>(TopicsPattern::length(request.topics_pattern())) > longest) {
    session->reply_error(
        request.request_id(),
        Status::NotAllowed(fmt::format(
            "Unable to create topic list watcher: Pattern longer than maximum: {}", longest)));
    co_return;
  }
  const Result<NamespaceName> name_space = NamespaceName::parse(request.namespace_());
  if (!name_space) {
    session->reply_error(request.request_id(),
                         Status::InvalidTopicName(name_space.status().message()));
    co_return;
  }
  Result<TopicsPattern> pattern = TopicsPattern::compile(request.topics_pattern());
  if (!pattern) {
    session->reply_error(
        request.request_id(),
        Status::InvalidTopicName("Invalid topics pattern: " + pattern.status().message()));
    co_return;
  }
  const auto at = session->watches().find(watcher_id);
  if (at != session->watches().end() && !at->second->ready()) {
    session->reply_error(
        request.request_id(),
        Status::ServiceNotReady("Topic list watcher is already present on the connection"));
    co_return;
  }
  // Listens before it lists, so that nothing falls in between.
  auto watch = std::make_shared<TopicListWatch>(*session, watcher_id, request.namespace_(),
                                                std::move(*pattern));
  session->watches()[watcher_id] = watch;
  watch->listen();
  Result<std::vector<std::string>> topics =
      co_await session->broker().list_topics(request.namespace_(), true, false, false);
  if (session->closed()) co_return;
  const auto mine = session->watches().find(watcher_id);
  const bool wanted = mine != session->watches().end() && mine->second == watch;
  if (!wanted) co_return;  // closed meanwhile
  if (!topics) {
    session->watches().erase(mine);
    co_return session->reply_error(request.request_id(), topics.status());
  }
  std::erase_if(*topics,
                [&](const std::string& topic) { return !watch->pattern().matches(topic); });
  const std::string hash = topics_hash(*topics);
  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::WATCH_TOPIC_LIST_SUCCESS);
  auto& success = *answer.mutable_watchtopiclistsuccess();
  success.set_request_id(request.request_id());
  success.set_watcher_id(watcher_id);
  success.set_topics_hash(hash);
  if (request.topics_hash() != hash) {
    for (const std::string& topic : *topics) success.add_topic(topic);
  }
  session->reply(answer);
  watch->start(std::move(*topics));
}

Task<void> handle_watch_topic_list_close(std::shared_ptr<Session> session,
                                         pulsar::proto::BaseCommand command) {
  session->watches().erase(command.watchtopiclistclose().watcher_id());
  session->reply_success(command.watchtopiclistclose().request_id());
  co_return;
}

}  // namespace geminga
