// The command line of `geminga standalone`, with the configuration it names, as values.
#pragma once

#include <cstddef>
#include <string>

#include "base/config.h"
#include "base/status.h"

namespace geminga {

struct StandaloneOptions {
  std::string data_dir = "./data";
  BrokerConfig config;
  ConfigNotes notes;
  std::size_t memory = 0;  // bytes, resolved
  std::string memory_source;
  unsigned shards = 0;  // 0: one a core
  std::string log_io = "auto";
};

// The command line is wrong, or asked for help: print `text` and leave with `exit_code`.
struct StandaloneExit {
  int exit_code = 0;
  std::string text;
};

// Reads argv, the file of --config and the environment. Returns true with `options` filled, or
// false with `exit`.
bool read_standalone_options(int argc, char** argv, StandaloneOptions& options,
                             StandaloneExit& exit);

}  // namespace geminga
