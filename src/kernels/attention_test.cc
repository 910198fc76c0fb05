// attend() on every instruction set against a plain f64 attention, for the shapes that decode and
// prefill meet, and its independence of threads.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <ostream>
#include <vector>

#include "kernels/isa.h"
#include "kernels/test_vectors.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

struct Shape {
  FloatType type = FloatType::kBf16;
  std::size_t kv_heads = 2, group = 3, head_dim = 64;
  std::size_t first = 0, count = 1, window = 0;

  std::size_t heads() const { return kv_heads * group; }
  std::size_t row() const { return heads() * head_dim; }
  std::size_t kv_row() const { return kv_heads * head_dim; }
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "type " << int{static_cast<std::uint8_t>(s.type)} << ", kv heads " << s.kv_heads
             << ", group " << s.group << ", head_dim " << s.head_dim << ", first " << s.first
             << ", count " << s.count << ", window " << s.window;
}

// A cache filled with random keys and values up to the last position that the shape needs; some end
// there, so that a sanitizer sees who reads on.
class Cache {
 public:
  explicit Cache(const Shape& shape)
      : shape_(shape),
        capacity_(shape.first + shape.count + shape.first % 2 * 5),
        keys_(shape.kv_heads * capacity_ * shape.head_dim * size_of(shape.type), std::byte{0xff}),
        values_(keys_.size(), std::byte{0xff}),  // NaN in each type, where nothing is stored
        k_(random_vector((shape.first + shape.count) * shape.kv_row(), 1, -2, 2)),
        v_(random_vector(k_.size(), 2)) {
    store_kv(view(), 0, k_.data(), v_.data(), shape.first + shape.count, shape.kv_row());
  }

  KvView view() {
    return {.type = shape_.type,
            .keys = keys_.data(),
            .values = values_.data(),
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.head_dim,
            .capacity = capacity_};
  }
  double key(std::size_t head, std::size_t position, std::size_t d) const {
    return rounded(k_[position * shape_.kv_row() + head * shape_.head_dim + d]);
  }
  double value(std::size_t head, std::size_t position, std::size_t d) const {
    return rounded(v_[position * shape_.kv_row() + head * shape_.head_dim + d]);
  }

 private:
  double rounded(float x) const {
    if (shape_.type == FloatType::kBf16) return bf16_to_float(float_to_bf16(x));
    if (shape_.type == FloatType::kF16) return f16_to_float(float_to_f16(x));
    return x;
  }

  Shape shape_;
  std::size_t capacity_;
  std::vector<std::byte> keys_, values_;
  std::vector<float> k_, v_;
};

float scale_of(const Shape& shape) { return 1 / std::sqrt(static_cast<float>(shape.head_dim)); }

std::vector<float> queries_of(const Shape& shape) {
  return random_vector(shape.count * shape.row(), 3, -2, 2);
}

// The formula of attention.h, word for word.
std::vector<double> plain_attention(const Shape& shape, const Cache& cache,
                                    const std::vector<float>& q) {
  std::vector<double> out(q.size());
  for (std::size_t i = 0; i < shape.count; ++i) {
    const std::size_t end = shape.first + i + 1;
    const std::size_t begin = shape.window > 0 && end > shape.window ? end - shape.window : 0;
    for (std::size_t h = 0; h < shape.heads(); ++h) {
      const std::size_t at = i * shape.row() + h * shape.head_dim;
      std::vector<double> p;
      for (std::size_t j = begin; j < end; ++j) {
        double s = 0;
        for (std::size_t d = 0; d < shape.head_dim; ++d)
          s += q[at + d] * cache.key(h / shape.group, j, d);
        p.push_back(s * scale_of(shape));
      }
      const double largest = *std::ranges::max_element(p);
      double sum = 0;
      for (double& s : p) sum += s = std::exp(s - largest);
      for (std::size_t j = begin; j < end; ++j) {
        for (std::size_t d = 0; d < shape.head_dim; ++d) {
          out[at + d] += p[j - begin] / sum * cache.value(h / shape.group, j, d);
        }
      }
    }
  }
  return out;
}

// Rows of q and out lie `gap` floats further apart than they are long.
std::vector<float> run_attend(const Shape& shape, Cache& cache, const std::vector<float>& q,
                              ThreadPool& pool, std::size_t gap = 0) {
  const std::size_t stride = shape.row() + gap;
  std::vector<float> wide(shape.count * stride), out(shape.count * stride, 7), result;
  for (std::size_t i = 0; i < shape.count; ++i) {
    std::copy_n(q.begin() + static_cast<std::ptrdiff_t>(i * shape.row()), shape.row(),
                wide.begin() + static_cast<std::ptrdiff_t>(i * stride));
  }
  attend(cache.view(),
         {.heads = shape.heads(),
          .first = shape.first,
          .count = shape.count,
          .window = shape.window,
          .scale = scale_of(shape)},
         wide.data(), stride, out.data(), stride, pool);
  for (std::size_t i = 0; i < shape.count; ++i) {
    const auto row = out.begin() + static_cast<std::ptrdiff_t>(i * stride);
    result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(shape.row()));
    for (std::size_t g = 0; g < gap; ++g)
      EXPECT_EQ(row[static_cast<std::ptrdiff_t>(shape.row() + g)], 7);
  }
  return result;
}

// |q|, |k| ≤ 2, so |q·k|·scale ≤ 4·sqrt(head_dim) and its f32 sum errs by at most
// γ_head_dim·4·sqrt(head_dim); twice that is the relative error of a weight. Summing n weighted
// values below 1 adds γ_n. The scores' actual size is far below these bounds.
double error_bound(const Shape& shape) {
  const double n = static_cast<double>(shape.first + shape.count), u = kUlp;
  const double d = static_cast<double>(shape.head_dim);
  return 2 * (d * u * 4 * std::sqrt(d)) + n * u + 4e-6;
}

void expect_matches(const Shape& shape, ThreadPool& pool, std::size_t gap = 0) {
  Cache cache(shape);
  const auto q = queries_of(shape);
  const auto want = plain_attention(shape, cache, q);
  for (const Isa isa : available_isas()) {
    const UseIsa use(isa);
    const auto got = run_attend(shape, cache, q, pool, gap);
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      worst = std::max(worst, std::isnan(got[i]) ? 1e9 : std::abs(got[i] - want[i]));
    }
    EXPECT_LE(worst, std::min(error_bound(shape), 1e-4)) << name(isa) << ", " << shape;
  }
}

constexpr FloatType kTypes[] = {FloatType::kF32, FloatType::kF16, FloatType::kBf16};

TEST(Attend, DecodeMatchesThePlainFormula) {
  ThreadPool pool({.threads = 2});
  for (const std::size_t positions : {1, 2, 127, 128, 129, 255, 256, 257, 1000}) {
    for (const FloatType type : kTypes)
      expect_matches({.type = type, .first = positions - 1}, pool);
  }
}

TEST(Attend, EveryHeadDimensionMatches) {
  ThreadPool pool({.threads = 1});
  for (const std::size_t head_dim : {1, 7, 16, 40, 48, 64, 80, 96, 128, 200, 256}) {
    for (const FloatType type : kTypes) {
      expect_matches({.type = type, .head_dim = head_dim, .first = 140}, pool);
      expect_matches({.type = type, .head_dim = head_dim, .first = 130, .count = 7}, pool);
    }
  }
}

TEST(Attend, EveryRatioOfHeadsMatches) {
  ThreadPool pool({.threads = 2});
  for (const std::size_t group : {1, 2, 3, 4, 5, 8, 16, 71}) {
    for (const std::size_t count : {1, 2, 33}) {
      expect_matches({.kv_heads = 2, .group = group, .head_dim = 16, .first = 99, .count = count},
                     pool);
    }
  }
}

TEST(Attend, PrefillMatchesThePlainFormula) {
  ThreadPool pool({.threads = 2});
  for (const std::size_t count : {2, 7, 16, 33, 128, 129, 512}) {
    for (const std::size_t first : {0, 1, 100, 255, 300}) {
      if (count == 512 && first % 100 != 0) continue;  // the reference is slow
      expect_matches({.kv_heads = 1, .head_dim = 40, .first = first, .count = count}, pool, 3);
    }
  }
}

TEST(Attend, AWindowHidesWhatLiesBefore) {
  ThreadPool pool({.threads = 2});
  for (const std::size_t window : {1, 5, 100, 128, 129, 300, 5000}) {
    for (const std::size_t count : {1, 3, 33, 200}) {
      for (const std::size_t first : {0, 128, 290}) {
        expect_matches(
            {.kv_heads = 1, .head_dim = 16, .first = first, .count = count, .window = window},
            pool);
      }
    }
  }
}

TEST(Attend, TheNumberOfThreadsNeverChangesABit) {
  for (const std::size_t count : {1, 2, 33, 512}) {
    const Shape shape{
        .kv_heads = 3, .first = 700, .count = count, .window = count == 33 ? 50U : 0U};
    Cache cache(shape);
    const auto q = queries_of(shape);
    for (const Isa isa : available_isas()) {
      if (isa == Isa::kScalar && count > 33) continue;  // slow
      const UseIsa use(isa);
      ThreadPool one({.threads = 1});
      const auto want = run_attend(shape, cache, q, one);
      for (const std::size_t threads : {2, 3}) {
        ThreadPool pool({.threads = threads});
        EXPECT_EQ(run_attend(shape, cache, q, pool), want) << name(isa) << ", " << threads;
      }
    }
  }
}

TEST(Attend, ChunksOfAnySizeAgree) {
  ThreadPool pool({.threads = 2});
  const Shape whole{.count = 200};
  Cache cache(whole);
  const auto q = queries_of(whole);
  for (const Isa isa : available_isas()) {
    const UseIsa use(isa);
    const auto want = run_attend(whole, cache, q, pool);
    for (const std::size_t chunk : {1, 3, 64, 199}) {
      float worst = 0;
      for (std::size_t first = 0; first < whole.count; first += chunk) {
        const Shape part{.first = first, .count = std::min(chunk, whole.count - first)};
        const auto begin = q.begin() + static_cast<std::ptrdiff_t>(first * whole.row());
        const std::vector<float> rows(
            begin, begin + static_cast<std::ptrdiff_t>(part.count * whole.row()));
        const auto got = run_attend(part, cache, rows, pool);
        for (std::size_t i = 0; i < got.size(); ++i) {
          worst = std::max(worst, std::abs(got[i] - want[first * whole.row() + i]));
        }
      }
      EXPECT_LE(worst, 2e-6F) << name(isa) << ", chunks of " << chunk;
    }
  }
}

TEST(Attend, ANanInAKeyReachesTheQueriesThatSeeItAndNoOther) {
  ThreadPool pool({.threads = 2});
  for (const std::size_t count : {1, 3, 40}) {
    const Shape shape{.type = FloatType::kF32, .kv_heads = 2, .first = 200, .count = count};
    Cache cache(shape);
    const KvView view = cache.view();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::size_t bad = 200 + count / 2;  // of kv head 1
    std::memcpy(view.keys + ((view.capacity + bad) * view.head_dim + 5) * sizeof nan, &nan,
                sizeof nan);
    for (const Isa isa : available_isas()) {
      const UseIsa use(isa);
      const auto out = run_attend(shape, cache, queries_of(shape), pool);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t query = i / shape.row(), head = i % shape.row() / shape.head_dim;
        const bool sees = head >= shape.group && shape.first + query >= bad;
        ASSERT_EQ(std::isnan(out[i]), sees) << name(isa) << ", " << query << ", " << head;
      }
    }
  }
}

TEST(Attend, HugeScoresChooseOneKey) {
  ThreadPool pool({.threads = 1});
  for (const std::size_t count : {1, 20}) {
    const Shape shape{
        .type = FloatType::kF32, .kv_heads = 1, .head_dim = 16, .first = 300, .count = count};
    Cache cache(shape);
    auto q = queries_of(shape);
    for (float& x : q) x *= 1e30F;
    for (const Isa isa : available_isas()) {
      const UseIsa use(isa);
      for (const float x : run_attend(shape, cache, q, pool)) {
        ASSERT_LE(std::abs(x), 1.00001F) << name(isa);  // a value, or a mean of a few
      }
    }
  }
}

TEST(Attend, QueriesKeysAndValuesOfTenThousandDoNotOverflow) {
  ThreadPool pool({.threads = 1});
  constexpr std::size_t kTarget = 77;  // the one key that points where the queries point
  for (const FloatType type : kTypes) {
    for (const std::size_t count : {1, 40}) {
      const Shape shape{.type = type, .first = 200, .count = count};
      Cache cache(shape);
      for (std::size_t p = 0; p < shape.first + count; ++p) {
        const std::vector<float> k(shape.kv_row(), p == kTarget ? 1e4F : -1e4F);
        const std::vector<float> v(shape.kv_row(), p == kTarget ? -8192.0F : 1e4F);
        store_kv(cache.view(), p, k.data(), v.data(), 1, shape.kv_row());
      }
      const std::vector<float> q(count * shape.row(), 1e4F);
      for (const Isa isa : available_isas()) {
        const UseIsa use(isa);
        for (const float x : run_attend(shape, cache, q, pool))
          ASSERT_FLOAT_EQ(x, -8192) << name(isa) << ", " << shape;
      }
    }
  }
}

TEST(Attend, NoQueriesWriteNothing) {
  ThreadPool pool({.threads = 1});
  Cache cache({.first = 3, .count = 1});
  attend(cache.view(), {.heads = 6, .first = 3, .count = 0}, nullptr, 0, nullptr, 0, pool);
}

TEST(StoreKv, ScattersRowsIntoStreamsOfHeads) {
  const Shape shape{.type = FloatType::kF32, .kv_heads = 2, .head_dim = 3, .count = 4};
  Cache cache(shape);
  const float k[] = {1, 2, 3, 4, 5, 6, -1, 7, 8, 9, 10, 11, 12, -1};
  const float v[] = {21, 22, 23, 24, 25, 26, -1, 27, 28, 29, 30, 31, 32, -1};
  const KvView view = cache.view();
  store_kv(view, 1, k, v, 2, 7);
  const auto read = [&](const std::byte* data, std::size_t head, std::size_t position) {
    std::vector<float> row(3);
    std::memcpy(row.data(), data + (head * view.capacity + position) * 3 * sizeof(float), 12);
    return row;
  };
  EXPECT_EQ(read(view.keys, 0, 1), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read(view.keys, 1, 1), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(read(view.keys, 1, 2), (std::vector<float>{10, 11, 12}));
  EXPECT_EQ(read(view.values, 0, 2), (std::vector<float>{27, 28, 29}));
  EXPECT_EQ(read(view.keys, 0, 3)[0], static_cast<float>(cache.key(0, 3, 0)));  // untouched
}

}  // namespace
}  // namespace exo::kernels
