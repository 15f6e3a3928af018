# Two precompiled headers, what nearly every source parses: one of the libraries, one of the tests. They hold only
# headers from outside the project, so that an edit of ours never rebuilds them. clang (lint, fuzz) builds
# without them and thereby checks that each file includes what it uses.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

set(GEMINGA_PRECOMPILED
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <filesystem> <functional> <map> <memory>
    <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <vector> <fmt/format.h>
    <boost/asio/co_spawn.hpp> <boost/asio/redirect_error.hpp> <boost/asio/steady_timer.hpp>
    <boost/asio/thread_pool.hpp> <boost/asio/use_awaitable.hpp>)

add_library(geminga_precompiled STATIC ${CMAKE_SOURCE_DIR}/cmake/precompiled/library.cc)
target_link_libraries(geminga_precompiled PRIVATE Boost::headers Threads::Threads)
target_precompile_headers(geminga_precompiled PRIVATE ${GEMINGA_PRECOMPILED})
if(GEMINGA_TESTS)
  add_library(geminga_precompiled_test STATIC ${CMAKE_SOURCE_DIR}/cmake/precompiled/test.cc)
  target_link_libraries(geminga_precompiled_test PRIVATE Boost::headers GTest::gmock Threads::Threads)
  target_precompile_headers(geminga_precompiled_test PRIVATE ${GEMINGA_PRECOMPILED} <gtest/gtest.h> <gmock/gmock.h>)
  geminga_test_options(geminga_precompiled_test)
endif()
