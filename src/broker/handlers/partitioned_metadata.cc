// PARTITIONED_METADATA: how many partitions a topic has; 0 for none, or for one that may be
// created.
#include "broker/broker.h"
#include "broker/handlers/handlers.h"
#include "broker/handlers/topic_access.h"

namespace geminga {

Task<void> handle_partitioned_metadata(std::shared_ptr<Session> session,
                                       pulsar::proto::BaseCommand command) {
  using Response = pulsar::proto::CommandPartitionedTopicMetadataResponse;
  const auto& request = command.partitionmetadata();
  Result<std::int32_t> partitions = Status::Unknown("");
  const Result<TopicName> name = parse_client_topic(request.topic());
  if (!name) {
    partitions = name.status();
  } else {
    partitions = co_await session->broker().partition_metadata(
        *name, request.metadata_auto_creation_enabled());
  }
  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::PARTITIONED_METADATA_RESPONSE);
  auto& response = *answer.mutable_partitionmetadataresponse();
  response.set_request_id(request.request_id());
  if (partitions) {
    response.set_response(Response::Success);
    response.set_partitions(static_cast<std::uint32_t>(*partitions));
  } else {
    response.set_response(Response::Failed);
    response.set_error(
        static_cast<pulsar::proto::ServerError>(error_info(partitions.code()).wire_code));
    response.set_message(partitions.status().message());
  }
  session->reply(answer);
}

}  // namespace geminga
