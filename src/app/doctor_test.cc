#include "app/doctor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace exo::app {
namespace {

using Verdict = Finding::Verdict;

TEST(Doctor, WarnsOfLittleMemory) {
  EXPECT_EQ(judge_memory(16ULL << 30, 8ULL << 30).verdict, Verdict::kGood);
  EXPECT_EQ(judge_memory(16ULL << 30, 1ULL << 29).verdict, Verdict::kWarning);
}

TEST(Doctor, WarnsOfALowLimitOfOpenFiles) {
  EXPECT_EQ(judge_open_files(1024, 1 << 20).verdict, Verdict::kGood);
  EXPECT_EQ(judge_open_files(256, 256).verdict, Verdict::kWarning);
}

TEST(Doctor, JudgesTheInstructionSet) {
  EXPECT_EQ(judge_isa({"scalar", "avx2"}, "avx2").verdict, Verdict::kGood);
  EXPECT_EQ(judge_isa({"scalar", "avx2"}, "scalar").verdict, Verdict::kWarning);
  EXPECT_EQ(judge_isa({"scalar"}, "scalar").verdict, Verdict::kWarning);
  EXPECT_EQ(judge_isa({"scalar", "avx2"}, "avx512").verdict, Verdict::kBad);
}

TEST(Doctor, SaysHowToGetAFirstModel) {
  EXPECT_NE(judge_models({}).advice.find("exo import"), std::string::npos);
  EXPECT_EQ(judge_models({"local/m"}).detail, "local/m");
}

TEST(Doctor, EndsWithACount) {
  const std::vector<Finding> findings{{Verdict::kGood, "a", "fine", ""},
                                      {Verdict::kBad, "b", "broken", "mend it"}};
  EXPECT_TRUE(doctor_text(findings).ends_with("1 wrong, 0 warnings\n"));
  EXPECT_NE(doctor_text(findings).find("-> mend it"), std::string::npos);
  EXPECT_EQ(to_json(findings)[1]["verdict"], "wrong");
}

}  // namespace
}  // namespace exo::app
