#include "app/completion.h"

#include <gtest/gtest.h>

#include "core/subprocess.h"

namespace exo::app {
namespace {

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    tree_.add("run", "Chat with it's model")
        .required("MODEL", text_, "a model")
        .text("--seed", text_, "a [number]")
        .flag("-v,--verbose", flag_, "log more");
    tree_.add("runner", "internal").hidden();
  }

  CommandTree tree_{"test", "exo 1", ""};
  std::string text_;
  bool flag_ = false;
};

TEST_F(CompletionTest, KnowsTheVisibleCommandsAndTheirFlags) {
  const auto commands = tree_.words();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].name, "run");
  EXPECT_TRUE(commands[0].takes_model);
  ASSERT_EQ(commands[0].flags.size(), 3u);  // --help is one
  EXPECT_TRUE(commands[0].flags[1].takes_value);
  EXPECT_FALSE(commands[0].flags[2].takes_value);
}

TEST_F(CompletionTest, TheBashScriptCompletesFlags) {
  const std::string script =
      bash_completion(tree_.words()) +
      "\nCOMP_WORDS=(exo run --s) COMP_CWORD=2; _exo; echo \"${COMPREPLY[@]}\"\n";
  std::string output;
  auto shell = Subprocess::start({.arguments = {"/bin/bash", "-c", script},
                                  .on_stdout = [&](const std::string& line) { output += line; },
                                  .on_stderr = {}});
  ASSERT_TRUE(shell);
  EXPECT_TRUE(shell->wait().ok());
  EXPECT_EQ(output, "--seed");
}

TEST_F(CompletionTest, TextsAreQuotedForTheShell) {
  EXPECT_NE(zsh_completion(tree_.words()).find("'run:Chat with it'\\''s model'"),
            std::string::npos);
  EXPECT_NE(fish_completion(tree_.words()).find("-d 'Chat with it'\\''s model'"),
            std::string::npos);
}

}  // namespace
}  // namespace exo::app
