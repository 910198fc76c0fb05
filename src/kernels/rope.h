// Rotary position embedding: frequencies of models.md 2.3, and the rotation of heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/isa.h"

namespace exo::kernels {

struct Llama3Scaling {
  float factor = 1;
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  float original_context = 8192;  // original_max_position_embeddings
};

// f_i for i in [0, rotated/2): base^(−2i/rotated).
std::vector<float> default_frequencies(std::size_t rotated, float base);
// models.md 2.3, type llama3.
std::vector<float> llama3_frequencies(std::size_t rotated, float base,
                                      const Llama3Scaling& scaling);

// cos and sin of position·f_i: f32[rotated/2] each. Angles are formed in f64, since f32 loses them
// at long contexts.
void rope_angles(const std::vector<float>& frequencies, std::size_t position, float* cosines,
                 float* sines);

enum class RopePairs : std::uint8_t {
  kHalfSplit,
  kInterleaved
};  // (x_i, x_{i+R/2}) or (x_{2i}, x_{2i+1})

// Rotates the first `rotated` dimensions of each head in place. x: f32[heads, head_dim]. With u =
// 2⁻²⁴, every variant is within 3u·(|a| + |b|) of the scalar one for a pair (a, b).
using RopeFn = void(float* x, std::size_t heads, std::size_t head_dim, std::size_t rotated,
                    const float* cosines, const float* sines, RopePairs pairs);
extern const Variants<RopeFn>
    rope;  // NOLINT(readability-identifier-naming): called like a function

namespace scalar {
RopeFn rope;
}
EXO_X86(namespace avx2 { RopeFn rope; } namespace avx512 { RopeFn rope; })

}  // namespace exo::kernels
