#include "app/command_tree.h"

#include <gtest/gtest.h>

#include "app/command_line.h"

namespace exo::app {
namespace {

class CommandTreeTest : public testing::Test {
 protected:
  CommandTreeTest() {
    tree_.add("go", "goes")
        .text("PLACE", place_, "where to")
        .integer("--speed", speed_, {1, 9}, "how fast")
        .counts("--threads", counts_, {1, 4}, "how many")
        .settings({"api-port", "listen", "no-auto-place"})
        .runs([] { return 42; });
  }

  CommandTree tree_{"test", "exo 1", ""};
  std::string place_;
  std::optional<std::int64_t> speed_;
  std::vector<std::size_t> counts_;
};

TEST_F(CommandTreeTest, BindsPositionsAndFlags) {
  EXPECT_EQ(tree_.parse({"go", "home", "--speed", "3", "--threads", "1,2"}), std::nullopt);
  EXPECT_EQ(place_, "home");
  EXPECT_EQ(speed_, 3);
  EXPECT_EQ(counts_, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(tree_.invocation().run(), 42);
}

TEST_F(CommandTreeTest, CollectsSettings) {
  EXPECT_EQ(tree_.parse({"go", "--listen", "a", "--listen", "b", "--api-port=1", "--api-port=2",
                         "--no-auto-place", "home"}),
            std::nullopt);
  const Given& flags = tree_.invocation().flags;
  EXPECT_EQ(flags.find("listen")->second, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(flags.find("api-port")->second, (std::vector<std::string>{"2"}));
  EXPECT_EQ(flags.find("no-auto-place")->second, (std::vector<std::string>{"true"}));
  EXPECT_EQ(place_, "home");
}

TEST_F(CommandTreeTest, AWrongCommandLineHasItsOwnExitStatus) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"fly"},
                                                {"go", "--speed", "10"},
                                                {"go", "--speed", "x"},
                                                {"go", "a", "b"}}) {
    EXPECT_EQ(tree_.parse(wrong), kWrongUsage);
  }
}

TEST_F(CommandTreeTest, HelpAndVersionSucceed) {
  EXPECT_EQ(tree_.parse({"--help"}), 0);
  EXPECT_EQ(tree_.parse({"go", "--help"}), 0);
  EXPECT_EQ(tree_.parse({"--version"}), 0);
}

}  // namespace
}  // namespace exo::app
