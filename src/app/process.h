// This process and its terminal: signals as events, the open-file limit, the path of the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

namespace exo::app {

// Receives SIGINT and SIGTERM on a thread of its own, so that handlers may do anything. Make it
// before any other thread, which inherits the blocked signals. SIGPIPE is ignored from then on.
class SignalListener {
 public:
  // `on_signal(signal, count)`: count is 1 for the first one.
  explicit SignalListener(std::function<void(int signal_number, int count)> on_signal);
  ~SignalListener();
  SignalListener(const SignalListener&) = delete;
  SignalListener& operator=(const SignalListener&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Raises the soft limit of open files to min(max(soft, wanted), hard) and returns the new soft
// limit.
std::uint64_t raise_open_file_limit(std::uint64_t wanted);

// The running program's own file, to start runners with.
std::filesystem::path program_path();

// Bytes of this process's memory that belong to no file, now; 0 where the system does not say.
std::uint64_t anonymous_bytes();

}  // namespace exo::app
