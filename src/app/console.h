// Standard input of a command that talks to a person: lines, and a wait that a signal can end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/result.h"

namespace exo::app {

// All of standard input, which is no terminal. Errors: kInvalidInput: more than `max_bytes`, or not
// UTF-8; kIo.
Result<std::string> read_all_input(std::size_t max_bytes);

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  struct Line {
    std::optional<std::string> text =
        {};  // without its end; nothing at the end of input or when interrupted
    bool interrupted = false;
  };
  // Waits for a line.
  Line read();
  // Ends a read() that waits, or the next one. Thread-safe.
  void interrupt();

 private:
  int wake_fd_;
  std::string pending_;
  bool at_end_ = false;
};

}  // namespace exo::app
