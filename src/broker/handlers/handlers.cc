#include "broker/handlers/handlers.h"

namespace geminga {

namespace {
using pulsar::proto::BaseCommand;

struct Row {
  BaseCommand::Type type;
  Handler handler;
};

// CONNECT, PING, PONG, SEND, ACK, FLOW and REDELIVER_UNACKNOWLEDGED_MESSAGES are handled by the
// session itself.
constexpr Row kHandlers[] = {
    {BaseCommand::AUTH_RESPONSE, handle_auth_response},
    {BaseCommand::PARTITIONED_METADATA, handle_partitioned_metadata},
    {BaseCommand::LOOKUP, handle_lookup},
    {BaseCommand::GET_TOPICS_OF_NAMESPACE, handle_topics_of_namespace},
    {BaseCommand::WATCH_TOPIC_LIST, handle_watch_topic_list},
    {BaseCommand::WATCH_TOPIC_LIST_CLOSE, handle_watch_topic_list_close},
    {BaseCommand::PRODUCER, handle_producer},
    {BaseCommand::CLOSE_PRODUCER, handle_close_producer},
    {BaseCommand::SUBSCRIBE, handle_subscribe},
    {BaseCommand::CLOSE_CONSUMER, handle_close_consumer},
    {BaseCommand::UNSUBSCRIBE, handle_unsubscribe},
    {BaseCommand::SEEK, handle_seek},
    {BaseCommand::CONSUMER_STATS, handle_consumer_stats},
    {BaseCommand::GET_LAST_MESSAGE_ID, handle_last_message_id},
    {BaseCommand::GET_SCHEMA, handle_get_schema},
    {BaseCommand::GET_OR_CREATE_SCHEMA, handle_get_or_create_schema},
    {BaseCommand::TC_CLIENT_CONNECT_REQUEST, handle_tc_client_connect},
    {BaseCommand::NEW_TXN, handle_new_txn},
    {BaseCommand::ADD_PARTITION_TO_TXN, handle_add_partition_to_txn},
    {BaseCommand::ADD_SUBSCRIPTION_TO_TXN, handle_add_subscription_to_txn},
    {BaseCommand::END_TXN, handle_end_txn},
    {BaseCommand::END_TXN_ON_PARTITION, handle_end_txn_on_partition},
    {BaseCommand::END_TXN_ON_SUBSCRIPTION, handle_end_txn_on_subscription},
    {BaseCommand::SCALABLE_TOPIC_LOOKUP, handle_scalable_topic_command},
    {BaseCommand::SCALABLE_TOPIC_CLOSE, handle_scalable_topic_command},
    {BaseCommand::SCALABLE_TOPIC_SUBSCRIBE, handle_scalable_topic_command},
    {BaseCommand::WATCH_SCALABLE_TOPICS, handle_scalable_topic_command},
    {BaseCommand::WATCH_SCALABLE_TOPICS_CLOSE, handle_scalable_topic_command},
    {BaseCommand::WATCH_TC_ASSIGNMENTS, handle_scalable_topic_command},
    {BaseCommand::WATCH_TC_ASSIGNMENTS_CLOSE, handle_scalable_topic_command},
};

}  // namespace

Handler handler_of(BaseCommand::Type type) {
  for (const Row& row : kHandlers) {
    if (row.type == type) return row.handler;
  }
  return nullptr;
}

}  // namespace geminga
