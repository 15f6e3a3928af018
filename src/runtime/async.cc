#include "runtime/async.h"

#include <cstdlib>

#include "base/log.h"

namespace geminga {

void async_internal::die_of(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    GM_LOG_ERROR("an exception left a task: {}; this is a bug, stopping", e.what());
  } catch (...) {
    GM_LOG_ERROR("an unknown exception left a task; this is a bug, stopping");
  }
  std::abort();
}

Task<void> sleep_for(Millis duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor, duration);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void Event::set() {
  set_ = true;
  if (timer_) timer_->cancel();
}

Task<void> Event::wait() {
  if (set_) co_return;
  if (!timer_) {
    timer_ = std::make_shared<asio::steady_timer>(co_await asio::this_coro::executor);
    timer_->expires_at(asio::steady_timer::time_point::max());
  }
  // The event may be destroyed by whom it wakes; the timer must outlive the wait.
  auto timer = timer_;
  boost::system::error_code ignored;
  co_await timer->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

Task<AsyncMutex::Lock> AsyncMutex::lock() {
  if (locked_) {
    auto turn = std::make_shared<Event>();
    waiters_.push_back(turn);
    co_await turn->wait();  // release() hands the lock over without opening it
  }
  locked_ = true;
  co_return Lock(this);
}

void AsyncMutex::release() {
  if (waiters_.empty()) {
    locked_ = false;
    return;
  }
  auto next = std::move(waiters_.front());
  waiters_.pop_front();
  next->set();
}

}  // namespace geminga
