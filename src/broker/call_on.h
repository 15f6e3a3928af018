// Calls a coroutine on another shard in order with what was posted to it before: on_shard() of
// runtime/async.h may overtake Shard::post(), and a CLOSE_PRODUCER must not overtake its SENDs.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/async.h"

namespace geminga {

// Runs `function` (returns Task<T>, T not void) on `target` behind everything this shard has posted
// there; the caller comes back on its own shard. On `target` itself it is a plain call.
template <typename F>
std::invoke_result_t<F> call_on(Shard& target, F function) {
  using T = typename std::invoke_result_t<F>::value_type;
  if (target.is_current()) co_return co_await function();
  struct Call {
    Event done;
    std::optional<T> result;
  };
  Shard& home = *Shard::current();
  auto call = std::make_shared<Call>();
  target.post([&home, &target, call, function = std::move(function)]() mutable {
    asio::co_spawn(
        target.executor(),
        [&home, call = std::move(call), function = std::move(function)]() mutable -> Task<void> {
          T result = co_await function();
          home.post([call = std::move(call), result = std::move(result)]() mutable {
            call->result.emplace(std::move(result));
            call->done.set();
          });
        },
        [](std::exception_ptr exception) {
          if (exception) async_internal::die_of(exception);
        });
  });
  co_await call->done.wait();
  co_return std::move(*call->result);
}

}  // namespace geminga
