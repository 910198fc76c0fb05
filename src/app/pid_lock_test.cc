#include "app/pid_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/file.h"
#include "core/id.h"

namespace exo::app {
namespace {

class PidLockTest : public testing::Test {
 protected:
  PidLockTest() { paths_.cache = root_ / "deep" / "cache"; }
  ~PidLockTest() override { std::filesystem::remove_all(root_); }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("exo-pid-" + random_hex(8));
  Paths paths_;
};

TEST_F(PidLockTest, HoldsThisProcessIdAndRemovesItsFiles) {
  {
    const auto lock = PidLock::take(paths_);
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_EQ(*read_file(paths_.pid_file(), 100), std::to_string(::getpid()) + "\n");
    ASSERT_TRUE(lock->publish("127.0.0.1", 1234));
  }
  EXPECT_TRUE(std::filesystem::is_empty(paths_.cache));
}

TEST_F(PidLockTest, ASecondTakerIsToldWhoHoldsIt) {
  const auto first = PidLock::take(paths_);
  ASSERT_TRUE(first);
  const auto second = PidLock::take(paths_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
}

TEST_F(PidLockTest, AFileThatADeadProcessLeftIsTakenOver) {
  ASSERT_TRUE(write_file(paths_.pid_file(), "999999\n"));
  EXPECT_TRUE(PidLock::take(paths_));
}

TEST_F(PidLockTest, ANodeIsFoundWhileItHoldsTheLock) {
  EXPECT_EQ(find_node(paths_), std::nullopt);
  {
    const auto lock = PidLock::take(paths_);
    ASSERT_TRUE(lock);
    EXPECT_EQ(find_node(paths_), std::nullopt) << "nothing is published yet";
    ASSERT_TRUE(lock->publish("::1", 52415));
    const auto node = find_node(paths_);
    ASSERT_TRUE(node);
    EXPECT_EQ(*node, (NodeRecord{.pid = ::getpid(), .host = "::1", .port = 52415}));
    EXPECT_EQ(node->url(), "http://[::1]:52415");
  }
  EXPECT_EQ(find_node(paths_), std::nullopt);
}

TEST_F(PidLockTest, ARecordThatIsNoneMeansNoNode) {
  const auto lock = PidLock::take(paths_);
  ASSERT_TRUE(lock);
  for (const char* bad : {"", "{", "[]", "{}", R"({"host": 1, "port": "x", "pid": 2})"}) {
    ASSERT_TRUE(write_file(paths_.cache / "exo.node", bad));
    EXPECT_EQ(find_node(paths_), std::nullopt) << bad;
  }
}

TEST_F(PidLockTest, ADirectoryThatCannotBeMadeIsAnError) {
  ASSERT_TRUE(write_file(root_ / "deep", "a file is in the way"));
  EXPECT_FALSE(PidLock::take(paths_));
}

}  // namespace
}  // namespace exo::app
