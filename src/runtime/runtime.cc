#include "runtime/runtime.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace geminga {

namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(-1);
  return cpus;
}

}  // namespace

unsigned usable_cores() {
  auto cores = static_cast<unsigned>(allowed_cpus().size());
  // cgroup v2: "max 100000" or "200000 100000"
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  double limit = 0;
  double period = 0;
  if (quota >> limit >> period && limit > 0 && period > 0) {
    cores = std::min(cores, std::max(1U, static_cast<unsigned>(std::ceil(limit / period))));
  }
  return std::max(1U, cores);
}

std::size_t usable_memory() {
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  std::size_t bytes = pages * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  std::size_t limit = 0;
  std::ifstream cgroup("/sys/fs/cgroup/memory.max");
  if (cgroup >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

Runtime::Runtime(RuntimeOptions options)
    : options_(options),
      memory_(options.memory_limit),
      blocking_(std::max(1U, options.blocking_threads)) {
  const unsigned count = options_.shards != 0 ? options_.shards : usable_cores();
  for (unsigned i = 0; i < count; ++i) shards_.push_back(std::make_unique<Shard>(i, count));
}

Runtime::~Runtime() { stop(); }

void Runtime::start() {
  const std::vector<int> cpus = allowed_cpus();
  // More shards than cores: leave placing them to the kernel.
  const bool pin = options_.pin_threads && shards_.size() <= cpus.size();
  for (auto& shard : shards_) shard->start(pin ? cpus[shard->id()] : -1);
}

void Runtime::stop() {
  for (auto& shard : shards_) shard->stop();
  blocking_.join();
}

}  // namespace geminga
