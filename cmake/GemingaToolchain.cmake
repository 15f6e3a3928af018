# Compiler settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Everything ends up in an executable: -fPIE throughout, so that libraries and tests share precompiled headers.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
add_compile_options(-fPIE)
add_link_options(-pie)

option(GEMINGA_ASAN "AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(GEMINGA_TSAN "ThreadSanitizer" OFF)
option(GEMINGA_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(GEMINGA_TESTS "Build the unit tests" ON)

find_program(GEMINGA_CCACHE ccache)
if(GEMINGA_CCACHE)
  # Relative paths and no folder in the key: every checkout and work tree shares one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${GEMINGA_CCACHE})
endif()
find_program(GEMINGA_MOLD mold)
if(GEMINGA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wconversion -Werror -Wno-sign-conversion -fno-omit-frame-pointer
                    -fstack-protector-strong)
# Without a cache the folder of the build is cut out of the binary here; with one it is so already.
if(NOT GEMINGA_CCACHE)
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports uninitialised members and dangling frames inside coroutine frames that do not exist.
  # It also sees overlaps in string concatenation that do not exist (GCC bug 105329), and does not see that
  # Asio's coroutine frames are freed as they were allocated.
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-mismatched-new-delete -fcoroutines -fpch-preprocess)
endif()
# SSE4.2 is every x86-64 server since 2008; the release runs on all of them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
  add_compile_options(-march=x86-64-v2)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-g1)
  add_compile_definitions(_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
if(GEMINGA_ASAN OR GEMINGA_TSAN)
  # What is compiled quickly is tested sooner; the reports name lines.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
  # Instrumented code makes GCC's flow analysis warn of what is not there; the release build is the judge.
  add_compile_options(-Wno-error)
endif()
if(GEMINGA_ASAN)
  # Checks of every pointer double the time of compiling, and AddressSanitizer sees what they would.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow,nonnull-attribute)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(GEMINGA_ASAN=1)
endif()
if(GEMINGA_TSAN)
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(GEMINGA_TSAN=1)
endif()
