// Round trips of every type, and hostile frames.
#include "protocol/protocol.h"

#include <array>
#include <gtest/gtest.h>
#include <random>

#include <nlohmann/json.hpp>

#include "core/cbor.h"
#include "protocol/frame.h"

namespace exo::protocol {
namespace {

TextRequest full_request() {
  TextRequest request;
  request.model = ModelId{"org/name"};
  request.messages = {
      Message{.role = "system", .content = "be kind"},
      Message{.role = "assistant",
              .content = "",
              .reasoning_content = "hm",
              .tool_calls = {ToolCall{.id = "1", .name = "f", .arguments = "{\"a\":1}"}}},
      Message{.role = "tool", .content = "ü", .tool_call_id = "1", .name = "f"}};
  request.prompt = "raw";
  request.max_output_tokens = 7;
  request.sampling = SamplingParameters{.temperature = 0.5,
                                        .top_p = 0.9,
                                        .min_p = 0.1,
                                        .top_k = 3,
                                        .repetition_penalty = 1.1,
                                        .presence_penalty = 0.2,
                                        .frequency_penalty = 0.3,
                                        .repetition_context_size = 5,
                                        .seed = -9,
                                        .logit_bias = {{4'000'000'000U, -1.5}, {2, 3.0}}};
  request.stop = {"a", "b"};
  request.logprobs = request.include_reasoning_logprobs = request.stream = true;
  request.top_logprobs = 4;
  request.reasoning_effort = "low";
  request.enable_thinking = false;
  request.template_kwargs = "{\"x\":[1]}";
  return request;
}

std::vector<Chunk> all_chunks() {
  const TokenLogprob half{.token = "\xEF\xBF\xBD", .bytes = "\xC3", .logprob = -0.25};
  return {PrefillProgress{.processed_tokens = 1, .total_tokens = 2},
          TokenChunk{.text = "hé",
                     .is_thinking = true,
                     .logprobs = {TokenChunk::Entry{.chosen = half, .top = {half, half}}}},
          FinishChunk{.reason = FinishReason::kToolCalls,
                      .stop_sequence = "x",
                      .cancelled = true,
                      .usage = Usage{.prompt_tokens = 1,
                                     .completion_tokens = 2,
                                     .cached_tokens = 3,
                                     .reasoning_tokens = 4},
                      .stats = GenerationStats{.prompt_tps = 1.5,
                                               .generation_tps = 2.5,
                                               .prompt_tokens = 5,
                                               .generation_tokens = 6,
                                               .peak_memory_bytes = 7,
                                               .prefix_cache_hit = "partial"}},
          ErrorChunk{.error =
                         Error{.code = ErrorCode::kNoSpace, .message = "full", .subject = "disk"}}};
}

std::vector<Task> all_tasks() {
  return {Hello{.version = 3}, LoadModel{.id = {"1"}, .path = "p", .model = {"m"}},
          Generate{.id = {"2"}, .request = full_request()}, Cancel{.id = {"3"}}, Shutdown{}};
}

std::vector<Report> all_reports() {
  std::vector<Report> reports = {
      Hello{}, RunnerStatus{.state = RunnerState::kWarmingUp},
      RunnerStatus{.state = RunnerState::kFailed,
                   .error = Error{.code = ErrorCode::kIo, .message = "m", .subject = "s"}},
      LoadProgress{.done_bytes = 1, .total_bytes = 2},
      LoadedModel{.context_length = 1, .weight_bytes = 2, .load_seconds = 0.5}};
  for (const Chunk& chunk : all_chunks()) reports.push_back(TaskChunk{.id = {"4"}, .chunk = chunk});
  return reports;
}

TEST(Protocol, a_request_comes_back_as_it_was) {
  EXPECT_EQ(text_request_from(to_json(full_request())), full_request());
  const TextRequest small{.model = {"m"}};
  EXPECT_EQ(text_request_from(to_json(small)), small);
}

TEST(Protocol, every_chunk_comes_back_as_it_was) {
  for (const Chunk& chunk : all_chunks()) EXPECT_EQ(chunk_from(to_json(chunk)), chunk);
}

TEST(Protocol, every_task_and_report_comes_back_through_a_frame) {
  FrameReader reader;
  const auto round_trip = [&](const Json& json) {
    reader.append(*encode_frame(json));
    return **reader.next();
  };
  for (const Task& task : all_tasks()) {
    const auto back = task_from(round_trip(to_json(task)));
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(back->index(), task.index());
    EXPECT_EQ(to_json(*back), to_json(task));
  }
  for (const Report& report : all_reports()) {
    const auto back = report_from(round_trip(to_json(report)));
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(back->index(), report.index());
    EXPECT_EQ(to_json(*back), to_json(report));
  }
  EXPECT_FALSE(reader.next()->has_value());
}

TEST(Protocol, a_bad_field_is_named) {
  Json json = to_json(full_request());
  json["top_logprobs"] = "many";
  EXPECT_EQ(text_request_from(json).error().subject, "top_logprobs");
  EXPECT_FALSE(task_from(Json::array()));
  EXPECT_FALSE(report_from(Json{{"Unknown", Json::object()}}));
}

TEST(Frame, comes_whole_out_of_single_bytes) {
  const auto frame = encode_frame(Json{{"a", 1}});
  FrameReader reader;
  for (std::size_t i = 0; i < frame->size(); ++i) {
    EXPECT_FALSE(reader.next()->has_value());
    reader.append(std::span(*frame).subspan(i, 1));
  }
  EXPECT_EQ(**reader.next(), (Json{{"a", 1}}));
}

TEST(Frame, that_is_too_long_breaks_the_stream) {
  FrameReader reader;
  const std::array<std::byte, 4> length = {std::byte{1}, std::byte{0}, std::byte{0},
                                           std::byte{0x10}};
  reader.append(length);
  EXPECT_EQ(reader.next().error().code, ErrorCode::kInvalidInput);
  reader.append(*encode_frame(Json(1)));
  EXPECT_FALSE(reader.next());
}

TEST(Frame, mutated_ones_give_errors_or_values_but_never_crash) {
  std::mt19937 random(7);
  std::vector<std::vector<std::byte>> frames;
  for (const Task& task : all_tasks()) frames.push_back(*encode_frame(to_json(task)));
  for (const Report& report : all_reports()) frames.push_back(*encode_frame(to_json(report)));
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::vector<std::byte> frame = frames[random() % frames.size()];
    for (unsigned change = 0, count = 1 + random() % 3; change < count; ++change)
      frame[4 + random() % (frame.size() - 4)] = static_cast<std::byte>(random());
    FrameReader reader;
    reader.append(frame);
    const auto json = reader.next();
    if (!json) ++refused;
    if (!json || !*json) continue;
    if (!task_from(**json) && !report_from(**json)) ++refused;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace exo::protocol
