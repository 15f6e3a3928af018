// Commands that are known and not built: each is answered with its command's name and
// NotAllowedError, and the connection lives on.
#include <fmt/format.h>

#include "broker/handlers/handlers.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

}  // namespace

Task<void> handle_scalable_topic_command(std::shared_ptr<Session> session, BaseCommand command) {
  const std::string text =
      fmt::format("{} is not supported by this broker", BaseCommand::Type_Name(command.type()));
  const auto refuse_with = [&](auto& response) {
    response.set_error(pulsar::proto::NotAllowedError);
    response.set_message(text);
  };
  BaseCommand answer;
  switch (command.type()) {
    case BaseCommand::SCALABLE_TOPIC_LOOKUP: {
      answer.set_type(BaseCommand::SCALABLE_TOPIC_UPDATE);
      auto& response = *answer.mutable_scalabletopicupdate();
      response.set_session_id(command.scalabletopiclookup().session_id());
      refuse_with(response);
      break;
    }
    case BaseCommand::SCALABLE_TOPIC_SUBSCRIBE: {
      answer.set_type(BaseCommand::SCALABLE_TOPIC_SUBSCRIBE_RESPONSE);
      auto& response = *answer.mutable_scalabletopicsubscriberesponse();
      response.set_request_id(command.scalabletopicsubscribe().request_id());
      refuse_with(response);
      break;
    }
    case BaseCommand::WATCH_SCALABLE_TOPICS: {
      answer.set_type(BaseCommand::WATCH_SCALABLE_TOPICS_UPDATE);
      auto& response = *answer.mutable_watchscalabletopicsupdate();
      response.set_watch_id(command.watchscalabletopics().watch_id());
      refuse_with(response);
      break;
    }
    case BaseCommand::WATCH_TC_ASSIGNMENTS: {
      answer.set_type(BaseCommand::WATCH_TC_ASSIGNMENTS_UPDATE);
      auto& response = *answer.mutable_watchtcassignmentsupdate();
      response.set_watch_id(command.watchtcassignments().watch_id());
      refuse_with(response);
      break;
    }
    default: co_return;  // the *_CLOSE of something that was never opened; they have no answer
  }
  session->reply(answer);
}

}  // namespace geminga
