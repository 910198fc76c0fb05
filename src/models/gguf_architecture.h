// What a GGUF architecture does differently from the Hugging Face model that it was made from:
// names, row order, norms. Source: gguf.md 4.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace exo::models {

struct GgufNamePair {
  std::string_view hugging_face, gguf;
};

struct GgufArchitecture {
  std::string_view name;
  std::span<const GgufNamePair> layer_names;  // modules of a layer
  bool interleaves_heads = false;             // the rows of q and k are in the order of gguf.md 4.2
  bool norms_hold_one_plus = false;           // norm weights are stored as 1 + w, gguf.md 4.3
};

// nullptr: not supported.
const GgufArchitecture* gguf_architecture(std::string_view name);
// The supported ones: "gemma3, llama".
std::string gguf_architecture_names();

// The module's name in a file, or nothing if the architecture has no such module.
std::optional<std::string> gguf_module(const GgufArchitecture& architecture,
                                       std::string_view module);

}  // namespace exo::models
