// `functions`, `sources`, `sinks`, `functions-worker`, `packages`. Their command lines are taken as
// pulsar-admin takes them; what would send code to a worker is refused until there is one.
#include "cli/admin/command.h"
#include "cli/admin/request.h"

namespace geminga::admin_cli {

namespace {

// The broker says what it lacks; if it has a worker (it is not ours), the command is missing here.
Status needs_worker(Call& call) {
  GM_RETURN_IF_ERROR(call.client.must("GET", "/admin/v3/functions/public/default").status());
  return Status::Unsupported(
      "this command sends code to a functions worker, which geminga admin cannot do yet; use "
      "Pulsar's own pulsar-admin");
}

#define NAMED "--tenant:text=public --namespace:text=default --name:text! "
#define IN_ALL "--tenant:text=public --namespace:text=default"
#define INSTANCE NAMED "--instance-id:int"
#define RUN                                                                               \
  " --broker-service-url:text --web-service-url:text --client-auth-params:text "          \
  "--client-auth-plugin:text --hostname-verification-enabled --instance-id-offset:int "   \
  "--metrics-port-start:text --runtime:text --secrets-provider-classname:text "           \
  "--secrets-provider-config:text --state-storage-service-url:text --tls-allow-insecure " \
  "--tls-trust-cert-path:text --use-tls"
#define COMMON                                                                                  \
  "--tenant:text --namespace:text --name:text --classname:text --cpu:num --ram:int --disk:int " \
  "--parallelism:int --processing-guarantees:text --log-topic:text --secrets:text "             \
  "--custom-runtime-options:text --runtime-flags:text -st,--schema-type:text "
#define INPUTS                                                                               \
  "--auto-ack:text --cleanup-subscription:text --custom-schema-inputs:text "                 \
  "--custom-serde-inputs:text --dead-letter-topic:text -i,--inputs:list --input-specs:text " \
  "--retain-key-ordering --retain-ordering --subs-name:text --subs-position:text "           \
  "--timeout-ms:int --topics-pattern:text "

constexpr std::string_view kFunction = COMMON INPUTS
    "--fqfn:text --batch-builder:text --custom-schema-outputs:text "
    "--forward-source-message-property:text --function-config-file:text --go:text --jar:text "
    "--py:text --input-type-class-name:text --max-message-retries:int -o,--output:text "
    "--output-serde-classname:text --output-type-class-name:text --producer-config:text "
    "--skip-to-latest:text --sliding-interval-count:int --sliding-interval-duration-ms:int "
    "-t,--function-type:text --user-config:text --window-length-count:int "
    "--window-length-duration-ms:int --update-auth-data" RUN;
constexpr std::string_view kSource = COMMON
    "-a,--archive:text --batch-builder:text --batch-source-config:text "
    "--deserialization-classname:text --destination-topic-name:text --producer-config:text "
    "--source-config:text --source-config-file:text -t,--source-type:text "
    "--update-auth-data" RUN;
constexpr std::string_view kSink = COMMON INPUTS
    "-a,--archive:text --max-redeliver-count:int --negative-ack-redelivery-delay-ms:int "
    "--sink-config:text --sink-config-file:text -t,--sink-type:text --transform-function:text "
    "--transform-function-classname:text --transform-function-config:text "
    "--update-auth-data" RUN;

#define FN "/admin/v3/functions/{tenant}/{namespace}"
constexpr Command kFunctions[] = {
    {"create", kFunction, {}, {}, Print::Nothing, "Creates a function", needs_worker},
    {"update", kFunction, {}, {}, Print::Nothing, "Updates a function", needs_worker},
    {"localrun", kFunction, {}, {}, Print::Nothing, "Runs a function here", needs_worker},
    {"delete",
     NAMED "--fqfn:text",
     "DELETE " FN "/{name}",
     {},
     Print::Nothing,
     "Deletes a function"},
    {"get", NAMED "--fqfn:text", "GET " FN "/{name}", {}, Print::Json, "Shows a function"},
    {"restart", INSTANCE, "POST " FN "/{name}/restart", {}, Print::Nothing, "Restarts a function"},
    {"stop", INSTANCE, "POST " FN "/{name}/stop", {}, Print::Nothing, "Stops a function"},
    {"start", INSTANCE, "POST " FN "/{name}/start", {}, Print::Nothing, "Starts a function"},
    {"status|getstatus",
     INSTANCE,
     "GET " FN "/{name}/status",
     {},
     Print::Json,
     "Shows how a function's instances are"},
    {"stats",
     INSTANCE,
     "GET " FN "/{name}/stats",
     {},
     Print::Json,
     "Shows the statistics of a function"},
    {"list", IN_ALL, "GET " FN, {}, Print::Lines, "Lists the functions of a namespace"},
    {"querystate",
     NAMED "-k,--key:text! -w,--watch",
     "GET " FN "/{name}/state/{key}",
     {},
     Print::Json,
     "Shows a value of a function's state"},
    {"putstate",
     NAMED "-s,--state:text!",
     {},
     {},
     Print::Nothing,
     "Puts a value into a function's state",
     needs_worker},
    {"trigger",
     NAMED "--topic:text --trigger-file:text --trigger-value:text",
     {},
     {},
     Print::Nothing,
     "Sends a message to a function and shows its answer",
     needs_worker},
    {"upload",
     "--path:text! --source-file:text!",
     {},
     {},
     Print::Nothing,
     "Uploads a file to the worker",
     needs_worker},
    {"download",
     "--destination-file:text! --path:text --tenant:text --namespace:text --name:text "
     "--transform-function",
     {},
     {},
     Print::Nothing,
     "Downloads a file from the worker",
     needs_worker},
    {"reload",
     "",
     "PUT /admin/v3/functions/builtins/reload",
     {},
     Print::Nothing,
     "Looks for built-in functions again"},
    {"available-functions",
     "",
     "GET /admin/v3/functions/builtins",
     {},
     Print::Json,
     "Lists the built-in functions"},
};
#undef FN

#define IO(kind) "/admin/v3/" kind "/{tenant}/{namespace}"
#define CONNECTORS(kind, arguments, noun, builtins)                                                \
  {"create", arguments, {}, {}, Print::Nothing, "Creates a " noun, needs_worker},                  \
      {"update", arguments, {}, {}, Print::Nothing, "Updates a " noun, needs_worker},              \
      {"localrun", arguments, {}, {}, Print::Nothing, "Runs a " noun " here", needs_worker},       \
      {"delete", NAMED, "DELETE " IO(kind) "/{name}", {}, Print::Nothing, "Deletes a " noun},      \
      {"get", NAMED, "GET " IO(kind) "/{name}", {}, Print::Json, "Shows a " noun},                 \
      {"list", IN_ALL, "GET " IO(kind), {}, Print::Lines, "Lists the " noun "s of a namespace"},   \
      {"status|getstatus",                                                                         \
       INSTANCE,                                                                                   \
       "GET " IO(kind) "/{name}/status",                                                           \
       {},                                                                                         \
       Print::Json,                                                                                \
       "Shows how the instances of a " noun " are"},                                               \
      {"stop", INSTANCE, "POST " IO(kind) "/{name}/stop", {}, Print::Nothing, "Stops a " noun},    \
      {"start", INSTANCE, "POST " IO(kind) "/{name}/start", {}, Print::Nothing, "Starts a " noun}, \
      {"restart", INSTANCE,       "POST " IO(kind) "/{name}/restart",                              \
       {},        Print::Nothing, "Restarts a " noun},                                             \
      {"available-" noun "s",         "", "GET /admin/v3/" kind "/" builtins, {}, Print::Json,     \
       "Lists the built-in " noun "s"},                                                            \
  {                                                                                                \
    "reload", "", "POST /admin/v3/" kind "/reloadBuiltIn" builtins, {}, Print::Nothing,            \
        "Looks for built-in " noun "s again"                                                       \
  }

constexpr Command kSources[] = {CONNECTORS("source", kSource, "source", "builtinsources")};
constexpr Command kSinks[] = {CONNECTORS("sink", kSink, "sink", "builtinsinks")};
#undef IO
#undef CONNECTORS
#undef NAMED
#undef IN_ALL
#undef INSTANCE
#undef RUN
#undef COMMON
#undef INPUTS

constexpr Command kWorker[] = {
    {"function-stats",
     "",
     "GET /admin/v2/worker-stats/functionsmetrics",
     {},
     Print::Json,
     "Shows the statistics of all functions"},
    {"monitoring-metrics",
     "",
     "GET /admin/v2/worker-stats/metrics",
     {},
     Print::Json,
     "Shows the metrics of the worker"},
    {"get-cluster", "", "GET /admin/v2/worker/cluster", {}, Print::Json, "Lists the workers"},
    {"get-cluster-leader",
     "",
     "GET /admin/v2/worker/cluster/leader",
     {},
     Print::Json,
     "Shows the leader of the workers"},
    {"get-function-assignments",
     "",
     "GET /admin/v2/worker/assignments",
     {},
     Print::Map,
     "Shows which worker runs what"},
    {"rebalance",
     "",
     "PUT /admin/v2/worker/rebalance",
     {},
     Print::Nothing,
     "Shares the functions out again"},
};

// The broker says that it keeps no packages; one that does is not ours.
Status needs_packages(Call& call) {
  GM_RETURN_IF_ERROR(
      call.client.must("GET", "/admin/v3/packages/function/public/default").status());
  return Status::Unsupported(
      "geminga admin does not transfer packages yet; use Pulsar's own pulsar-admin");
}
constexpr Command kPackages[] = {
    {"get-metadata", "<package>", {}, {}, Print::Nothing, "Shows a package", needs_packages},
    {"update-metadata",
     "<package> -d,--description:text! -c,--contact:text -P,--properties:map",
     {},
     {},
     Print::Nothing,
     "Changes what is said about a package",
     needs_packages},
    {"upload",
     "<package> --description:text! --path:text! --contact:text -P,--properties:map",
     {},
     {},
     Print::Nothing,
     "Uploads a package",
     needs_packages},
    {"download",
     "<package> --path:text!",
     {},
     {},
     Print::Nothing,
     "Downloads a package",
     needs_packages},
    {"list",
     "namespace --type:text!",
     "GET /admin/v3/packages/{type}/{namespace}",
     {},
     Print::Lines,
     "Lists the packages of a namespace"},
    {"list-versions",
     "<package>",
     {},
     {},
     Print::Nothing,
     "Lists the versions of a package",
     needs_packages},
    {"delete", "<package>", {}, {}, Print::Nothing, "Deletes a package", needs_packages},
};

}  // namespace

Group functions_group() { return {"functions", "Functions (no worker yet)", kFunctions}; }
Group sources_group() { return {"sources|source", "Sources (no worker yet)", kSources}; }
Group sinks_group() { return {"sinks|sink", "Sinks (no worker yet)", kSinks}; }
Group functions_worker_group() { return {"functions-worker", "The functions worker", kWorker}; }
Group packages_group() { return {"packages", "Packages of functions", kPackages}; }

}  // namespace geminga::admin_cli
