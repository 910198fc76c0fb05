#include "app/settings.h"

#include <gtest/gtest.h>
#include <map>

namespace exo::app {
namespace {

Environment environment_of(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Settings, AFlagBeatsTheEnvironmentWhichBeatsTheFile) {
  const Given file{{"api-port", {"1"}}, {"threads", {"3"}}, {"idle-ttl", {"5m"}}};
  const Environment environment = environment_of({{"EXO_API_PORT", "2"}, {"EXO_CPU_THREADS", "4"}});
  const auto settings = resolve_settings({{"api-port", {"7"}}}, environment, file);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->api_port, 7);
  EXPECT_EQ(settings->threads, 4u);
  EXPECT_EQ(settings->idle_ttl, std::chrono::minutes(5));
}

TEST(Settings, WithoutAnySourceTheDefaultsHold) {
  EXPECT_EQ(*resolve_settings({}, environment_of({}), {}), Settings{});
}

TEST(Settings, AListInTheEnvironmentIsSeparatedByCommas) {
  const auto settings =
      resolve_settings({}, environment_of({{"EXO_LISTEN", "127.0.0.1, ::1,"}}), {});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->listen, (std::vector<std::string>{"127.0.0.1", "::1"}));
}

TEST(Settings, ASwitchReadsTrueAndFalse) {
  EXPECT_FALSE(resolve_settings({{"no-auto-place", {"true"}}}, environment_of({}), {})->auto_place);
  const Environment off = environment_of({{"EXO_NO_AUTO_PLACE", "False"}});
  EXPECT_TRUE(resolve_settings({}, off, {})->auto_place);
}

TEST(Settings, ABadValueNamesItsSource) {
  const auto flag = resolve_settings({{"api-port", {"70000"}}}, environment_of({}), {});
  ASSERT_FALSE(flag);
  EXPECT_EQ(flag.error().subject, "--api-port");
  const auto variable = resolve_settings({}, environment_of({{"EXO_CPU_ISA", "mmx"}}), {});
  ASSERT_FALSE(variable);
  EXPECT_EQ(variable.error().subject, "EXO_CPU_ISA");
  const auto key = resolve_settings({}, environment_of({}), {{"cpu-precision", {"half"}}});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().subject, "cpu-precision in config.toml");
}

TEST(Settings, TheConfigurationFileTakesTextsNumbersSwitchesAndLists) {
  const auto given = parse_config(
      "api-port = 8000\nlisten = ['0.0.0.0', '::']\nno-auto-place = true\nidle-ttl = '2h'\n");
  ASSERT_TRUE(given);
  EXPECT_EQ(*given, (Given{{"api-port", {"8000"}},
                           {"listen", {"0.0.0.0", "::"}},
                           {"no-auto-place", {"true"}},
                           {"idle-ttl", {"2h"}}}));
}

TEST(Settings, TheConfigurationFileMustBeTomlWithKnownKeys) {
  EXPECT_FALSE(parse_config("api-port = "));
  const auto unknown = parse_config("api-prot = 1");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().subject, "api-prot");
  EXPECT_FALSE(parse_config("[listen]\na = 1"));
  EXPECT_FALSE(parse_config("listen = [[1]]"));
}

TEST(Settings, ARunnerGetsTheProcessorSettings) {
  Settings settings;
  settings.threads = 2;
  settings.cpus = {0, 3};
  settings.isa = "avx2";
  const std::vector<std::pair<std::string, std::string>> want{{"EXO_CPU_THREADS", "2"},
                                                              {"EXO_CPUS", "0,3"},
                                                              {"EXO_CPU_ISA", "avx2"},
                                                              {"EXO_CPU_PRECISION", "fast"}};
  EXPECT_EQ(runner_environment(settings), want);
}

TEST(Duration, HasAUnitOrCountsSeconds) {
  EXPECT_EQ(*parse_duration("90"), std::chrono::seconds(90));
  EXPECT_EQ(*parse_duration("30 min"), std::chrono::minutes(30));
  EXPECT_EQ(*parse_duration("2h"), std::chrono::hours(2));
  for (const char* bad :
       {"", "m", "-1s", "5 weeks", "1.5h", "99999999999999999999", "9999999999d"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(CpuList, HasNumbersAndRanges) {
  EXPECT_EQ(*parse_cpu_list("0,2, 4-6"), (std::vector<int>{0, 2, 4, 5, 6}));
  for (const char* bad : {"", "a", "3-1", "-1", "1-", "0-99999", "1,,2"}) {
    EXPECT_FALSE(parse_cpu_list(bad)) << bad;
  }
}

}  // namespace
}  // namespace exo::app
