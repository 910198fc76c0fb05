#include "models/checkpoint.h"

#include <array>
#include <fmt/format.h>

#include "models/gguf.h"
#include "models/safetensors.h"

namespace exo::models {
namespace {

using std::filesystem::path;

struct DTypeInfo {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DTypeInfo, 13> kDTypes = {{{"f32", 4},
                                                {"f16", 2},
                                                {"bf16", 2},
                                                {"f64", 8},
                                                {"i64", 8},
                                                {"i32", 4},
                                                {"i16", 2},
                                                {"i8", 1},
                                                {"u64", 8},
                                                {"u32", 4},
                                                {"u16", 2},
                                                {"u8", 1},
                                                {"bool", 1}}};

}  // namespace

std::string_view name(DType type) { return kDTypes[static_cast<std::size_t>(type)].name; }
std::size_t size_of(DType type) { return kDTypes[static_cast<std::size_t>(type)].bytes; }

std::string to_string(const WeightFormat& format) {
  using Kind = WeightFormat::Kind;
  if (format.kind == Kind::kDense) return std::string(name(format.type));
  if (format.kind == Kind::kMlxAffine)
    return fmt::format("affine {} bit, group {}", format.bits, format.group_size);
  constexpr std::array kNames = {"mxfp4", "mxfp8", "nvfp4",  "F8 E4M3", "Q4_0",  "Q4_1",
                                 "Q5_0",  "Q5_1",  "Q8_0",   "Q2_K",    "Q3_K",  "Q4_K",
                                 "Q5_K",  "Q6_K",  "IQ4_NL", "IQ4_XS",  "MXFP4", "NVFP4"};
  return kNames.at(static_cast<std::size_t>(format.kind) -
                   static_cast<std::size_t>(Kind::kMlxMxfp4));
}

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const path& model) {
  std::error_code error;
  const auto status = std::filesystem::status(model, error);
  if (!std::filesystem::exists(status))
    return fail(ErrorCode::kNotFound, "no such file or directory", model);
  if (!std::filesystem::is_directory(status)) {
    if (model.extension() != ".gguf") {
      return fail(ErrorCode::kInvalidInput,
                  "not a model: name a .gguf file or a directory with config.json", model);
    }
    return open_gguf(model);
  }
  if (std::filesystem::exists(model / "config.json", error)) return open_safetensors(model);
  EXO_TRY(const path file, gguf_in(model));
  return open_gguf(file);
}

}  // namespace exo::models
