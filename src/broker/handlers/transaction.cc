// The commands of transactions (wire-protocol §11). Every answer names the coordinator
// (txnid_most_bits): Java finds the request by it. TC_CLIENT_CONNECT_REQUEST gets a plain ERROR
// where transactions are switched off; that is how clients learn of it.
#include "broker/broker.h"
#include "broker/handlers/handlers.h"
#include "broker/handlers/topic_access.h"
#include "broker/transactions.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

Status not_enabled() { return Status::NotAllowed("Transactions are not enabled."); }

template <typename Request>
TxnId txn_of(const Request& request) {
  return {request.txnid_most_bits(), request.txnid_least_bits()};
}

template <typename Response>
void put_error(Response& response, const Status& status) {
  if (status) return;
  const ErrorInfo& info = error_info(status.code());
  response.set_error(static_cast<pulsar::proto::ServerError>(info.wire_code));
  response.set_message(status.message().empty() ? std::string(info.text) : status.message());
}

// What all responses about one transaction have.
template <typename Response, typename Request>
void fill(Response& response, const Request& request, const Status& status) {
  response.set_request_id(request.request_id());
  response.set_txnid_least_bits(request.txnid_least_bits());
  response.set_txnid_most_bits(request.txnid_most_bits());
  put_error(response, status);
}

template <typename Request>
Result<Transactions::End> end_of(const Request& request) {
  if (!request.has_txn_action()) {
    return Status::InvalidTxnStatus("it must be said how the transaction ends");
  }
  Transactions::End end{txn_of(request), request.txn_action() == pulsar::proto::COMMIT, -1};
  if (request.has_txnid_least_bits_of_low_watermark()) {
    end.low_watermark = static_cast<std::int64_t>(request.txnid_least_bits_of_low_watermark());
  }
  return end;
}

}  // namespace

Task<void> handle_tc_client_connect(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.tcclientconnectrequest();
  const Status connected = co_await session->broker().transactions().connect(request.tc_id());
  if (connected.is(ErrorCode::NotAllowed)) {
    co_return session->reply_error(request.request_id(), connected);
  }
  BaseCommand answer;
  answer.set_type(BaseCommand::TC_CLIENT_CONNECT_RESPONSE);
  auto& response = *answer.mutable_tcclientconnectresponse();
  response.set_request_id(request.request_id());
  put_error(response, connected);
  session->reply(answer);
}

Task<void> handle_new_txn(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.newtxn();
  Transactions& transactions = session->broker().transactions();
  Result<TxnId> begun = not_enabled();
  if (transactions.enabled()) {
    constexpr std::uint64_t kLongest = 1'000'000'000'000;  // ms, 30 years
    const auto ttl = static_cast<std::int64_t>(std::min(request.txn_ttl_millis(), kLongest));
    begun = co_await transactions.begin(request.tc_id(), Millis(ttl), session->peer().role);
  }
  BaseCommand answer;
  answer.set_type(BaseCommand::NEW_TXN_RESPONSE);
  auto& response = *answer.mutable_newtxnresponse();
  response.set_request_id(request.request_id());
  response.set_txnid_most_bits(request.tc_id());
  if (begun) response.set_txnid_least_bits(begun->least_bits);
  put_error(response, begun.status());
  session->reply(answer);
}

// Names are kept as they came: whoever looks at the transaction finds his own again.
Task<void> handle_add_partition_to_txn(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.addpartitiontotxn();
  Transactions& transactions = session->broker().transactions();
  Status added = transactions.enabled() ? Status::ok() : not_enabled();
  std::vector<std::string> topics;
  for (const std::string& text : request.partitions()) {
    const Result<TopicName> name = parse_client_topic(text);
    if (!name && added) added = name.status();
    topics.push_back(text);
  }
  if (added) added = co_await transactions.add_topics(txn_of(request), std::move(topics));
  BaseCommand answer;
  answer.set_type(BaseCommand::ADD_PARTITION_TO_TXN_RESPONSE);
  fill(*answer.mutable_addpartitiontotxnresponse(), request, added);
  session->reply(answer);
}

Task<void> handle_add_subscription_to_txn(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.addsubscriptiontotxn();
  Transactions& transactions = session->broker().transactions();
  Status added = transactions.enabled() ? Status::ok() : not_enabled();
  std::vector<TxnSubscription> subscriptions;
  for (const auto& subscription : request.subscription()) {
    const Result<TopicName> name = parse_client_topic(subscription.topic());
    if (!name && added) added = name.status();
    subscriptions.push_back({subscription.topic(), subscription.subscription()});
  }
  if (added) {
    added = co_await transactions.add_subscriptions(txn_of(request), std::move(subscriptions));
  }
  BaseCommand answer;
  answer.set_type(BaseCommand::ADD_SUBSCRIPTION_TO_TXN_RESPONSE);
  fill(*answer.mutable_addsubscriptiontotxnresponse(), request, added);
  session->reply(answer);
}

Task<void> handle_end_txn(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.endtxn();
  Transactions& transactions = session->broker().transactions();
  Status ended = transactions.enabled() ? Status::ok() : not_enabled();
  if (ended && !request.has_txn_action()) {
    ended = Status::InvalidTxnStatus("END_TXN must say how the transaction ends");
  }
  if (ended) {
    ended =
        co_await transactions.end(txn_of(request), request.txn_action() == pulsar::proto::COMMIT);
  }
  BaseCommand answer;
  answer.set_type(BaseCommand::END_TXN_RESPONSE);
  fill(*answer.mutable_endtxnresponse(), request, ended);
  session->reply(answer);
}

Task<void> handle_end_txn_on_partition(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.endtxnonpartition();
  Transactions& transactions = session->broker().transactions();
  Status ended = transactions.enabled() ? Status::ok() : not_enabled();
  const auto end = end_of(request);
  if (ended) ended = end.status();
  if (ended) ended = co_await transactions.end_on_topic(request.topic(), *end);
  BaseCommand answer;
  answer.set_type(BaseCommand::END_TXN_ON_PARTITION_RESPONSE);
  fill(*answer.mutable_endtxnonpartitionresponse(), request, ended);
  session->reply(answer);
}

Task<void> handle_end_txn_on_subscription(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.endtxnonsubscription();
  Transactions& transactions = session->broker().transactions();
  Status ended = transactions.enabled() ? Status::ok() : not_enabled();
  const auto end = end_of(request);
  if (ended) ended = end.status();
  const TxnSubscription subscription{request.subscription().topic(),
                                     request.subscription().subscription()};
  if (ended) ended = co_await transactions.end_on_subscription(subscription, *end);
  BaseCommand answer;
  answer.set_type(BaseCommand::END_TXN_ON_SUBSCRIPTION_RESPONSE);
  fill(*answer.mutable_endtxnonsubscriptionresponse(), request, ended);
  session->reply(answer);
}

}  // namespace geminga
