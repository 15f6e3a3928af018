// Coroutines for control flow: a Task runs on the shard that started it and comes back to it after
// each co_await. Not for work that happens once a message.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace geminga {

namespace asio = boost::asio;

template <typename T = void>
using Task = asio::awaitable<T>;

}  // namespace geminga
