// GET_LAST_MESSAGE_ID: the last message that this consumer could get, and how far its subscription
// has acknowledged.
#include <algorithm>

#include "broker/call_on.h"
#include "broker/compacted_reads.h"
#include "broker/handlers/handlers.h"

namespace geminga {

namespace {

struct Answer {
  Topic::LastMessage last;
  std::int32_t partition = -1;
  std::optional<Position> mark_delete;
};

// On the topic's shard.
Task<Result<Answer>> find(Session::SoughtConsumer consumer) {
  auto topic = consumer.topic.lock();
  auto subscription = consumer.subscription.lock();
  if (!topic || !subscription) co_return Status::Metadata("Consumer not found");
  Answer answer;
  GM_CO_ASSIGN_OR_RETURN(answer.last, co_await topic->last_message_id());
  answer.partition = topic->name().partition_index();
  if (const ManagedCursor* cursor = subscription->cursor())
    answer.mark_delete = cursor->mark_delete();
  if (const CompactedReads* compacted = subscription->compacted_reads()) {
    answer.last = topic->compaction()->last_message(answer.last);
    answer.mark_delete = compacted->mark_delete();
    // Beyond the last message there is nothing to acknowledge; clients compare the two.
    if (answer.last.position.entry >= 0)
      answer.mark_delete = std::min(*answer.mark_delete, answer.last.position);
  }
  topic.reset();
  subscription.reset();
  co_return answer;
}

}  // namespace

Task<void> handle_last_message_id(std::shared_ptr<Session> session,
                                  pulsar::proto::BaseCommand command) {
  const auto& request = command.getlastmessageid();
  // A client that has just sought asks before it has subscribed again.
  auto consumer = session->consumer_or_sought(request.consumer_id());
  if (!consumer) {
    session->reply_error(request.request_id(), Status::Metadata("Consumer not found"));
    co_return;
  }
  auto work = [consumer = *consumer]() mutable { return find(std::move(consumer)); };
  const Result<Answer> found = co_await call_on(*consumer->shard, std::move(work));
  if (!found) co_return session->reply_error(request.request_id(), found.status());
  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::GET_LAST_MESSAGE_ID_RESPONSE);
  auto& response = *answer.mutable_getlastmessageidresponse();
  response.set_request_id(request.request_id());
  auto& last = *response.mutable_last_message_id();
  last.set_ledgerid(static_cast<std::uint64_t>(found->last.position.ledger));
  last.set_entryid(static_cast<std::uint64_t>(found->last.position.entry));
  last.set_partition(found->partition);
  last.set_batch_index(found->last.batch_index);
  if (found->mark_delete && found->mark_delete->ledger >= 0) {
    auto& mark_delete = *response.mutable_consumer_mark_delete_position();
    mark_delete.set_ledgerid(static_cast<std::uint64_t>(found->mark_delete->ledger));
    mark_delete.set_entryid(static_cast<std::uint64_t>(found->mark_delete->entry));
  }
  session->reply(answer);
}

}  // namespace geminga
