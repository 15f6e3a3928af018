// Commands that are known and not built: each is answered with its command's name and
// NotAllowedError, and the connection lives on. TC_CLIENT_CONNECT gets the plain ERROR by which
// clients learn that transactions are off.
#include <fmt/format.h>

#include "broker/handlers/handlers.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;
constexpr char kNoTransactions[] = "Transactions are not enabled.";

template <typename Response, typename Request>
void refuse(Response& response, const Request& request) {
  response.set_request_id(request.request_id());
  response.set_txnid_least_bits(request.txnid_least_bits());
  // Java routes the answer by it.
  response.set_txnid_most_bits(request.txnid_most_bits());
  response.set_error(pulsar::proto::NotAllowedError);
  response.set_message(kNoTransactions);
}

}  // namespace

Task<void> handle_transaction_command(std::shared_ptr<Session> session, BaseCommand command) {
  BaseCommand answer;
  switch (command.type()) {
    case BaseCommand::NEW_TXN: {
      answer.set_type(BaseCommand::NEW_TXN_RESPONSE);
      auto& response = *answer.mutable_newtxnresponse();
      response.set_request_id(command.newtxn().request_id());
      response.set_txnid_most_bits(command.newtxn().tc_id());
      response.set_error(pulsar::proto::NotAllowedError);
      response.set_message(kNoTransactions);
      break;
    }
    case BaseCommand::ADD_PARTITION_TO_TXN:
      answer.set_type(BaseCommand::ADD_PARTITION_TO_TXN_RESPONSE);
      refuse(*answer.mutable_addpartitiontotxnresponse(), command.addpartitiontotxn());
      break;
    case BaseCommand::ADD_SUBSCRIPTION_TO_TXN:
      answer.set_type(BaseCommand::ADD_SUBSCRIPTION_TO_TXN_RESPONSE);
      refuse(*answer.mutable_addsubscriptiontotxnresponse(), command.addsubscriptiontotxn());
      break;
    case BaseCommand::END_TXN:
      answer.set_type(BaseCommand::END_TXN_RESPONSE);
      refuse(*answer.mutable_endtxnresponse(), command.endtxn());
      break;
    case BaseCommand::END_TXN_ON_PARTITION:
      answer.set_type(BaseCommand::END_TXN_ON_PARTITION_RESPONSE);
      refuse(*answer.mutable_endtxnonpartitionresponse(), command.endtxnonpartition());
      break;
    case BaseCommand::END_TXN_ON_SUBSCRIPTION:
      answer.set_type(BaseCommand::END_TXN_ON_SUBSCRIPTION_RESPONSE);
      refuse(*answer.mutable_endtxnonsubscriptionresponse(), command.endtxnonsubscription());
      break;
    default:
      session->reply_error(command.tcclientconnectrequest().request_id(),
                           Status::NotAllowed(kNoTransactions));
      co_return;
  }
  session->reply(answer);
}

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
