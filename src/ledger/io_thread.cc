#include "ledger/io_thread.h"

#include <pthread.h>

#include <utility>

namespace geminga {

IoThread::~IoThread() {
  *alive_ = false;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void IoThread::run(Work work, Done done) {
  auto job = std::make_unique<Job>();
  job->work = std::move(work);
  job->done = std::move(done);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), name_.c_str());
  }
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  more_.notify_one();
}

void IoThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::unique_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Status status = job->work();
    shard_.post([alive = alive_, job = std::move(job), status = std::move(status)]() mutable {
      if (*alive) job->done(std::move(status));
    });
    lock.lock();
  }
}

}  // namespace geminga
