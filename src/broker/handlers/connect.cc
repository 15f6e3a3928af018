// CONNECT: learns who the client is and answers CONNECTED. Authentication is off in this release,
// so no AUTH_CHALLENGE is ever sent and an AUTH_RESPONSE is out of place.
#include <algorithm>

#include "base/config.h"
#include "broker/broker.h"
#include "broker/handlers/handlers.h"

namespace geminga {

namespace {
constexpr std::int32_t kProtocolVersion = 21;
// What clients print and some compare with; the release whose behaviour we answer for.
constexpr char kServerVersion[] = "Pulsar Server4.0.8";
}  // namespace

void handle_connect(Session& session, const pulsar::proto::BaseCommand& command) {
  const auto& connect = command.connect();
  PeerInfo peer;
  peer.client_version = connect.client_version();
  peer.protocol_version = std::min(connect.protocol_version(), kProtocolVersion);
  peer.supports_broker_entry_metadata =
      connect.feature_flags().supports_broker_entry_metadata() && peer.protocol_version >= 18 &&
      session.broker().config().exposing_broker_entry_metadata_to_client_enabled;
  peer.supports_partial_producer = connect.feature_flags().supports_partial_producer();
  const std::int32_t version = peer.protocol_version;
  session.connected(std::move(peer));

  pulsar::proto::BaseCommand answer;
  answer.set_type(pulsar::proto::BaseCommand::CONNECTED);
  auto& connected = *answer.mutable_connected();
  connected.set_server_version(kServerVersion);
  connected.set_protocol_version(version);
  connected.set_max_message_size(static_cast<std::int32_t>(session.settings().max_message_size));
  auto& flags = *connected.mutable_feature_flags();
  flags.set_supports_topic_watchers(
      session.broker().config().enable_broker_side_subscription_pattern_evaluation);
  flags.set_supports_get_partitioned_metadata_without_auto_creation(true);
  flags.set_supports_repl_dedup_by_lid_and_eid(true);
  session.reply(answer);
}

Task<void> handle_auth_response(std::shared_ptr<Session> session, pulsar::proto::BaseCommand) {
  session->close("AUTH_RESPONSE without a challenge");
  co_return;
}

}  // namespace geminga
