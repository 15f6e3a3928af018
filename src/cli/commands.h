// The subcommands of `geminga`. Each takes the arguments after its own name (argv[0] is "geminga
// NAME", for messages) and returns the exit code: 0 done, 1 failed, 2 wrong usage; standalone uses
// the codes of exit_codes.h.
#pragma once

namespace geminga {

int standalone_main(int argc, char** argv);
int perf_main(int argc, char** argv);
int doctor_main(int argc, char** argv);
int admin_main(int argc, char** argv);

}  // namespace geminga
