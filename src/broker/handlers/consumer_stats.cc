// CONSUMER_STATS. Failures are answered in the response itself; the C++ client takes a set
// error_code for one.
#include "broker/call_on.h"
#include "broker/handlers/handlers.h"

namespace geminga {

namespace {

struct Answer {
  ConsumerStats consumer;
  SubscriptionStats subscription;
};

}  // namespace

Task<void> handle_consumer_stats(std::shared_ptr<Session> session,
                                 pulsar::proto::BaseCommand command) {
  const auto& request = command.consumerstats();
  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::CONSUMER_STATS_RESPONSE);
  auto& response = *answer.mutable_consumerstatsresponse();
  response.set_request_id(request.request_id());
  const Session::ConsumerSlot* slot = session->consumer(request.consumer_id());
  if (slot == nullptr) {
    response.set_error_code(pulsar::proto::ConsumerNotFound);
    response.set_error_message("Consumer not found");
    session->reply(answer);
    co_return;
  }
  auto work = [subscription = slot->subscription, consumer = slot->consumer,
               topic = slot->topic]() -> Task<Answer> {
    Answer found;
    found.consumer = subscription->stats_of(*consumer);
    found.subscription = subscription->stats();
    co_return found;
  };
  const Answer stats = co_await call_on(*slot->shard, std::move(work));
  response.set_msgrateout(stats.consumer.msg_rate_out);
  response.set_msgthroughputout(stats.consumer.msg_throughput_out);
  response.set_msgrateredeliver(stats.consumer.msg_rate_redeliver);
  response.set_consumername(stats.consumer.consumer_name);
  response.set_availablepermits(static_cast<std::uint64_t>(stats.consumer.available_permits));
  response.set_unackedmessages(static_cast<std::uint64_t>(stats.consumer.unacked_messages));
  response.set_blockedconsumeronunackedmsgs(stats.consumer.blocked_on_unacked);
  response.set_address(stats.consumer.address);
  response.set_connectedsince(stats.consumer.connected_since);
  response.set_type(
      std::string(to_string(stats.subscription.type.value_or(SubscriptionType::Exclusive))));
  response.set_msgrateexpired(0);
  response.set_msgbacklog(static_cast<std::uint64_t>(stats.subscription.msg_backlog));
  response.set_messageackrate(stats.consumer.message_ack_rate);
  session->reply(answer);
}

}  // namespace geminga
