#include "runtime/gate.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace geminga {

Task<void> Gate::close() {
  closed_ = true;
  while (inside_ > 0) {
    // A timer that never fires is asio's way to wait for a notice.
    if (!waiter_) {
      waiter_.emplace(co_await asio::this_coro::executor);
      waiter_->expires_at(asio::steady_timer::time_point::max());
    }
    boost::system::error_code ignored;
    co_await waiter_->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace geminga
