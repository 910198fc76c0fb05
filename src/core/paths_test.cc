#include "core/paths.h"

#include <gtest/gtest.h>
#include <map>

namespace exo {
namespace {

Environment with(std::map<std::string, std::string> variables) {
  return [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Paths, DefaultToTheXdgDirectories) {
  const auto paths = find_paths(with({{"HOME", "/home/u"}}));
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->config, "/home/u/.config/exo");
  EXPECT_EQ(paths->data, "/home/u/.local/share/exo");
  EXPECT_EQ(paths->cache, "/home/u/.cache/exo");
  EXPECT_EQ(paths->models, "/home/u/.local/share/exo/models");
}

TEST(Paths, XdgVariablesWinAndRelativeOnesAreIgnored) {
  const auto paths = find_paths(
      with({{"HOME", "/home/u"}, {"XDG_DATA_HOME", "/d"}, {"XDG_CACHE_HOME", "relative"}}));
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->data, "/d/exo");
  EXPECT_EQ(paths->cache, "/home/u/.cache/exo");
}

TEST(Paths, ExoHomeBeatsXdg) {
  const auto below =
      find_paths(with({{"HOME", "/home/u"}, {"EXO_HOME", "second"}, {"XDG_DATA_HOME", "/d"}}));
  ASSERT_TRUE(below);
  EXPECT_EQ(below->data, "/home/u/second");
  EXPECT_EQ(below->config, below->cache);
  const auto absolute = find_paths(with({{"EXO_HOME", "/elsewhere"}}));
  ASSERT_TRUE(absolute);
  EXPECT_EQ(absolute->models, "/elsewhere/models");
}

TEST(Paths, ModelDirectoriesAreListsWithTheirOldNames) {
  const auto paths = find_paths(with({{"HOME", "/h"},
                                      {"EXO_MODELS_DIR", "~/m"},
                                      {"EXO_MODELS_DIRS", "/a::~/b: "},
                                      {"EXO_MODELS_PATH", "/c"},
                                      {"EXO_MODELS_READ_ONLY_DIRS", "/r"}}));
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->models, "/h/m");
  EXPECT_EQ(paths->more_models, (std::vector<std::filesystem::path>{"/a", "/h/b", "/c"}));
  EXPECT_EQ(paths->read_only_models, (std::vector<std::filesystem::path>{"/r"}));
}

TEST(Paths, WithoutAnyHomeTheSentenceSaysWhatToSet) {
  const auto paths = find_paths(with({}));
  ASSERT_FALSE(paths);
  EXPECT_NE(paths.error().message.find("EXO_HOME"), std::string::npos);
}

TEST(Environment, TrueInAnyCaseEnables) {
  const auto environment = with({{"A", "TRUE"}, {"B", "1"}, {"C", "yes"}});
  EXPECT_TRUE(is_enabled(environment, "A"));
  EXPECT_TRUE(is_enabled(environment, "B"));
  EXPECT_FALSE(is_enabled(environment, "C"));
  EXPECT_FALSE(is_enabled(environment, "D"));
}

}  // namespace
}  // namespace exo
