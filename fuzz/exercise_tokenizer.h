// Encodes and decodes with a tokenizer as the program does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/detokenizer.h"
#include "engine/tokenizer.h"

namespace exo::fuzz {

inline void exercise(const engine::Tokenizer& tokenizer, std::string_view text) {
  constexpr std::size_t kIds = 64;  // a document may claim four thousand million
  std::vector<std::uint32_t> ids;
  if (auto encoded = tokenizer.encode(text)) ids = std::move(*encoded);
  for (std::uint32_t id = 0; id < std::min(tokenizer.size(), kIds); ++id) ids.push_back(id);
  ids.push_back(static_cast<std::uint32_t>(tokenizer.size()));
  ids.resize(std::min(ids.size(), 2 * kIds));
  (void)tokenizer.decode(ids, /*skip_special=*/true);
  for (const bool keep_special : {true, false}) {
    engine::Detokenizer stream(tokenizer, keep_special);
    for (const std::uint32_t id : ids) (void)stream.push(id);
    (void)stream.finish();
  }
  (void)tokenizer.id_of(text);
}

}  // namespace exo::fuzz
