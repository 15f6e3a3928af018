// The commands of the binary protocol, one file each or a small family. Each handler is a coroutine
// on the connection's shard, owned by the session's gate; it answers through the session, in the
// response type that its command has for failures too, and must expect that the session is closed
// whenever it comes back from a co_await. The table of commands is in handlers.cc.
#pragma once

#include <memory>

#include "PulsarApi.pb.h"
#include "broker/session.h"
#include "runtime/task.h"

namespace geminga {

using Handler = Task<void> (*)(std::shared_ptr<Session> session,
                               pulsar::proto::BaseCommand command);

// nullptr: not a command that a client may send.
Handler handler_of(pulsar::proto::BaseCommand::Type type);

// connect.cc
void handle_connect(Session& session, const pulsar::proto::BaseCommand& command);
Task<void> handle_auth_response(std::shared_ptr<Session> session,
                                pulsar::proto::BaseCommand command);
// partitioned_metadata.cc, lookup.cc
Task<void> handle_partitioned_metadata(std::shared_ptr<Session> session,
                                       pulsar::proto::BaseCommand command);
Task<void> handle_lookup(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
// topics_of_namespace.cc, watch_topic_list.cc
Task<void> handle_topics_of_namespace(std::shared_ptr<Session> session,
                                      pulsar::proto::BaseCommand command);
Task<void> handle_watch_topic_list(std::shared_ptr<Session> session,
                                   pulsar::proto::BaseCommand command);
Task<void> handle_watch_topic_list_close(std::shared_ptr<Session> session,
                                         pulsar::proto::BaseCommand command);
// producer.cc
Task<void> handle_producer(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_close_producer(std::shared_ptr<Session> session,
                                 pulsar::proto::BaseCommand command);
// subscribe.cc
Task<void> handle_subscribe(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_close_consumer(std::shared_ptr<Session> session,
                                 pulsar::proto::BaseCommand command);
// unsubscribe.cc, seek.cc, consumer_stats.cc, last_message_id.cc
Task<void> handle_unsubscribe(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_seek(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_consumer_stats(std::shared_ptr<Session> session,
                                 pulsar::proto::BaseCommand command);
Task<void> handle_last_message_id(std::shared_ptr<Session> session,
                                  pulsar::proto::BaseCommand command);
// schema.cc
Task<void> handle_get_schema(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_get_or_create_schema(std::shared_ptr<Session> session,
                                       pulsar::proto::BaseCommand command);
// transaction.cc
Task<void> handle_tc_client_connect(std::shared_ptr<Session> session,
                                    pulsar::proto::BaseCommand command);
Task<void> handle_new_txn(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_add_partition_to_txn(std::shared_ptr<Session> session,
                                       pulsar::proto::BaseCommand command);
Task<void> handle_add_subscription_to_txn(std::shared_ptr<Session> session,
                                          pulsar::proto::BaseCommand command);
Task<void> handle_end_txn(std::shared_ptr<Session> session, pulsar::proto::BaseCommand command);
Task<void> handle_end_txn_on_partition(std::shared_ptr<Session> session,
                                       pulsar::proto::BaseCommand command);
Task<void> handle_end_txn_on_subscription(std::shared_ptr<Session> session,
                                          pulsar::proto::BaseCommand command);
// not_built.cc: commands that are known and answered with NotAllowedError
Task<void> handle_scalable_topic_command(std::shared_ptr<Session> session,
                                         pulsar::proto::BaseCommand command);

}  // namespace geminga
