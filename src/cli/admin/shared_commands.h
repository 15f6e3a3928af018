// What several groups of commands share.
#pragma once

#include <string>
#include <string_view>

#include "cli/admin/command.h"

namespace geminga::admin_cli {

// Bodies that `namespaces set-...` and `topicPolicies set-...` send alike.
inline constexpr std::string_view kRateBody =
    R"({"dispatchThrottlingRateInMsg":"$msg-dispatch-rate","dispatchThrottlingRateInByte":"$byte-dispatch-rate","relativeToPublishRate":"$relative-to-publish-rate","ratePeriodInSecond":"$dispatch-rate-period"})";
inline constexpr std::string_view kQuotaBody =
    R"({"limit":"$limit","limitSize":"$limit","limitTime":"$limitTime","policy":"$policy"})";
inline constexpr std::string_view kPersistenceBody =
    R"({"bookkeeperEnsemble":"$bookkeeper-ensemble","bookkeeperWriteQuorum":"$bookkeeper-write-quorum","bookkeeperAckQuorum":"$bookkeeper-ack-quorum","managedLedgerMaxMarkDeleteRate":"$ml-mark-delete-max-rate","managedLedgerStorageClassName":"$ml-storage-class"})";
inline constexpr std::string_view kRetentionBody =
    R"({"retentionTimeInMinutes":"$time","retentionSizeInMB":"$size"})";
inline constexpr std::string_view kSubscribeRateBody =
    R"({"subscribeThrottlingRatePerConsumer":"$subscribe-rate","ratePeriodInSecond":"$subscribe-rate-period"})";
inline constexpr std::string_view kPublishRateBody =
    R"({"publishThrottlingRateInMsg":"$msg-publish-rate","publishThrottlingRateInByte":"$byte-publish-rate"})";
inline constexpr std::string_view kDelayedBody =
    R"({"tickTime":"$time","active":"$on","maxDeliveryDelayInMillis":"$maxDelay"})";
inline constexpr std::string_view kInactiveBody =
    R"({"inactiveTopicDeleteMode":"$delete-mode","maxInactiveDurationSeconds":"$max-inactive-duration","deleteWhileInactive":"$on"})";
// The body of both set-offload-policies; threshold and lag are there if they were given.
inline constexpr std::string_view kOffloadBody =
    R"({"offloadersDirectory":"./offloaders","managedLedgerOffloadDriver":"$driver","managedLedgerOffloadMaxThreads":2,"managedLedgerOffloadReadThreads":2,"managedLedgerOffloadPrefetchRounds":1,"managedLedgerOffloadThresholdInBytes":"$offloadThresholdInBytes","managedLedgerOffloadThresholdInSeconds":"$offloadThresholdInSeconds","managedLedgerOffloadDeletionLagInMillis":"$offloadDeletionLagInMillis","managedLedgerOffloadedReadPriority":"$offloadedReadPriority","s3ManagedLedgerOffloadRegion":"$region","s3ManagedLedgerOffloadBucket":"$bucket","s3ManagedLedgerOffloadServiceEndpoint":"$endpoint","s3ManagedLedgerOffloadMaxBlockSizeInBytes":"$maxBlockSizeInBytes","s3ManagedLedgerOffloadReadBufferSizeInBytes":"$readBufferSizeInBytes","s3ManagedLedgerOffloadCredentialId":"$aws-id","s3ManagedLedgerOffloadCredentialSecret":"$aws-secret","s3ManagedLedgerOffloadRole":"$s3-role","s3ManagedLedgerOffloadRoleSessionName":"$s3-role-session-name"})";

// To standard output, as it is.
void print_text(std::string_view text);

// Asks on standard error and reads the answer, y or n, from standard input. InvalidArgument unless
// it is y; `way_out` says how to do without the question.
Status confirm(std::string_view question, std::string_view way_out);

// "type    BacklogQuotaImpl(limit=...)" lines, as pulsar-admin prints a map of quotas.
std::string quota_lines(const std::string& body);
Status show_topic_backlog_quotas(Call& call);
Status show_namespace_backlog_quotas(Call& call);

}  // namespace geminga::admin_cli
