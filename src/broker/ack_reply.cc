#include "broker/ack_reply.h"

#include "PulsarApi.pb.h"
#include "wire/command.h"

namespace geminga {

Buffer ack_response(std::uint64_t consumer_id, std::uint64_t request_id, const Status& status) {
  pulsar::proto::BaseCommand command;
  command.set_type(pulsar::proto::BaseCommand::ACK_RESPONSE);
  auto& response = *command.mutable_ackresponse();
  response.set_consumer_id(consumer_id);
  response.set_request_id(request_id);
  if (!status) {
    // Go takes an empty message for success, Java reads the message whenever there is an error.
    const ErrorInfo& info = error_info(status.code());
    response.set_error(static_cast<pulsar::proto::ServerError>(info.wire_code));
    response.set_message(status.message().empty() ? std::string(info.text) : status.message());
  }
  return encode_command(command);
}

}  // namespace geminga
