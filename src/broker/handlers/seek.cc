// SEEK. Clients rely on the order CLOSE_CONSUMER, then SUCCESS, then subscribe again: both go out
// through the consumer's outbox. A client may seek once more before it has subscribed again.
#include "broker/call_on.h"
#include "broker/handlers/handlers.h"
#include "wire/command.h"

namespace geminga {

namespace {

struct Target {
  std::optional<std::int64_t> time_ms;
  Position position;
  AckSet remaining;
};

// On the topic's shard. Keeps the topic alive.
Task<Status> seek(Session::SoughtConsumer consumer, std::uint64_t request_id, Target target) {
  auto topic = consumer.topic.lock();
  auto subscription = consumer.subscription.lock();
  if (!topic || !subscription) co_return Status::Metadata("Consumer not found");
  Status status;
  if (target.time_ms) {
    status = co_await subscription->seek_to_time(*target.time_ms);
  } else {
    status = co_await subscription->seek(target.position, std::move(target.remaining));
  }
  if (status) {
    pulsar::proto::BaseCommand success;
    success.set_type(pulsar::proto::BaseCommand::SUCCESS);
    success.mutable_success()->set_request_id(request_id);
    consumer.outbox->send_frame(encode_command(success));
  }
  subscription.reset();
  topic.reset();
  co_return status;
}

}  // namespace

Task<void> handle_seek(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command) {
  const auto& request = command.seek();
  Target target;
  if (request.has_message_id()) {
    const auto& id = request.message_id();
    target.position = {static_cast<std::int64_t>(id.ledgerid()),
                       static_cast<std::int64_t>(id.entryid())};
    for (const std::int64_t word : id.ack_set())
      target.remaining.push_back(static_cast<std::uint64_t>(word));
  } else if (request.has_message_publish_time()) {
    target.time_ms = static_cast<std::int64_t>(request.message_publish_time());
  } else {
    session->reply_error(request.request_id(),
                         Status::Metadata("Message id and message publish time were not present"));
    co_return;
  }
  const std::uint64_t id = request.consumer_id();
  auto consumer = session->consumer_or_sought(id);
  if (!consumer) {
    session->reply_error(request.request_id(), Status::Metadata("Consumer not found"));
    co_return;
  }
  session->remember_sought(id, *consumer);
  auto work = [consumer = *consumer, request_id = request.request_id(),
               target = std::move(target)]() mutable {
    return seek(std::move(consumer), request_id, std::move(target));
  };
  const Status status = co_await call_on(*consumer->shard, std::move(work));
  if (!status) {
    session->reply_error(request.request_id(),
                         Status::Unknown("Error when resetting subscription: " + status.message()));
  }
}

}  // namespace geminga
