#include "core/subprocess.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "core/mutex.h"

namespace exo {
namespace {

using std::chrono::milliseconds;

class Lines {
 public:
  std::function<void(std::string)> sink() {
    return [this](std::string line) {
      MutexLock lock(mutex_);
      lines_.push_back(std::move(line));
    };
  }
  std::vector<std::string> take() {
    MutexLock lock(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ EXO_GUARDED_BY(mutex_);
};

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(Subprocess, CapturesBothStreamsWhole) {
  Lines out, err;
  auto child = Subprocess::start(
      {.arguments = {"/bin/sh", "-c", "printf 'a\\nb\\377\\nlast'; echo oops >&2; exit 3"},
       .on_stdout = out.sink(),
       .on_stderr = err.sink()});
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(child->wait(), (ExitStatus{.code = 3, .signal = 0}));
  EXPECT_EQ(out.take(), (std::vector<std::string>{"a", "b\xEF\xBF\xBD", "last"}));
  EXPECT_EQ(err.take(), (std::vector<std::string>{"oops"}));
}

TEST(Subprocess, NamesAProgramThatIsNotThere) {
  const auto child = Subprocess::start({.arguments = {"/nonexistent/program"}});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(child.error().subject, "/nonexistent/program");
}

TEST(Subprocess, ReplacesVariablesOfItsEnvironment) {
  Lines out;
  auto child = Subprocess::start({.arguments = {"/bin/sh", "-c", "echo $HOME $EXO_X"},
                                  .environment = {{"HOME", "there"}, {"EXO_X", "y z"}},
                                  .on_stdout = out.sink()});
  ASSERT_TRUE(child);
  EXPECT_TRUE(child->wait().ok());
  EXPECT_EQ(out.take(), (std::vector<std::string>{"there y z"}));
}

TEST(Subprocess, PassesOnOnlyTheDescriptorsNamed) {
  int ends[2], other[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(pipe(other), 0);
  Lines out;
  auto child = Subprocess::start({.arguments = {"/bin/ls", "/proc/self/fd"},
                                  .on_stdout = out.sink(),
                                  .inherited_descriptors = {ends[1]}});
  ASSERT_TRUE(child);
  EXPECT_TRUE(child->wait().ok());
  const auto lines = out.take();
  EXPECT_EQ(std::ranges::count(lines, std::to_string(ends[1])), 1);
  EXPECT_EQ(lines.size(), 5U);  // 0, 1, 2, the pipe, and ls's own directory
  for (const int fd : {ends[0], ends[1], other[0], other[1]}) close(fd);
}

TEST(Subprocess, StopsPolitelyThenForcibly) {
  auto polite = Subprocess::start({.arguments = {"/bin/sleep", "100"}});
  ASSERT_TRUE(polite);
  EXPECT_EQ(polite->wait_for(milliseconds(5)), std::nullopt);
  EXPECT_EQ(polite->stop(milliseconds(5000)).signal, SIGTERM);

  Lines out;
  auto stubborn = Subprocess::start(
      {.arguments = {"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do :; done"},
       .on_stdout = out.sink()});
  ASSERT_TRUE(stubborn);
  while (out.take().empty()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(stubborn->stop(milliseconds(50)).signal, SIGKILL);
  EXPECT_EQ(to_string(stubborn->wait()), "signal 9 (Killed)");
}

TEST(Subprocess, LeaksNeitherProcessesNorDescriptors) {
  const auto before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    Lines out;
    auto child = Subprocess::start({.arguments = {"/bin/sh", "-c", "kill -SEGV $$"},
                                    .on_stdout = out.sink(),
                                    .on_stderr = out.sink()});
    ASSERT_TRUE(child);
    if (i % 2 == 0) {
      EXPECT_EQ(child->wait().signal, SIGSEGV);
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace exo
