// EXO_CHECK: stops the process on a broken invariant, which is our own bug; input never reaches a
// check.
#pragma once

namespace exo {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace exo

#define EXO_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::exo::check_failed(#condition, __FILE__, __LINE__))
