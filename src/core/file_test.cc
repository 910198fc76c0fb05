#include "core/file.h"

#include <gtest/gtest.h>

#include "core/id.h"
#include "core/log.h"

namespace exo {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(std::filesystem::temp_directory_path() / ("exo-test-" + random_hex(12))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(File, ReplacesAsAWholeAndMakesParents) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "a" / "ü 模型";
  ASSERT_TRUE(write_file(path, "one"));
  ASSERT_TRUE(write_file(path, "two", 0600));
  EXPECT_EQ(read_file(path, 100), "two");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}),
            1);  // no temporary is left
}

TEST(File, RefusesWhatItCannotRead) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_file(directory.path() / "none", 100).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file(directory.path(), 100).error().code, ErrorCode::kInvalidInput);
  ASSERT_TRUE(write_file(directory.path() / "long", std::string(101, 'x')));
  EXPECT_EQ(read_file(directory.path() / "long", 100).error().code, ErrorCode::kInvalidInput);
  EXPECT_FALSE(read_file("/dev/zero", 100));
}

TEST(File, AFailedReplacementLeavesNothing) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "target" / "child");
  EXPECT_FALSE(write_file(directory.path() / "target", "text"));  // a directory that is not empty
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(Log, WritesAndRotatesItsFile) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "logs" / "exo.log";
  ASSERT_TRUE(log::set_up({.verbosity = -1, .file = file, .max_bytes = 1000, .kept_files = 2}));
  for (int i = 0; i < 100; ++i) log::info("line {}", i);
  EXPECT_NE(read_file(file, 10'000)->find("line 99"), std::string::npos);
  EXPECT_LE(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}), 3);
  EXPECT_FALSE(log::set_up({.file = "/dev/null/exo.log"}));
  ASSERT_TRUE(log::set_up({}));
}

}  // namespace
}  // namespace exo
