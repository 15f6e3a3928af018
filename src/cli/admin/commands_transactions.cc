// `transactions`.
#include "cli/admin/arguments.h"
#include "cli/admin/command.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

// --topic as "tenant/namespace/topic".
Status show_of_topic(Call& call, std::string_view before, std::string_view behind) {
  GM_ASSIGN_OR_RETURN(const std::string path,
                      topic_path(std::string(call.values.at("topic").as_string())));
  const std::string target = "/admin/v3/transactions/" + std::string(before) + "/" +
                             path.substr(path.find('/') + 1) + make_target(behind, call.values);
  GM_ASSIGN_OR_RETURN(const Answer answer, call.client.must("GET", target));
  print_text(render(Print::Json, answer.body, !call.as_json));
  return Status::ok();
}

constexpr std::string_view kTxn = "-m,--most-sig-bits:int! -l,--least-sig-bits:int!";
#define TXN "/{most-sig-bits}/{least-sig-bits}"

constexpr Command kCommands[] = {
    {"coordinator-stats",
     "-c,--coordinator-id:int",
     "GET /admin/v3/transactions/coordinatorStats?coordinatorId={coordinator-id}",
     {},
     Print::Json,
     "Shows the transaction coordinators"},
    {"coordinator-internal-stats",
     "-c,--coordinator-id:int! -m,--metadata",
     "GET /admin/v3/transactions/coordinatorInternalStats/{coordinator-id}?metadata={metadata}",
     {},
     Print::Json,
     "Shows the log of a coordinator"},
    {"coordinators-list",
     "",
     {},
     {},
     Print::Nothing,
     "Lists the coordinators",
     [](Call& call) {
       GM_ASSIGN_OR_RETURN(const Answer answer,
                           call.client.must("GET", "/admin/v3/transactions/coordinators"));
       GM_ASSIGN_OR_RETURN(const json::value list, parse_json(answer.body));
       for (const json::value& each : list.as_array()) {
         print_text(plain(each.at("id")) + "    " + plain(each.at("brokerServiceUrl")) + "\n");
       }
       return Status::ok();
     }},
    {"pending-ack-internal-stats",
     "-t,--topic:text! -s,--subscription-name:text! -m,--metadata",
     {},
     {},
     Print::Nothing,
     "Shows the log of a subscription's pending acknowledgements",
     [](Call& call) {
       return show_of_topic(call, "pendingAckInternalStats",
                            "/{subscription-name}?metadata={metadata}");
     }},
    {"buffer-snapshot-internal-stats",
     "-t,--topic:text! -m,--metadata",
     {},
     {},
     Print::Nothing,
     "Shows the snapshots of a topic's transaction buffer",
     [](Call& call) {
       return show_of_topic(call, "transactionBufferInternalStats", "?metadata={metadata}");
     }},
    {"transaction-buffer-stats",
     "-t,--topic:text! -l,--low-water-mark -s,--segment-stats",
     {},
     {},
     Print::Nothing,
     "Shows the transaction buffer of a topic",
     [](Call& call) {
       return show_of_topic(call, "transactionBufferStats",
                            "?lowWaterMarks={low-water-mark}&segmentStats={segment-stats}");
     }},
    {"pending-ack-stats",
     "-t,--topic:text! -s,--sub-name:text! -l,--low-water-mark",
     {},
     {},
     Print::Nothing,
     "Shows the pending acknowledgements of a subscription",
     [](Call& call) {
       return show_of_topic(call, "pendingAckStats", "/{sub-name}?lowWaterMarks={low-water-mark}");
     }},
    {"transaction-in-buffer-stats",
     "-t,--topic:text! -m,--most-sig-bits:int! -l,--least-sig-bits:int!",
     {},
     {},
     Print::Nothing,
     "Shows what a transaction has published to a topic",
     [](Call& call) { return show_of_topic(call, "transactionInBufferStats", TXN); }},
    {"transaction-in-pending-ack-stats",
     "-t,--topic:text! -s,--sub-name:text! -m,--most-sig-bits:int! -l,--least-sig-bits:int!",
     {},
     {},
     Print::Nothing,
     "Shows what a transaction has acknowledged",
     [](Call& call) {
       return show_of_topic(call, "transactionInPendingAckStats", "/{sub-name}" TXN);
     }},
    {"position-stats-in-pending-ack",
     "-t,--topic:text! -s,--subscription-name:text! -l,--ledger-id:int! -e,--entry-id:int! "
     "-b,--batch-index:int",
     {},
     {},
     Print::Nothing,
     "Shows how a transaction holds a message",
     [](Call& call) {
       return show_of_topic(call, "positionStatsInPendingAck",
                            "/{subscription-name}/{ledger-id}/{entry-id}?batchIndex={batch-index}");
     }},
    {"transaction-metadata",
     kTxn,
     "GET /admin/v3/transactions/transactionMetadata" TXN,
     {},
     Print::Json,
     "Shows a transaction"},
    {"slow-transactions",
     "-t,--time:ms! -c,--coordinator-id:int",
     "GET /admin/v3/transactions/slowTransactions/{time}?coordinatorId={coordinator-id}",
     {},
     Print::Json,
     "Lists transactions that have been open for long"},
    {"scale-transactionCoordinators", "-r,--replicas:int!",
     "POST /admin/v3/transactions/transactionCoordinator/replicas", R"("$replicas")",
     Print::Nothing, "Raises the number of coordinators"},
    {"abort-transaction",
     kTxn,
     "POST /admin/v3/transactions/abortTransaction" TXN,
     {},
     Print::Nothing,
     "Aborts a transaction"},
};
#undef TXN

}  // namespace

Group transactions_group() { return {"transactions", "Transactions", kCommands}; }

}  // namespace geminga::admin_cli
