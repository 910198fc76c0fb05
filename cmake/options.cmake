# Flags that hold for every target of this project: warnings, sanitizers, linker.
set(EXO_SANITIZE "" CACHE STRING "Comma-separated sanitizers: address,undefined or thread")

add_library(exo_options INTERFACE)
target_compile_options(exo_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wold-style-cast
  -Wthread-safety -Werror -fno-omit-frame-pointer -fpch-instantiate-templates
  -fPIC)  # programs too, where CMake says -fPIE: a precompiled header serves only one of them
target_link_options(exo_options INTERFACE -fuse-ld=lld)
if(EXO_SANITIZE)
  target_compile_options(exo_options INTERFACE -fsanitize=${EXO_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(exo_options INTERFACE -fsanitize=${EXO_SANITIZE})
endif()

# Coverage for the fuzzers of fuzz/ goes into the very objects that the tests under ASan use: one build serves both.
option(EXO_BUILD_FUZZERS "Build the fuzzers of fuzz/ (clang, with EXO_SANITIZE=address,undefined)" OFF)
if(EXO_BUILD_FUZZERS)
  target_compile_options(exo_options INTERFACE -fsanitize=fuzzer-no-link
    -fsanitize-coverage-ignorelist=${CMAKE_SOURCE_DIR}/fuzz/coverage_ignore.txt)
endif()

# One precompiled header for all rooms and their tests; -fno-pch-timestamp lets ccache keep what was compiled with it.
file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
add_library(exo_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
target_link_libraries(exo_precompiled PRIVATE
  exo_options fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads)
target_precompile_headers(exo_precompiled PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
target_compile_options(exo_precompiled PRIVATE -Xclang -fno-pch-timestamp)
