// The starter model against its peer: greedy choices in exact precision.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json.h"
#include "engine/engine.h"
#include "models/checkpoint.h"

namespace exo::engine {
namespace {

using kernels::Precision;

std::string golden(const char* name) {
  return read_file(std::filesystem::path(EXO_SOURCE_DIR) / "tests/golden" / name, 10 << 20).value();
}

// The starter model, whose file ./bootstrap test fetches and names.
class StarterModel : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("EXO_STARTER_GGUF");
    ASSERT_NE(path, nullptr)
        << "set EXO_STARTER_GGUF to the starter model's GGUF file, as ./bootstrap test does";
    auto opened = models::open_checkpoint(path);
    ASSERT_TRUE(opened) << to_string(opened.error());
    checkpoint_ = std::move(*opened);
  }

  std::unique_ptr<Model> load(Precision precision) {
    auto model = Model::load(*checkpoint_, pool_, {.precision = precision});
    EXPECT_TRUE(model) << to_string(model.error());
    return std::move(*model);
  }

  kernels::ThreadPool pool_{{.threads = 2}};
  std::unique_ptr<models::Checkpoint> checkpoint_;
};

std::vector<float> all_logits(Model& model, std::span<const std::uint32_t> ids) {
  const auto sequence = model.make_sequence();
  auto logits = model.logits(*sequence, ids);
  EXPECT_TRUE(logits) << to_string(logits.error());
  return std::move(*logits);
}

TEST_F(StarterModel, ExactChoosesThePeersTokenWhereverThePeerIsSure) {
  const auto model = load(Precision::kExact);
  const std::size_t vocabulary = model->info().vocab_size;
  std::size_t sure = 0, unsure = 0, exceptions = 0, against_a_sure_peer = 0;
  for (const Json& run : Json::parse(golden("greedy.json"))) {
    auto ids = run["prompt_ids"].get<std::vector<std::uint32_t>>();
    const std::size_t prompt = ids.size();
    const auto text = run["ids"].get<std::vector<std::uint32_t>>();
    ids.insert(ids.end(), text.begin(), text.end() - 1);
    const auto logits = all_logits(*model, ids);
    for (std::size_t step = 0; step < text.size(); ++step) {
      const auto row = std::span(logits).subspan((prompt - 1 + step) * vocabulary, vocabulary);
      const auto best = static_cast<std::uint32_t>(std::ranges::max_element(row) - row.begin());
      const double gap = run["gaps"][step], deviation = run["deviations"][step];
      (gap > deviation ? sure : unsure) += 1;
      if (best == text[step]) continue;
      ++exceptions;
      against_a_sure_peer += gap > deviation ? 1U : 0U;
      std::printf(
          "exception: %s, token %zu: %u instead of the peer's %u; its gap %.4f, its deviation "
          "%.4f\n",
          run["prompt"].get<std::string>().c_str(), step, best, text[step], gap, deviation);
    }
  }
  std::printf("%zu positions where the peer is sure, %zu where it is not, %zu exceptions\n", sure,
              unsure, exceptions);
  EXPECT_GE(sure, 1000U);
  EXPECT_EQ(against_a_sure_peer, 0U);
}

}  // namespace
}  // namespace exo::engine
