// A chat template and its variables. The input: the variables as JSON, the template.
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "engine/chat_template.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = exo::fuzz::parts_of(exo::fuzz::text_of(data, size), 2);
  const auto variables = exo::parse_json(parts[0]);
  const auto chat_template = exo::engine::ChatTemplate::open(parts[1]);
  if (chat_template && variables) (void)chat_template->render(*variables);
  return 0;
}
