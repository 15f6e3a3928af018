// Holds back what producers send to a topic beyond its publish rate, in order, and passes it on as
// the rate allows. Only this topic waits: what is held leaves its connection's window of publishes
// in flight, up to a bound, so that other producers of the connection go on. Beyond the bound the
// window fills and the connection is not read, which is all that the original does.
//
// Owned by a topic; used on its shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/unique_function.h"
#include "broker/ring.h"
#include "broker/token_bucket.h"
#include "broker/topic.h"
#include "runtime/async.h"
#include "runtime/shard.h"

namespace geminga {

class PublishPacer {
 public:
  // Held outside the windows of connections, at most.
  static constexpr std::size_t kMostAside = 10'000;  // publishes
  static constexpr std::int64_t kMostBytesAside = 8 << 20;

  using Pass = UniqueFunction<void(std::vector<PublishItem>&)>;
  // `pass` takes what may be published now, in order.
  PublishPacer(Shard& shard, Pass pass);
  ~PublishPacer();
  PublishPacer(const PublishPacer&) = delete;
  PublishPacer& operator=(const PublishPacer&) = delete;

  // No limit: what is held passes at once.
  void limit(const Rate& rate);
  // Nothing to do for it: the topic may publish by itself.
  bool idle() const { return !limiter_.limited() && held_.empty(); }
  // `items` is emptied.
  void offer(std::vector<PublishItem>& items);
  // The topic closes: what is held is forgotten, its clients send it again.
  void drop();

  std::size_t held() const { return held_.size(); }
  std::int64_t times_limited() const { return times_limited_; }

 private:
  struct Held {
    PublishItem item;
    bool aside = false;  // out of its connection's window
  };
  void hold(PublishItem item);
  void pass_some();
  void wait(std::int64_t ns);

  Pass pass_;
  RateLimiter limiter_;
  Ring<Held> held_;
  std::size_t aside_ = 0;
  std::int64_t bytes_aside_ = 0;
  std::int64_t times_limited_ = 0;
  std::vector<PublishItem> passing_;
  asio::steady_timer timer_;
  bool waiting_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // for the timer's callback
};

}  // namespace geminga
