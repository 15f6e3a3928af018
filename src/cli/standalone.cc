// `geminga standalone`: options, start, wait for a signal, stop.
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/standalone_node.h"
#include "cli/standalone_options.h"
#include "cli/version.h"

namespace geminga {

namespace {

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

void log_notes(const ConfigNotes& notes) {
  if (!notes.without_meaning.empty()) {
    std::string keys;
    for (const auto& key : notes.without_meaning) keys += (keys.empty() ? "" : ", ") + key;
    GM_LOG_INFO("these configuration keys of Pulsar have no meaning here: {}", keys);
  }
  for (const auto& setting : notes.unknown) {
    GM_LOG_WARN("{}: unknown configuration key {} is ignored", setting.source, setting.key);
  }
}

void print_banner(const StandaloneNode& node, const StandaloneOptions& options, double start_ms) {
  std::string isolation;
  for (const std::string& line : node.isolation()) isolation += "  isolation        " + line + "\n";
  std::printf(
      "geminga %s standalone\n"
      "  binary protocol  %s\n"
      "  http             %s\n"
      "  data             %s (%u logs)\n"
      "%s"
      "  memory           %zu MiB (%s), %u shards\n"
      "  stop             Ctrl-C, or kill %d\n"
      "  try              curl %s/admin/v2/brokers/health\n"
      "ready %s %s (%.0f ms)\n",
      kVersion, node.service_url().c_str(), node.web_service_url().c_str(),
      absolute(options.data_dir).c_str(), node.log_count(), isolation.c_str(), options.memory >> 20,
      options.memory_source.c_str(), node.shard_count(), static_cast<int>(getpid()),
      node.web_service_url().c_str(), node.service_url().c_str(), node.web_service_url().c_str(),
      start_ms);
  std::fflush(stdout);
}

// SIGTERM and SIGINT are taken by sigwait() in this thread; all others have them blocked.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Each connection is an open file: as many as the system allows this process.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    GM_LOG_WARN("the limit of open files stays as it is: {}", std::strerror(errno));
  }
}

}  // namespace

int standalone_main(int argc, char** argv) {
  const std::int64_t began = monotonic_ns();
  StandaloneOptions options;
  StandaloneExit exit;
  if (!read_standalone_options(argc, argv, options, exit)) {
    std::fputs(exit.text.c_str(), exit.exit_code == kExitOk ? stdout : stderr);
    return exit.exit_code;
  }
  // Few arenas: each keeps freed memory for itself, and shards free what others allocated.
  mallopt(M_ARENA_MAX, 4);
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
  raise_file_limit();
  ::umask(0077);  // what is stored is for this user alone: files 0600, folders 0700
  const sigset_t signals = block_stop_signals();
  log_notes(options.notes);

  StandaloneNode node(options);
  if (auto failure = node.open()) {
    std::fprintf(stderr, "geminga standalone: %s\n", failure->status.message().c_str());
    return failure->exit_code;
  }
  print_banner(node, options, static_cast<double>(monotonic_ns() - began) / 1e6);

  int received = 0;
  sigwait(&signals, &received);
  GM_LOG_INFO("signal {}: stopping", received);
  // A second signal must be able to end a stop that takes too long.
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const Status status = node.close();
  if (!status.is_ok()) {
    GM_LOG_ERROR("stopped with an error: {}", status.to_string());
    return kExitFailed;
  }
  GM_LOG_INFO("stopped");
  return kExitOk;
}

}  // namespace geminga
