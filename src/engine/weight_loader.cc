#include "engine/weight_loader.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "engine/logit_scan.h"

namespace exo::engine {
namespace {

using kernels::Encoding;
using kernels::FloatType;
using kernels::RowLayout;
using models::DType;
using models::MatrixView;
using models::WeightFormat;

constexpr std::size_t kDropBytes = std::size_t{1} << 20;

Result<FloatType> float_type(DType type) {
  switch (type) {
    case DType::kF32:
      return FloatType::kF32;
    case DType::kF16:
      return FloatType::kF16;
    case DType::kBf16:
      return FloatType::kBf16;
    default:
      return fail(ErrorCode::kUnsupported,
                  fmt::format("weights of type {} are not supported", models::name(type)));
  }
}

RowLayout row_layout(WeightFormat::Kind kind) {
  using Kind = WeightFormat::Kind;
  switch (kind) {
    case Kind::kDense:
      return RowLayout::kDense;
    case Kind::kMlxAffine:
    case Kind::kMlxMxfp4:
    case Kind::kMlxMxfp8:
    case Kind::kMlxNvfp4:
      return RowLayout::kStream;
    case Kind::kFloat8Squares:
      return RowLayout::kFloat8Squares;
    case Kind::kQ4_0:
      return RowLayout::kQ4_0;
    case Kind::kQ4_1:
      return RowLayout::kQ4_1;
    case Kind::kQ5_0:
      return RowLayout::kQ5_0;
    case Kind::kQ5_1:
      return RowLayout::kQ5_1;
    case Kind::kQ8_0:
      return RowLayout::kQ8_0;
    case Kind::kQ2K:
      return RowLayout::kQ2K;
    case Kind::kQ3K:
      return RowLayout::kQ3K;
    case Kind::kQ4K:
      return RowLayout::kQ4K;
    case Kind::kQ5K:
      return RowLayout::kQ5K;
    case Kind::kQ6K:
      return RowLayout::kQ6K;
    case Kind::kIq4Nl:
      return RowLayout::kIq4Nl;
    case Kind::kIq4Xs:
      return RowLayout::kIq4Xs;
    case Kind::kMxfp4:
      return RowLayout::kMxfp4;
    case Kind::kNvfp4:
      return RowLayout::kNvfp4;
  }
  std::unreachable();
}

Result<kernels::RowSource> row_source(const ModuleView& view) {
  const MatrixView& whole = view.whole;
  auto encoding = tile_encoding(whole.format);
  if (!encoding) return fail(encoding.error().code, encoding.error().message, whole.name);
  return kernels::RowSource{.layout = row_layout(whole.format.kind),
                            .encoding = *encoding,
                            .rows = view.part.rows,
                            .cols = view.part.cols,
                            .codes = whole.codes.data(),
                            .scales = whole.scales.data(),
                            .biases = whole.biases.data(),
                            .row_map = whole.row_map,
                            .first_row = view.part.row_slice.first,
                            .first_col = view.part.col_slice.first,
                            .file_cols = whole.cols};
}

// Of the part, about.
std::size_t bytes_of(const ModuleView& view) {
  const MatrixView& whole = view.whole;
  const std::size_t bytes = whole.codes.size() + whole.scales.size() + whole.biases.size();
  const double share = static_cast<double>(view.part.rows * view.part.cols) /
                       static_cast<double>(whole.rows * whole.cols);
  return static_cast<std::size_t>(share * static_cast<double>(bytes));
}

}  // namespace

Result<Encoding> tile_encoding(const WeightFormat& format) {
  using Kind = Encoding::Kind;
  using Scales = Encoding::Scales;
  using Format = WeightFormat::Kind;
  const auto with_f16 = [](Kind kind, std::uint8_t bits) {
    return Encoding{.kind = kind, .type = FloatType::kF16, .bits = bits, .group_size = 32};
  };
  const auto with_scales = [](Kind kind, std::uint8_t bits, std::uint16_t group, Scales scales) {
    return Encoding{.kind = kind, .bits = bits, .group_size = group, .scales = scales};
  };
  switch (format.kind) {
    case Format::kDense: {
      EXO_TRY(const FloatType type, float_type(format.type));
      return Encoding{.kind = Kind::kDense, .type = type};
    }
    case Format::kMlxAffine: {
      EXO_TRY(const FloatType type, float_type(format.type));
      return Encoding{.kind = Kind::kAffine,
                      .type = type,
                      .bits = format.bits,
                      .group_size = format.group_size};
    }
    case Format::kFloat8Squares:
      return Encoding{.kind = Kind::kFloat8,
                      .type = FloatType::kF32,
                      .bits = 8,
                      .group_size = kernels::kFloat8Square};
    case Format::kMlxMxfp8:
      return with_scales(Kind::kFloat8, 8, 32, Scales::kE8m0);
    case Format::kMlxMxfp4:
    case Format::kMxfp4:
      return with_scales(Kind::kFloat4, 4, 32, Scales::kE8m0);
    case Format::kMlxNvfp4:
    case Format::kNvfp4:
      return with_scales(Kind::kFloat4, 4, 16, Scales::kE4m3);
    case Format::kQ4_0:
      return with_f16(Kind::kSymmetric, 4);
    case Format::kQ4_1:
      return with_f16(Kind::kAffine, 4);
    case Format::kQ5_0:
      return with_f16(Kind::kSymmetric, 5);
    case Format::kQ5_1:
      return with_f16(Kind::kAffine, 5);
    case Format::kQ8_0:
      return with_f16(Kind::kSymmetric, 8);
    case Format::kIq4Nl:
      return with_f16(Kind::kNonlinear, 4);
    case Format::kQ2K:
      return with_scales(Kind::kAffine, 2, 16, Scales::kTwoLevel);
    case Format::kQ3K:
      return with_scales(Kind::kSymmetric, 3, 16, Scales::kTwoLevel);
    case Format::kQ4K:
      return with_scales(Kind::kAffine, 4, 32, Scales::kTwoLevel);
    case Format::kQ5K:
      return with_scales(Kind::kAffine, 5, 32, Scales::kTwoLevel);
    case Format::kQ6K:
      return with_scales(Kind::kSymmetric, 6, 16, Scales::kTwoLevel);
    case Format::kIq4Xs:
      return with_scales(Kind::kNonlinear, 4, 32, Scales::kTwoLevel);
  }
  std::unreachable();
}

WeightLoader::WeightLoader(const models::Checkpoint& checkpoint, kernels::ThreadPool& pool,
                           const Progress& progress)
    : checkpoint_(checkpoint),
      pool_(pool),
      progress_(progress),
      total_(checkpoint.weight_bytes()) {}

Result<ModuleView> WeightLoader::view(const LinearSpec& module) const {
  EXO_TRY(MatrixView whole,
          checkpoint_.matrix(module.name, module.total_rows(), module.total_cols()));
  return ModuleView{.whole = std::move(whole), .part = module};
}

Result<kernels::Matrix> WeightLoader::matrix(const LinearSpec& module) {
  EXO_TRY(const ModuleView one, view(module));
  return matrix(std::span(&one, 1), kernels::Arrangement::kStacked);
}

Result<kernels::Matrix> WeightLoader::matrix(std::span<const ModuleView> views,
                                             kernels::Arrangement arrangement) {
  std::vector<kernels::RowSource> sources;
  for (const ModuleView& view : views) {
    EXO_TRY(kernels::RowSource source, row_source(view));
    sources.push_back(source);
  }
  // Large matrices give their pages back while they are packed, all of them at the end.
  const auto consumed = [&](std::size_t source, std::size_t begin, std::size_t end) {
    const MatrixView& whole = views[source].whole;
    const std::size_t row_bytes = whole.codes.size() / whole.rows;
    if ((end - begin) * row_bytes >= kDropBytes)
      checkpoint_.drop(whole.codes.subspan(begin * row_bytes, (end - begin) * row_bytes));
  };
  auto packed = kernels::pack(sources, arrangement, pool_, consumed);
  if (!packed) return std::unexpected(blame(views, std::move(packed).error()));
  for (const ModuleView& view : views) {
    const MatrixView& whole = view.whole;
    checkpoint_.drop(whole.codes);
    if (!whole.scales.empty()) checkpoint_.drop(whole.scales);
    if (!whole.biases.empty()) checkpoint_.drop(whole.biases);
    count(bytes_of(view));
  }
  return packed;
}

// The error with the tensor that it is about: among several, the first that fails alone too.
Error WeightLoader::blame(std::span<const ModuleView> views, Error error) {
  error.subject = views.front().whole.name;
  for (const ModuleView& view : views) {
    const auto source = row_source(view);
    if (views.size() == 1 || !source) continue;
    if (!kernels::pack(std::span(&*source, 1), kernels::Arrangement::kStacked, pool_)) {
      error.subject = view.whole.name;
      break;
    }
  }
  return error;
}

Result<std::vector<float>> WeightLoader::vector(const std::string& name, std::size_t size) {
  EXO_TRY(std::vector<float> values, checkpoint_.vector(name, size));
  if (!all_finite(values))
    return fail(ErrorCode::kInvalidInput, "a tensor holds NaN or infinity", name);
  count(size * sizeof(float));
  return values;
}

Result<std::vector<float>> WeightLoader::bias(const LinearSpec& module) {
  if (!module.bias) return std::vector<float>{};
  EXO_TRY(std::vector<float> whole, vector(module.name + ".bias", module.total_rows()));
  const auto first = whole.begin() + static_cast<std::ptrdiff_t>(module.row_slice.first);
  return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(module.rows));
}

void WeightLoader::count(std::size_t bytes) {
  done_ = std::min(done_ + bytes, total_);
  if (!progress_ || (done_ - reported_) < total_ / 100) return;
  reported_ = done_;
  progress_(done_, total_);
}

void WeightLoader::finish() {
  if (progress_ && (reported_ < total_ || total_ == 0)) progress_(total_, total_);
  reported_ = total_;
}

}  // namespace exo::engine
