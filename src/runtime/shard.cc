#include "runtime/shard.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <string>

#include "base/clock.h"

namespace geminga {

namespace {

thread_local Shard* current_shard = nullptr;

// How many ready handlers may run before mailboxes and deferred work get their turn.
constexpr int kHandlersPerTurn = 128;

void pin_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  // Best effort: a container may forbid it, and an unpinned shard works as well.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Shard::Shard(unsigned id, unsigned shards) : id_(id), io_(1) {
  for (unsigned i = 0; i < shards; ++i) inboxes_.push_back(std::make_unique<Mailbox>());
}

Shard::~Shard() { stop(); }

Shard* Shard::current() { return current_shard; }

void Shard::post(Work work) {
  Shard* from = current_shard;
  if (from == nullptr) {
    asio::post(io_, std::move(work));
    return;
  }
  inboxes_[from->id_]->put(std::move(work));
  if (!woken_.exchange(true, std::memory_order_acq_rel)) asio::post(io_, [] {});
}

void Shard::defer(Deferred& what) {
  if (what.scheduled_) return;
  what.scheduled_ = true;
  deferred_.push_back(&what);
}

void Shard::forget(Deferred& what) {
  if (!what.scheduled_) return;
  what.scheduled_ = false;
  // run_deferred() may be walking the list: leave a hole, not a gap.
  std::replace(deferred_.begin(), deferred_.end(), &what, static_cast<Deferred*>(nullptr));
}

void Shard::start(int cpu) {
  thread_ = std::thread([this, cpu] {
    pin_to(cpu);
    pthread_setname_np(pthread_self(), ("shard-" + std::to_string(id_)).c_str());
    run();
  });
}

void Shard::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  asio::post(io_, [] {});
  thread_.join();
}

void Shard::run() {
  current_shard = this;
  auto work = asio::make_work_guard(io_);
  load_since_ns_ = monotonic_ns();
  while (!stopping_.load(std::memory_order_acquire)) {
    std::size_t ran = io_.poll_one();
    if (ran == 0) ran = io_.run_one();  // sleeps
    const std::int64_t began = monotonic_ns();
    for (int i = 0; i < kHandlersPerTurn && io_.poll_one() != 0; ++i) {
    }
    drain_mailboxes();
    run_deferred();
    busy_ns_ += monotonic_ns() - began;
  }
  current_shard = nullptr;
}

void Shard::drain_mailboxes() {
  // Cleared before the look: a put that comes later posts a new wake-up.
  if (!woken_.exchange(false, std::memory_order_acq_rel)) return;
  Mailbox::Work work;
  for (auto& inbox : inboxes_) {
    while (inbox->take(work)) work();
  }
}

void Shard::run_deferred() {
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    Deferred* what = deferred_[i];
    if (what == nullptr) continue;
    what->scheduled_ = false;
    what->run_deferred();
  }
  deferred_.clear();
}

double Shard::take_load() {
  const std::int64_t now = monotonic_ns();
  const std::int64_t span = now - load_since_ns_;
  const double load = span > 0 ? static_cast<double>(busy_ns_) / static_cast<double>(span) : 0;
  busy_ns_ = 0;
  load_since_ns_ = now;
  return std::min(load, 1.0);
}

}  // namespace geminga
