#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace exo {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "exo: internal error, %s:%d: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace exo
