// A GGUF file: header, metadata, tensors, configuration, tokenizer document.
#include "fuzz/checkpoint_walk.h"
#include "fuzz/input.h"
#include "models/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static exo::fuzz::MemoryFile file("model.gguf");
  file.write(exo::fuzz::text_of(data, size));
  if (const auto model = exo::models::open_gguf(file.path())) exo::fuzz::walk_checkpoint(**model);
  return 0;
}
