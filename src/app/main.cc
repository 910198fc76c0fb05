// The exo program.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "app/command_line.h"

int main(int argc, char** argv) {
  try {
    return exo::app::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception&
               error) {  // the outermost catch: what a library threw and nobody expected
    std::fprintf(stderr, "exo: something unexpected went wrong: %s\n", error.what());
  }
  return exo::app::kFailure;
}
