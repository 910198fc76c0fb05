// The front door of kernels: arithmetic on tiles and vectors, with a scalar reference for each
// routine. Knows shapes, not models.
//
//   isa.h          the instruction sets, which one is in use, Variants<Fn>
//   thread_pool.h  parallel regions; cpu_limits.h: how many CPUs there are for them
//   encoding.h     how a weight is stored in a tile
//   matrix.h       a weight matrix as tiles
//   pack.h         rows of a container into tiles
//   multiply.h     matrix × vector(s), fused SwiGLU
//   vector_ops.h   RMSNorm, SwiGLU, softmax, e^x, conversions
//   rope.h         frequencies and rotation
//   attention.h    decode and prefill over a KV cache
//   bandwidth.h    what the machine's memory can do
//
// The main path enters at multiply() and attend().
#pragma once

#include "kernels/attention.h"
#include "kernels/multiply.h"
#include "kernels/pack.h"
#include "kernels/rope.h"
#include "kernels/thread_pool.h"
#include "kernels/vector_ops.h"
