#include "app/process.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <pthread.h>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <utility>

#include "core/file.h"
#include "core/strings.h"

namespace exo::app {
namespace {

constexpr int kWakeUp = SIGUSR2;  // ends the listener's wait

sigset_t listened_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, kWakeUp}) sigaddset(&set, number);
  return set;
}

}  // namespace

struct SignalListener::State {
  std::jthread thread;
};

SignalListener::SignalListener(std::function<void(int, int)> on_signal)
    : state_(std::make_unique<State>()) {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = listened_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  state_->thread = std::jthread([set, on_signal = std::move(on_signal)](std::stop_token stop) {
    int count = 0;
    int number = 0;
    while (::sigwait(&set, &number) == 0 && !stop.stop_requested()) {
      if (number != kWakeUp) on_signal(number, ++count);
    }
  });
}

SignalListener::~SignalListener() {
  state_->thread.request_stop();
  ::pthread_kill(state_->thread.native_handle(), kWakeUp);
}

std::uint64_t raise_open_file_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t raised = std::min<rlim_t>(std::max<rlim_t>(limit.rlim_cur, wanted), limit.rlim_max);
  const rlim_t before = std::exchange(limit.rlim_cur, raised);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? raised : before;
}

std::filesystem::path program_path() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path("/proc/self/exe") : path;
}

std::uint64_t anonymous_bytes() {
  const std::string status = read_file("/proc/self/status", 1 << 16).value_or("");
  const std::size_t at = status.find("RssAnon:");
  if (at == std::string::npos) return 0;
  const std::string_view number = trim(std::string_view(status).substr(at + 8, 24));
  std::uint64_t kibibytes = 0;
  std::from_chars(number.data(), number.data() + number.size(), kibibytes);
  return kibibytes << 10;
}

}  // namespace exo::app
