// A thread that runs blocking work for a shard, one piece after the other, and posts each result
// back. Starts with the first piece. Belongs to one shard; the destructor finishes the piece that
// runs, drops the rest and reports nothing any more.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_function.h"
#include "runtime/shard.h"

namespace geminga {

class IoThread {
 public:
  using Work = UniqueFunction<Status()>;
  using Done = UniqueFunction<void(Status)>;

  IoThread(Shard& shard, std::string name) : shard_(shard), name_(std::move(name)) {}
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  void run(Work work, Done done);

 private:
  struct Job {
    Work work;
    Done done;
  };
  void loop();

  Shard& shard_;
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::unique_ptr<Job>> jobs_;
  bool stopping_ = false;
  // Cleared on the shard when this object goes: results that are on their way then reach nobody.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::thread thread_;
};

}  // namespace geminga
