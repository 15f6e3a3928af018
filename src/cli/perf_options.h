// What `geminga perf` was asked to do. Values; filled once by parse_perf_options().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/options.h"

namespace geminga {

enum class PerfMode : std::uint8_t { Produce, Consume, Latency, Read, Disk, Memcpy, Loopback };

struct PerfOptions {
  PerfMode mode = PerfMode::Produce;
  std::string json;  // file, "-" for standard output, empty: none
  bool quiet = false;
  double duration_s = 0;  // 0: no limit

  // The load.
  std::string service_url = "pulsar://127.0.0.1:6650";
  std::string token;
  std::string topic = "perf";
  unsigned topics = 1;
  unsigned partitions = 0;  // 0: as many as the topic has
  unsigned threads = 1;
  unsigned connections = 1;
  double warmup_s = 0;
  std::uint64_t messages = 0;  // 0: no limit

  // Producing.
  double rate = 0;  // 0: as fast as it goes
  std::size_t size = 1024;
  unsigned producers = 1;     // per topic or partition
  std::size_t in_flight = 0;  // per producer; 0: chosen by batching
  bool batching = true;
  std::uint32_t batch_messages = 1000;
  double batch_delay_ms = 1;
  std::size_t batch_bytes = 128 * 1024;
  Codec compression = Codec::None;
  unsigned key_count = 0;      // 0: no keys
  double deliver_after_s = 0;  // at least; at most twice that. 0: at once

  // Consuming.
  std::string subscription = "perf";
  client::SubscriptionType subscription_type = client::SubscriptionType::Exclusive;
  unsigned consumers = 1;  // per topic or partition
  std::uint32_t receiver_queue = 1000;
  bool from_earliest = false;
  // 0: each message is acknowledged when it comes. Else so many are held, and one of them is
  // acknowledged at random for each that comes; all that are held, when all messages have come.
  std::uint64_t ack_window = 0;

  // The machine.
  std::string directory = ".";
  std::size_t write_size = 4096;
  std::size_t file_mb = 1024;

  // The names of the topics: `topic` itself, or topic-0 to topic-N.
  std::vector<std::string> topic_names() const;
  std::size_t messages_in_flight() const;
};

const char* perf_mode_name(PerfMode mode);

// Below 0: go on. Else the exit code: help was printed, or what is wrong.
int parse_perf_options(int argc, char** argv, PerfOptions& out);

}  // namespace geminga
