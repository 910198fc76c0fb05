# Flags that hold for every target of this project: warnings, sanitizers, linker.
set(EXO_SANITIZE "" CACHE STRING "Comma-separated sanitizers: address,undefined or thread")

add_library(exo_options INTERFACE)
target_compile_options(exo_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wold-style-cast
  -Wthread-safety -Werror -fno-omit-frame-pointer -fpch-instantiate-templates)
target_link_options(exo_options INTERFACE -fuse-ld=lld)
if(EXO_SANITIZE)
  target_compile_options(exo_options INTERFACE -fsanitize=${EXO_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(exo_options INTERFACE -fsanitize=${EXO_SANITIZE})
endif()
