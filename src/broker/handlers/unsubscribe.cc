// UNSUBSCRIBE: the consumer leaves and its subscription is deleted.
#include "broker/call_on.h"
#include "broker/handlers/handlers.h"

namespace geminga {

namespace {

// On the topic's shard.
Task<Status> unsubscribe(std::shared_ptr<Topic> topic, std::shared_ptr<Subscription> subscription,
                         std::shared_ptr<Consumer> consumer, bool force) {
  GM_CO_RETURN_IF_ERROR(co_await subscription->prepare_unsubscribe(consumer, force));
  const std::string name = subscription->name();
  subscription->remove_consumer(consumer);
  const Status deleted = co_await topic->delete_subscription(name, force);
  // A non-durable subscription ended with its last consumer.
  if (deleted.is(ErrorCode::SubscriptionNotFound) || deleted.is(ErrorCode::NotFound))
    co_return Status::ok();
  co_return deleted;
}

}  // namespace

Task<void> handle_unsubscribe(std::shared_ptr<Session> session,
                              pulsar::proto::BaseCommand command) {
  const auto& request = command.unsubscribe();
  const Session::ConsumerSlot* slot = session->consumer(request.consumer_id());
  if (slot == nullptr) {
    session->reply_error(request.request_id(), Status::Metadata("Consumer not found"));
    co_return;
  }
  const std::uint64_t generation = slot->generation;
  Shard* shard = slot->shard;
  auto work = [topic = slot->topic, subscription = slot->subscription, consumer = slot->consumer,
               force = request.force()]() mutable {
    return unsubscribe(std::move(topic), std::move(subscription), std::move(consumer), force);
  };
  const Status status = co_await call_on(*shard, std::move(work));
  if (!status) {
    session->reply_error(request.request_id(), status);
    co_return;
  }
  if (Session::ConsumerSlot* left = session->consumer(request.consumer_id(), generation)) {
    if (!shard->is_current()) shard->post([slot = std::move(*left)] {});
    session->consumers().erase(request.consumer_id());
  }
  session->reply_success(request.request_id());
}

}  // namespace geminga
