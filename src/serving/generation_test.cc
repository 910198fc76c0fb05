// Generations over a model that says what the test wants.
#include "serving/generation.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serving/scheduler.h"

namespace exo::serving {
namespace {

using protocol::FinishReason;

constexpr std::uint32_t kEos = 0;

class FakeSequence final : public engine::Sequence {
 public:
  std::size_t length() const override { return length_; }
  Result<void> trim(std::size_t length) override {
    length_ = length;
    return {};
  }
  std::size_t bytes() const override { return 0; }
  std::size_t length_ = 0;
};

// One id is one character; it continues with `script`, then with the end of sequence.
class FakeModel final : public engine::Model {
 public:
  explicit FakeModel(std::string script) : script_(std::move(script)), logits_(128) {
    info_.vocab_size = logits_.size();
  }

  const engine::ModelInfo& info() const override { return info_; }
  std::unique_ptr<engine::Sequence> make_sequence() override {
    said_ = 0;
    return std::make_unique<FakeSequence>();
  }
  Result<void> prefill(engine::Sequence& sequence, std::span<const std::uint32_t> ids) override {
    static_cast<FakeSequence&>(sequence).length_ += ids.size();
    prefills.push_back(ids.size());
    return {};
  }
  Result<std::span<float>> decode(engine::Sequence& sequence,
                                  std::span<const std::uint32_t> ids) override {
    static_cast<FakeSequence&>(sequence).length_ += ids.size();
    if (broken) return fail(ErrorCode::kInternal, "a logit is NaN");
    std::ranges::fill(logits_, -20.0F);
    const std::size_t at = said_++;
    logits_[at < script_.size() ? static_cast<std::size_t>(script_[at]) : kEos] = 20;
    return std::span(logits_);
  }
  Result<std::vector<float>> logits(engine::Sequence&, std::span<const std::uint32_t>) override {
    return fail(ErrorCode::kUnsupported, "not in this test");
  }

  std::vector<std::size_t> prefills;
  bool broken = false;

 private:
  std::string script_;
  std::size_t said_ = 0;
  engine::ModelInfo info_;
  std::vector<float> logits_;
};

class CharacterStream final : public TextStream {
 public:
  std::string push(std::uint32_t id) override { return std::string(1, static_cast<char>(id)); }
  std::string finish() override { return {}; }
};

struct Ran {
  std::vector<protocol::Chunk> chunks = {};
  std::string text = {};
  std::size_t entries = 0;
  protocol::FinishChunk finish = {};
};

class GenerationTest : public testing::Test {
 protected:
  void use(FakeModel& model) {
    context.model = &model;
    context.eos_ids = {kEos};
    context.make_stream = [] { return std::make_unique<CharacterStream>(); };
    context.token_bytes = [](std::uint32_t id) { return std::string(1, static_cast<char>(id)); };
    context.prompt.encode = [](std::string_view text) -> Result<std::vector<std::uint32_t>> {
      return std::vector<std::uint32_t>(text.begin(), text.end());
    };
  }

  static protocol::TextRequest raw(std::string prompt) {
    protocol::TextRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    return request;
  }

  Ran run(const protocol::TextRequest& request, int cancel_after = -1) {
    Ran ran;
    Generation generation(context, request,
                          [&](protocol::Chunk chunk) { ran.chunks.push_back(std::move(chunk)); });
    for (int steps = 0; steps < 10'000; ++steps) {
      if (steps == cancel_after) generation.cancel();
      if (!generation.step()) break;
    }
    for (const protocol::Chunk& chunk : ran.chunks) {
      if (const auto* token = std::get_if<protocol::TokenChunk>(&chunk)) {
        ran.text += token->text;
        ran.entries += token->logprobs.size();
      }
      if (const auto* finish = std::get_if<protocol::FinishChunk>(&chunk)) ran.finish = *finish;
    }
    EXPECT_EQ(std::ranges::count_if(ran.chunks, protocol::is_terminal), 1);
    EXPECT_TRUE(protocol::is_terminal(ran.chunks.back()));
    return ran;
  }

  GenerationContext context;
};

TEST_F(GenerationTest, ends_at_the_end_of_sequence_which_counts_but_does_not_show) {
  FakeModel model("hello");
  use(model);
  const Ran ran = run(raw("abc"));
  EXPECT_EQ(ran.text, "hello");
  EXPECT_EQ(ran.finish.reason, FinishReason::kStop);
  EXPECT_EQ(ran.finish.stop_sequence, std::nullopt);
  EXPECT_EQ(ran.finish.usage.prompt_tokens, 3);
  EXPECT_EQ(ran.finish.usage.completion_tokens, 6);
  EXPECT_TRUE(std::isfinite(ran.finish.stats.generation_tps));
  EXPECT_EQ(ran.chunks.front(),
            protocol::Chunk(protocol::PrefillProgress{.processed_tokens = 0, .total_tokens = 3}));
}

TEST_F(GenerationTest, cuts_a_long_prompt_into_chunks) {
  FakeModel model("x");
  use(model);
  run(raw(std::string(300, 'a')));
  EXPECT_EQ(model.prefills, (std::vector<std::size_t>{128, 128, 43}));
}

TEST_F(GenerationTest, stops_at_the_earliest_stop_string_across_tokens) {
  FakeModel model("one two three");
  use(model);
  auto request = raw("a");
  request.stop = {"three", " two", "o t"};
  request.logprobs = true;
  const Ran ran = run(request);
  EXPECT_EQ(ran.text, "one");
  EXPECT_EQ(ran.entries, 3U);
  EXPECT_EQ(ran.finish.stop_sequence, " two");
}

TEST_F(GenerationTest, gives_back_what_it_held_for_a_stop_string_that_did_not_come) {
  FakeModel model("to be con");
  use(model);
  auto request = raw("a");
  request.stop = {"continued"};
  request.logprobs = true;
  const Ran ran = run(request);
  EXPECT_EQ(ran.text, "to be con");
  EXPECT_EQ(ran.entries, 9U);
}

TEST_F(GenerationTest, ends_with_length_at_the_limit_and_in_a_full_context) {
  FakeModel model("abcdefgh");
  use(model);
  auto request = raw("12345");
  request.max_output_tokens = 3;
  Ran ran = run(request);
  EXPECT_EQ(ran.text, "abc");
  EXPECT_EQ(ran.finish.reason, FinishReason::kLength);

  context.prompt.context_length = 7;
  request.max_output_tokens = 100;
  EXPECT_EQ(run(request).text, "ab");
  context.prompt.context_length = 5;
  ran = run(request);
  EXPECT_EQ(ran.text, "");
  EXPECT_EQ(ran.finish.reason, FinishReason::kLength);
  context.prompt.context_length = 4;
  ran = run(request);
  EXPECT_EQ(std::get<protocol::ErrorChunk>(ran.chunks.back()).error.message,
            "prompt is too long: 5 tokens > 4 maximum");
}

TEST_F(GenerationTest, can_be_cancelled_anywhere) {
  FakeModel model(std::string(50, 'x'));
  use(model);
  for (const int step : {0, 1, 2, 3, 10}) {
    const Ran ran = run(raw(std::string(200, 'a')), step);
    EXPECT_TRUE(ran.finish.cancelled) << step;
  }
}

TEST_F(GenerationTest, reports_logits_that_are_no_numbers) {
  FakeModel model("x");
  use(model);
  model.broken = true;
  const Ran ran = run(raw("ab"));
  EXPECT_EQ(std::get<protocol::ErrorChunk>(ran.chunks.back()).error.code, ErrorCode::kInternal);
}

TEST_F(GenerationTest, run_one_after_the_other_and_leave_the_queue_when_cancelled) {
  FakeModel model("hi");
  use(model);
  std::vector<std::string> ended;
  const auto scheduler = make_fifo_scheduler(context, [&](const TaskId& id, protocol::Chunk chunk) {
    if (protocol::is_terminal(chunk)) ended.push_back(id.value);
  });
  for (const char* id : {"a", "b", "c"}) scheduler->submit(TaskId{id}, raw("p"));
  scheduler->step();
  scheduler->cancel(TaskId{"b"});
  scheduler->cancel(TaskId{"unknown"});
  while (scheduler->step()) {
  }
  EXPECT_EQ(ended, (std::vector<std::string>{"b", "a", "c"}));
}

TEST_F(GenerationTest, puts_one_bos_in_front_of_a_raw_prompt) {
  FakeModel model("x");
  use(model);
  context.prompt.add_bos = true;
  context.prompt.bos_token_id = 'B';
  EXPECT_EQ(make_prompt(raw("a"), context.prompt)->ids, (std::vector<std::uint32_t>{'B', 'a'}));
  EXPECT_EQ(make_prompt(raw("Ba"), context.prompt)->ids, (std::vector<std::uint32_t>{'B', 'a'}));
}

protocol::TextRequest chat(std::vector<protocol::Message> messages) {
  protocol::TextRequest request;
  request.messages = std::move(messages);
  return request;
}

TEST(Prompt, merges_system_messages_and_takes_a_prefill_off_the_end) {
  auto request = chat({{.role = "system", .content = "one"},
                       {.role = "user", .content = "hi"},
                       {.role = "developer", .content = "two"},
                       {.role = "assistant", .content = "Sure"}});
  request.template_kwargs = R"({"custom": 5, "enable_thinking": true})";
  request.reasoning_effort = "low";
  PromptContext context;
  context.special_tokens = {{"bos_token", "<s>"}};
  const auto input = template_input(request, context);
  ASSERT_TRUE(input);
  EXPECT_EQ(input->prefill, "Sure");
  EXPECT_EQ(*parse_json(input->variables),
            *parse_json(R"({"bos_token":"<s>","messages":[{"role":"system","content":"one\ntwo"},
              {"role":"user","content":"hi"}],"add_generation_prompt":true,
              "reasoning_effort":"low","custom":5,"enable_thinking":true})"));
}

TEST(Prompt, hands_tool_arguments_over_as_objects) {
  const auto input =
      template_input(chat({{.role = "assistant",
                            .content = "",
                            .tool_calls = {{.id = "1", .name = "f", .arguments = R"({"a":1})"},
                                           {.id = "2", .name = "g", .arguments = "not json"}}}}),
                     PromptContext{});
  const Json calls = (*parse_json(input->variables))["messages"][0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"]["a"], 1);
  EXPECT_EQ(calls[1]["function"]["arguments"], "not json");
  EXPECT_EQ(input->prefill, "");
}

TEST(Prompt, says_what_is_wrong) {
  auto request = chat({{.role = "user", .content = "hi"}});
  EXPECT_NE(make_prompt(request, PromptContext{}).error().message.find("no chat template"),
            std::string::npos);
  request.template_kwargs = "[]";
  EXPECT_EQ(template_input(request, PromptContext{}).error().subject, "chat_template_kwargs");
}

}  // namespace
}  // namespace exo::serving
