// What several groups of commands share.
#pragma once

#include <string>
#include <string_view>

#include "cli/admin/command.h"

namespace geminga::admin_cli {

// The body of both set-offload-policies; threshold and lag are there if they were given.
inline constexpr std::string_view kOffloadBody =
    R"({"offloadersDirectory":"./offloaders","managedLedgerOffloadDriver":"$driver","managedLedgerOffloadMaxThreads":2,"managedLedgerOffloadReadThreads":2,"managedLedgerOffloadPrefetchRounds":1,"managedLedgerOffloadThresholdInBytes":"$offloadThresholdInBytes","managedLedgerOffloadThresholdInSeconds":"$offloadThresholdInSeconds","managedLedgerOffloadDeletionLagInMillis":"$offloadDeletionLagInMillis","managedLedgerOffloadedReadPriority":"$offloadedReadPriority","s3ManagedLedgerOffloadRegion":"$region","s3ManagedLedgerOffloadBucket":"$bucket","s3ManagedLedgerOffloadServiceEndpoint":"$endpoint","s3ManagedLedgerOffloadMaxBlockSizeInBytes":"$maxBlockSizeInBytes","s3ManagedLedgerOffloadReadBufferSizeInBytes":"$readBufferSizeInBytes","s3ManagedLedgerOffloadCredentialId":"$aws-id","s3ManagedLedgerOffloadCredentialSecret":"$aws-secret","s3ManagedLedgerOffloadRole":"$s3-role","s3ManagedLedgerOffloadRoleSessionName":"$s3-role-session-name"})";

// To standard output, as it is.
void print_text(std::string_view text);

// "type    BacklogQuotaImpl(limit=...)" lines, as pulsar-admin prints a map of quotas.
std::string quota_lines(const std::string& body);
Status show_topic_backlog_quotas(Call& call);
Status show_namespace_backlog_quotas(Call& call);

}  // namespace geminga::admin_cli
