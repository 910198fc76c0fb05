// The part of measure_read_bandwidth() that is written per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"

namespace exo::kernels {

inline constexpr std::size_t kLineBytes = 256;

// The sum, modulo 2⁶⁴, of words[lines · 32].
using SumLinesFn = std::uint64_t(const std::uint64_t* words, std::size_t lines);

namespace scalar {
SumLinesFn sum_lines;
}
EXO_X86(namespace avx2 { SumLinesFn sum_lines; } namespace avx512 { SumLinesFn sum_lines; })

}  // namespace exo::kernels
