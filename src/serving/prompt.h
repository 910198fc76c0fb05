// Messages → template variables → prompt text → ids. Source: models.md 6.3 and 6.4, api.md 4.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "protocol/request.h"

namespace exo::serving {

// What a prompt is made with; the functions are the tokenizer's and template's, or a test's.
struct PromptContext {
  std::function<Result<std::vector<std::uint32_t>>(std::string_view text)> encode = {};
  std::function<Result<std::string>(const Json& variables)> render = {};  // empty: no template
  std::map<std::string, std::string> special_tokens = {};                 // "bos_token" → "<s>"
  bool add_bos = false;
  std::optional<std::uint32_t> bos_token_id = {};
  bool has_thinking = false;       // the vocabulary has <think> and </think>
  std::size_t context_length = 0;  // 0: unknown
};

struct Prompt {
  std::vector<std::uint32_t> ids = {};
  std::size_t max_tokens = 0;  // how many may be generated; 0: the context is full
};

inline constexpr std::int64_t kDefaultMaxTokens = 32168;

// The template's variables and, apart from them, the text that the answer continues.
struct TemplateInput {
  std::string variables = {};  // a JSON object as text
  std::string prefill = {};
};
// Errors: kInvalidInput: template_kwargs is not a JSON object.
Result<TemplateInput> template_input(const protocol::TextRequest& request,
                                     const PromptContext& context);

// Errors: kInvalidInput: no template, or what the template says; kContextLength.
Result<Prompt> make_prompt(const protocol::TextRequest& request, const PromptContext& context);

}  // namespace exo::serving
