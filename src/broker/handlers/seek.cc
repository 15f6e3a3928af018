// SEEK. Clients rely on the order CLOSE_CONSUMER, then SUCCESS, then subscribe again: both go out
// through the consumer's outbox.
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

// On the topic's shard. Keeps `topic` alive.
Task<Status> seek(std::shared_ptr<Topic> topic, std::shared_ptr<Subscription> subscription,
                  std::shared_ptr<ShardOutbox> outbox, std::uint64_t request_id, Target target) {
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
    outbox->send_frame(encode_command(success));
  }
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
  const Session::ConsumerSlot* slot = session->consumer(request.consumer_id());
  if (slot == nullptr) {
    session->reply_error(request.request_id(), Status::Metadata("Consumer not found"));
    co_return;
  }
  auto work = [topic = slot->topic, subscription = slot->subscription, outbox = slot->outbox,
               request_id = request.request_id(), target = std::move(target)]() mutable {
    return seek(std::move(topic), std::move(subscription), std::move(outbox), request_id,
                std::move(target));
  };
  const Status status = co_await call_on(*slot->shard, std::move(work));
  if (!status) {
    session->reply_error(request.request_id(),
                         Status::Unknown("Error when resetting subscription: " + status.message()));
  }
}

}  // namespace geminga
