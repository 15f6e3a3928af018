#include "cli/perf_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cli/exit_codes.h"

namespace geminga {

namespace {

using client::SubscriptionType;

constexpr std::pair<const char*, SubscriptionType> kTypes[] = {
    {"exclusive", SubscriptionType::Exclusive},
    {"shared", SubscriptionType::Shared},
    {"failover", SubscriptionType::Failover},
    {"key_shared", SubscriptionType::KeyShared}};
constexpr std::pair<const char*, Codec> kCodecs[] = {{"none", Codec::None},
                                                     {"lz4", Codec::Lz4},
                                                     {"zlib", Codec::Zlib},
                                                     {"zstd", Codec::Zstd},
                                                     {"snappy", Codec::Snappy}};

// An option whose value is one of the names in `table`.
template <typename T, std::size_t N>
void add_choice(CLI::App& app, const std::string& name, T& out,
                const std::pair<const char*, T> (&table)[N]) {
  std::string names;
  for (const auto& [text, value] : table) names += (names.empty() ? "" : ", ") + std::string(text);
  app.add_option_function<std::string>(
      name,
      [&out, &table, name, names](const std::string& given) {
        for (const auto& [text, value] : table) {
          if (CLI::detail::to_lower(given) != text) continue;
          out = value;
          return;
        }
        throw CLI::ValidationError(name, "'" + given + "' is none of " + names);
      },
      names);
}

struct Mode {
  PerfMode mode;
  const char* name;
  const char* help;
};
constexpr Mode kModes[] = {
    {PerfMode::Produce, "produce", "publish messages"},
    {PerfMode::Consume, "consume", "consume and acknowledge messages"},
    {PerfMode::Latency, "latency",
     "publish and consume in one process: publish and end-to-end latency"},
    {PerfMode::Read, "read",
     "read topics from their first message to the last one of now, without acks"},
    {PerfMode::Disk, "disk", "what a folder's disk can do: fdatasync rate, write bandwidth"},
    {PerfMode::Memcpy, "memcpy", "how fast this machine copies memory"},
    {PerfMode::Loopback, "loopback", "what loopback TCP can do: round trips and bandwidth"},
};

CLI::Validator not_negative() {
  return CLI::Validator(
      [](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        return end == text.c_str() || *end != 0 || !(value >= 0)
                   ? "'" + text + "' is not a number from 0 on"
                   : std::string();
      },
      "NUMBER");
}

void add_common(CLI::App& app, PerfOptions& o) {
  app.add_option("--json", o.json, "write the results as JSON to this file, - for standard output");
  app.add_flag("--quiet", o.quiet, "no progress line");
  app.add_option("--duration", o.duration_s,
                 "seconds to run, warm-up included (0: until all is done or Ctrl-C)")
      ->check(not_negative());
}

void add_load(CLI::App& app, PerfOptions& o) {
  app.add_option("--url", o.service_url, "the broker's service URL")->capture_default_str();
  app.add_option("--token", o.token, "authenticate with this token");
  app.add_option("--topic", o.topic, "topic, or the first part of the names with --topics")
      ->capture_default_str();
  app.add_option("--topics", o.topics, "number of topics: TOPIC-0, TOPIC-1, ...")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1'000'000U));
  app.add_option("--partitions", o.partitions,
                 "insist that each topic has so many partitions (0: take what it has)");
  app.add_option("--threads", o.threads, "threads, each with its own connections")
      ->capture_default_str()
      ->check(CLI::Range(1U, 256U));
  app.add_option("--connections", o.connections, "connections to a broker, per thread")
      ->capture_default_str()
      ->check(CLI::Range(1U, 10'000U));
  app.add_option("--messages", o.messages, "stop after so many messages in all (0: no limit)");
  app.add_option("--warmup", o.warmup_s, "seconds at the start that are not counted")
      ->check(not_negative());
}

void add_produce(CLI::App& app, PerfOptions& o) {
  app.add_option("--rate", o.rate,
                 "messages a second in all, at fixed intervals (0: as fast as possible)")
      ->check(not_negative());
  app.add_option("--size", o.size, "bytes of a message")->capture_default_str();
  app.add_option("--producers", o.producers, "producers per topic or partition")
      ->capture_default_str()
      ->check(CLI::Range(1U, 10'000U));
  app.add_option("--in-flight", o.in_flight,
                 "messages of a producer without a receipt (0: 1000, with batching 20 batches)");
  app.add_flag("--no-batching{false},--batching{true}", o.batching,
               "one SEND a message / batch messages");
  app.add_option("--batch-messages", o.batch_messages, "most messages of a batch")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1'000'000U));
  app.add_option("--batch-delay-ms", o.batch_delay_ms, "longest that a batch collects")
      ->capture_default_str()
      ->check(not_negative());
  app.add_option("--batch-bytes", o.batch_bytes, "most bytes of a batch")->capture_default_str();
  add_choice(app, "--compression", o.compression, kCodecs);
  app.add_option("--key-count", o.key_count,
                 "give messages one of so many keys in turn (0: no key)");
  app.add_option("--deliver-after", o.deliver_after_s,
                 "delay messages by so many seconds to twice that, at random (0: not)")
      ->check(not_negative());
}

void add_consume(CLI::App& app, PerfOptions& o) {
  app.add_option("--receiver-queue", o.receiver_queue, "messages the broker may send ahead")
      ->capture_default_str()
      ->check(CLI::Range(1U, 10'000'000U));
  app.add_option("--consumers", o.consumers, "consumers per topic or partition")
      ->capture_default_str()
      ->check(CLI::Range(1U, 10'000U));
}

void add_subscription(CLI::App& app, PerfOptions& o) {
  app.add_option("--subscription", o.subscription, "name of the subscription")
      ->capture_default_str();
  add_choice(app, "--type", o.subscription_type, kTypes);
  app.add_flag("--from-earliest", o.from_earliest,
               "a new subscription starts at the first message");
}

void add_acks(CLI::App& app, PerfOptions& o) {
  app.add_option("--ack-window", o.ack_window,
                 "hold so many messages and acknowledge them in random order; what is held when "
                 "all --messages have come is acknowledged then (0: each when it comes)")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000'000}));
}

void add_machine(CLI::App& app, PerfOptions& o, PerfMode mode) {
  if (mode != PerfMode::Disk) return;
  app.add_option("--dir", o.directory, "folder whose disk is measured")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  app.add_option("--write-size", o.write_size, "bytes of each synced write")
      ->capture_default_str()
      ->check(CLI::Range(512, 16 << 20));
  app.add_option("--file-mb", o.file_mb, "megabytes written for the bandwidth")
      ->capture_default_str()
      ->check(CLI::Range(16, 1 << 20));
}

}  // namespace

const char* perf_mode_name(PerfMode mode) { return kModes[static_cast<std::size_t>(mode)].name; }

std::vector<std::string> PerfOptions::topic_names() const {
  if (topics == 1) return {topic};
  std::vector<std::string> names;
  names.reserve(topics);
  for (unsigned i = 0; i < topics; ++i) names.push_back(topic + "-" + std::to_string(i));
  return names;
}

std::size_t PerfOptions::messages_in_flight() const {
  if (in_flight > 0) return in_flight;
  return batching ? std::size_t{20} * batch_messages : 1000;
}

int parse_perf_options(int argc, char** argv, PerfOptions& out) {
  CLI::App app(
      "Load generator for Geminga and Pulsar, and measures of this machine.\n"
      "Latencies count from the time a message was meant to be sent, so that a stall shows in "
      "full.\n"
      "MB are 1,000,000 bytes. The exit code is 1 when a message failed.",
      argv[0]);
  app.require_subcommand(1);
  for (const Mode& mode : kModes) {
    CLI::App& sub = *app.add_subcommand(mode.name, mode.help);
    sub.callback([&out, mode] { out.mode = mode.mode; });
    add_common(sub, out);
    const bool load = mode.mode <= PerfMode::Read;
    if (load) add_load(sub, out);
    if (mode.mode == PerfMode::Produce || mode.mode == PerfMode::Latency) add_produce(sub, out);
    if (load && mode.mode != PerfMode::Produce) add_consume(sub, out);
    if (mode.mode == PerfMode::Consume || mode.mode == PerfMode::Latency)
      add_subscription(sub, out);
    if (mode.mode == PerfMode::Consume) add_acks(sub, out);
    if (!load) add_machine(sub, out, mode.mode);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return -1;
}

}  // namespace geminga
