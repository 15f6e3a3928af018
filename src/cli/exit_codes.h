// Exit codes of `geminga standalone`, one for each kind of reason that it cannot serve, so that
// scripts and unit files can tell them apart. Documented in docs/operations.md.
#pragma once

namespace geminga {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,      // anything not named below
  kExitUsage = 2,       // wrong command line
  kExitConfig = 3,      // a configuration file or value is refused
  kExitLocked = 4,      // another process uses the data folder
  kExitDataFolder = 5,  // the data folder cannot be written or read
  kExitCorrupt = 6,     // damaged data; `geminga doctor` tells where
  kExitPortInUse = 7,   // a port is taken
};

}  // namespace geminga
