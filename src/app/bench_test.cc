#include "app/bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace exo::app {
namespace {

const BenchResult kResult{.threads = 2,
                          .prefill_tokens_per_s = 1500.5,
                          .decode_tokens_per_s = 290.25,
                          .load_s = 0.125,
                          .first_token_s = 0.5,
                          .peak_anonymous_bytes = 123456789,
                          .weight_bytes = 98000000,
                          .cache_bytes = 10000000,
                          .bytes_per_token = 100000000,
                          .bandwidth_bytes_per_s = 34e9,
                          .bandwidth_share = 0.85,
                          .arithmetic_per_s = 400e9,
                          .prefill_share = 0.5};

TEST(Bench, AResultSurvivesItsJson) {
  const auto back = bench_result_from(parse_json(dump_json(to_json(kResult))).value());
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, kResult);
}

TEST(Bench, TheJsonHasTheDocumentedKeys) {
  const Json json = to_json(kResult);
  for (const char* key :
       {"threads", "prefill_tokens_per_s", "decode_tokens_per_s", "load_s", "first_token_s",
        "peak_anonymous_bytes", "bytes_per_token", "bandwidth_bytes_per_s", "bandwidth_share"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(Bench, AMeasurementWithoutAKeyIsAnError) {
  Json json = to_json(kResult);
  json.erase("load_s");
  const auto result = bench_result_from(json);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().subject, "load_s");
  EXPECT_FALSE(bench_result_from(Json::array()));
}

TEST(Bench, TheTableHasALinePerThreadCount) {
  const std::string table = bench_table({kResult, kResult});
  EXPECT_EQ(std::ranges::count(table, '\n'), 3);
  EXPECT_NE(table.find("290.2"), std::string::npos);
  EXPECT_NE(table.find("85%"), std::string::npos);
}

}  // namespace
}  // namespace exo::app
