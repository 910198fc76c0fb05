// A tokenizer.json. The input: a text to encode, the document.
#include "fuzz/exercise_tokenizer.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = exo::fuzz::parts_of(exo::fuzz::text_of(data, size), 2);
  if (const auto tokenizer = exo::engine::Tokenizer::open(parts[1]))
    exo::fuzz::exercise(*tokenizer, parts[0]);
  return 0;
}
