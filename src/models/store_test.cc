#include "models/store.h"

#include <gtest/gtest.h>

#include "models/checkpoint_builder.h"

namespace exo::models {
namespace {

class StoreTest : public testing::Test {
 protected:
  Store store() {
    return Store(Paths{.config = {},
                       .data = {},
                       .cache = {},
                       .models = directory_.path() / "models",
                       .more_models = {},
                       .read_only_models = {}});
  }
  std::filesystem::path make_file(const std::string& name) {
    write_bytes(directory_.path() / name, GgufBuilder().tiny_llama().bytes());
    return directory_.path() / name;
  }
  std::size_t entries() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path() / "models"))
      count += entry.path().filename() != ".lock" ? 1 : 0;
    return count;
  }
  TestDirectory directory_;
};

TEST_F(StoreTest, ImportsListsFindsAndRemoves) {
  const auto file = make_file("Tiny ü 模型.Q4_1.gguf");
  const auto model = store().import(file, ModelId{"local/tiny"}, ImportMode::kOwn);
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->card.n_layers, 1U);
  EXPECT_EQ(model->card.family, "llama");
  EXPECT_TRUE(open_checkpoint(model->path));
  ASSERT_EQ(store().list().size(), 1U);
  for (const char* name : {"local/tiny", "tiny", "TINY", "tiny:latest"})
    EXPECT_TRUE(store().find(name)) << name;
  EXPECT_EQ(store().find("other").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(store().import(file, ModelId{"local/tiny"}, ImportMode::kOwn));  // again is no error
  ASSERT_TRUE(store().remove("tiny"));
  EXPECT_TRUE(store().list().empty());
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(StoreTest, MakesANameOfTheFiles) {
  EXPECT_EQ(store().import(make_file("Tiny ü.Q4_1.gguf"), {}, ImportMode::kOwn)->id.value,
            "local/Tiny-.Q4_1");
  EXPECT_EQ(store().import(make_file("plain.gguf"), {}, ImportMode::kRegister)->id.value,
            "local/plain");
}

TEST_F(StoreTest, RefusesATakenOrBadName) {
  ASSERT_TRUE(store().import(make_file("a.gguf"), ModelId{"local/a"}, ImportMode::kOwn));
  write_bytes(directory_.path() / "b.gguf",
              GgufBuilder().tiny_llama().tensor("extra", {4}, 0, floats(4)).bytes());
  EXPECT_EQ(store()
                .import(directory_.path() / "b.gguf", ModelId{"local/a"}, ImportMode::kOwn)
                .error()
                .code,
            ErrorCode::kAlreadyExists);
  for (const char* name : {"", "/", "a/b/c", "../x", "a/..", ".a/b", "a b", "a--b/c", "-a"})
    EXPECT_FALSE(parse_model_id(name)) << name;
  EXPECT_EQ(parse_model_id("x")->value, "local/x");
}

TEST_F(StoreTest, WhatIsNotWholeIsNoModel) {
  const auto model = store().import(make_file("a.gguf"), {}, ImportMode::kOwn);
  ASSERT_TRUE(model);
  std::filesystem::remove(model->path.parent_path() / ".exo-model.json");
  EXPECT_TRUE(store().list().empty());  // no mark
  ASSERT_TRUE(store().import(make_file("a.gguf"), {}, ImportMode::kOwn));
  std::filesystem::remove(model->path);
  write_bytes(model->path, "short");
  EXPECT_TRUE(store().list().empty());  // other files than the mark says
  std::filesystem::create_directories(directory_.path() / "models" / ".partial-x");
  ASSERT_TRUE(
      store().import(make_file("a.gguf"), {}, ImportMode::kOwn));  // mends it, and sweeps up
  EXPECT_EQ(entries(), 1U);
}

TEST_F(StoreTest, AFailedImportLeavesNothing) {
  write_bytes(directory_.path() / "bad.gguf", "GGUF and then nonsense, which is not a model");
  EXPECT_FALSE(store().import(directory_.path() / "bad.gguf", {}, ImportMode::kOwn));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "models"));
}

TEST_F(StoreTest, AShortNameThatSeveralHaveIsAnError) {
  ASSERT_TRUE(store().import(make_file("a.gguf"), ModelId{"one/tiny"}, ImportMode::kOwn));
  ASSERT_TRUE(store().import(make_file("a.gguf"), ModelId{"two/tiny"}, ImportMode::kOwn));
  const auto found = store().find("tiny");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("one/tiny or two/tiny"), std::string::npos);
  EXPECT_TRUE(store().find("two/tiny"));
}

TEST(Card, GoesThroughTomlAndRefusesUnknownKeys) {
  Card card{.id = {"org/name"}, .storage_bytes = 1000, .n_layers = 2, .hidden_size = 64};
  card.num_key_value_heads = 4;
  card.sampling.temperature = 0.5;
  card.sampling_by_mode["thinking"].top_p = 0.9;
  const auto back = parse_card(to_toml(card));
  ASSERT_TRUE(back) << to_string(back.error());
  EXPECT_EQ(*back, card);
  EXPECT_EQ(parse_card(to_toml(card) + "\nsurprise = 1\n").error().code, ErrorCode::kInvalidInput);
  EXPECT_FALSE(parse_card("model_id = 3"));
  EXPECT_FALSE(parse_card("model_id ="));
  std::string trusting = to_toml(card);
  trusting.insert(0, "trust_remote_code = true\n");
  EXPECT_FALSE(parse_card(trusting));
}

TEST(Card, ItsSamplingDefaultsAreInARequestsRanges) {
  const auto with = [](const std::string& line) {
    const Card card{.id = {"org/name"}, .storage_bytes = 1000, .n_layers = 2, .hidden_size = 64};
    return parse_card(to_toml(card) + "\n[sampling_defaults]\n" + line);
  };
  const auto card = with("temperature = 0\ntop_k = -1\nrepetition_penalty = 1.05");
  ASSERT_TRUE(card) << to_string(card.error());
  EXPECT_EQ(card->sampling.temperature, 0.0);
  EXPECT_EQ(card->sampling.top_k, 0) << "-1 is off, too";
  for (const char* line :
       {"temperature = 2.5", "temperature = nan", "top_p = -0.1", "min_p = 1.5", "top_k = -2",
        "repetition_penalty = 0", "presence_penalty = 3", "frequency_penalty = -3",
        "temperature = \"hot\"", "thinking = {top_p = 2}"}) {
    const auto refused = with(line);
    ASSERT_FALSE(refused) << line;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput) << line;
  }
}

}  // namespace
}  // namespace exo::models
