// Child processes: started without a shell, their output captured line by line, never left behind.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include "core/result.h"

namespace exo {

// How a child ended.
struct ExitStatus {
  int code = 0;    // the exit code; meaningless if a signal ended it
  int signal = 0;  // the signal that ended it, or 0

  bool ok() const { return code == 0 && signal == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// "exit code 3" or "signal 9 (Killed)".
std::string to_string(const ExitStatus& status);

struct SubprocessOptions {
  std::vector<std::string> arguments = {};  // [0] is the program's path
  std::vector<std::pair<std::string, std::string>> environment =
      {};  // added to, or replacing, the parent's
  // Called on reader threads, one line at a time without its end, invalid UTF-8 replaced. Empty:
  // the child inherits the parent's stream.
  std::function<void(std::string line)> on_stdout = {};
  std::function<void(std::string line)> on_stderr = {};
  std::vector<int> inherited_descriptors = {};  // kept open in the child under the same numbers;
                                                // all others are closed
  bool dies_with_parent = true;  // SIGKILL to the child when the thread that started it ends
};

// Owns one child. Destruction kills and reaps it.
class Subprocess {
 public:
  // Errors: kNotFound, kPermission: the program cannot be executed; kIo: no process could be made.
  static Result<Subprocess> start(SubprocessOptions options);

  Subprocess(Subprocess&&) noexcept;
  Subprocess& operator=(Subprocess&&) noexcept;
  ~Subprocess();

  pid_t pid() const;
  void send_signal(int signal_number);
  // Nothing while it still runs after `limit`. All its output has been handed over once a status is
  // returned.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds limit);
  ExitStatus wait();
  // SIGTERM, then SIGKILL after `grace`.
  ExitStatus stop(std::chrono::milliseconds grace);

 private:
  struct State;
  explicit Subprocess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace exo
