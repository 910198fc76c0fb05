#include "engine/footprint.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

#include "kernels/thread_pool.h"
#include "models/checkpoint.h"

namespace exo::engine {
namespace {

namespace fs = std::filesystem;

void is_what_loading_finds(const fs::path& path, kernels::Precision precision) {
  const auto checkpoint = models::open_checkpoint(path);
  ASSERT_TRUE(checkpoint) << path << to_string(checkpoint.error());
  const LoadOptions options{.precision = precision};
  const auto foreseen = footprint(**checkpoint, options);
  ASSERT_TRUE(foreseen) << path << to_string(foreseen.error());
  kernels::ThreadPool pool({.threads = 2});
  const auto model = Model::load(**checkpoint, pool, options);
  ASSERT_TRUE(model) << path << to_string(model.error());
  const ModelInfo &want = (*model)->info(), &got = foreseen->model;
  EXPECT_EQ(got.weight_bytes, want.weight_bytes) << path;
  EXPECT_EQ(got.bytes_per_token, want.bytes_per_token) << path;
  EXPECT_EQ(got.kv_bytes_per_token, want.kv_bytes_per_token) << path;
  EXPECT_EQ(got.vocab_size, want.vocab_size) << path;
  EXPECT_EQ(got.layers, want.layers) << path;
  EXPECT_EQ(got.context_length, want.context_length) << path;
}

TEST(Footprint, IsWhatLoadingFinds) {
  for (const auto& entry :
       fs::directory_iterator(fs::path(EXO_SOURCE_DIR) / "tests/golden/logits")) {
    if (!entry.is_directory()) continue;
    for (const auto precision : {kernels::Precision::kFast, kernels::Precision::kExact})
      is_what_loading_finds(entry.path(), precision);
  }
}

TEST(Footprint, OfTheRealModels) {
  for (const char* variable : {"EXO_STARTER_GGUF", "EXO_SECOND_GGUF"}) {
    const char* path = std::getenv(variable);
    ASSERT_NE(path, nullptr) << "set " << variable << ", as ./bootstrap test does";
    is_what_loading_finds(path, kernels::Precision::kFast);
  }
}

TEST(Footprint, OfALayerWithAWindowStopsGrowing) {
  const auto path = fs::path(EXO_SOURCE_DIR) / "tests/golden/logits/gemma3";
  const auto checkpoint = models::open_checkpoint(path);
  ASSERT_TRUE(checkpoint);
  const auto needed = footprint(**checkpoint, {});
  ASSERT_TRUE(needed);
  // A context of 64 is below one step of growth: every position of every layer.
  EXPECT_EQ(needed->cache_bytes, 64 * needed->model.kv_bytes_per_token);
  EXPECT_GT(needed->parameters, 0U);
}

}  // namespace
}  // namespace exo::engine
