// A directory in MLX or Hugging Face layout as a Checkpoint.
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/half.h"
#include "models/directory_tokenizer.h"
#include "models/json_file.h"
#include "models/quantization.h"
#include "models/safetensors.h"

namespace exo::models {
namespace {

using std::filesystem::path;
using Mode = QuantizationParameters::Mode;

constexpr std::size_t kMaxIndexBytes = 64 << 20;

// model*.safetensors of the directory, and the files that its index names.
Result<std::vector<path>> weight_files(const path& directory) {
  std::set<path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("model") && name.ends_with(".safetensors")) files.insert(entry.path());
  }
  if (error) return fail_errno(error.value(), "cannot read the directory", directory);
  if (const auto index =
          read_optional_json(directory / "model.safetensors.index.json", kMaxIndexBytes)) {
    const auto map = index->find("weight_map");
    if (map != index->end() && map->is_object()) {
      for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string()) continue;
        const path wanted = directory / path(file.get<std::string>()).filename();
        if (!files.contains(wanted)) {
          return fail(ErrorCode::kInvalidInput,
                      "the model is incomplete: its index names a file that is not there", wanted);
        }
      }
    }
  }
  if (files.empty())
    return fail(ErrorCode::kInvalidInput, "no model*.safetensors file here", directory);
  return std::vector<path>(files.begin(), files.end());
}

std::optional<DType> float_type(std::string_view dtype) {
  if (dtype == "F32") return DType::kF32;
  if (dtype == "F16") return DType::kF16;
  if (dtype == "BF16") return DType::kBf16;
  return std::nullopt;
}

void add_ids(const Json& config, std::set<std::uint32_t>& ids) {
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return;
  const auto add = [&](const Json& json) {
    if (const auto id = token_id(json)) ids.insert(*id);
  };
  if (found->is_array()) {
    for (const Json& id : *found) add(id);
  } else {
    add(*found);
  }
}

class DirectoryCheckpoint final : public Checkpoint {
 public:
  static Result<std::unique_ptr<Checkpoint>> open(const path& directory) {
    auto checkpoint = std::unique_ptr<DirectoryCheckpoint>(new DirectoryCheckpoint(directory));
    EXO_TRY(checkpoint->config_, read_json_file(directory / "config.json", kMaxConfigBytes));
    EXO_TRY(checkpoint->check_config());
    EXO_TRY(checkpoint->quantization_, QuantizationBlock::parse(checkpoint->config_));
    EXO_TRY(const std::vector<path> files, weight_files(directory));
    for (const path& file : files) {
      EXO_TRY(SafetensorsFile opened, SafetensorsFile::open(file));
      checkpoint->files_.push_back(std::move(opened));
    }
    for (const SafetensorsFile& file : checkpoint->files_) {
      for (const auto& [name, tensor] : file.tensors) {
        if (!checkpoint->tensors_.emplace(name, &tensor).second) {
          return fail(ErrorCode::kInvalidInput, "a tensor occurs in two files", name);
        }
      }
    }
    checkpoint->read_eos();
    return std::unique_ptr<Checkpoint>(std::move(checkpoint));
  }

  const Json& config() const override { return config_; }
  const std::vector<std::uint32_t>& eos_token_ids() const override { return eos_; }
  bool has(std::string_view tensor) const override { return tensors_.contains(tensor); }

  Result<MatrixView> matrix(std::string_view name, std::size_t rows,
                            std::size_t cols) const override {
    const std::string weight_name = fmt::format("{}.weight", name);
    EXO_TRY(const SafetensorsTensor* weight, find(weight_name));
    MatrixView view{
        .name = std::string(name), .format = {}, .rows = rows, .cols = cols, .codes = weight->data};
    const bool has_scales = tensors_.contains(fmt::format("{}.scales", name)) ||
                            tensors_.contains(fmt::format("{}.weight_scale_inv", name));
    const auto parameters = quantization_.of(name, has_scales);
    if (parameters) {
      EXO_TRY(parameters->mode == Mode::kFloat8Squares
                  ? describe_float8(*weight, view)
                  : describe_quantized(*parameters, *weight, view));
      return view;
    }
    if (weight->shape != std::vector{rows, cols})
      return wrong_shape(*weight, weight_name, {rows, cols});
    const auto type = float_type(weight->dtype);
    if (!type) return wrong_dtype(*weight, weight_name);
    view.format = {.kind = WeightFormat::Kind::kDense, .type = *type};
    return view;
  }

  Result<std::vector<float>> vector(std::string_view name, std::size_t size) const override {
    EXO_TRY(const SafetensorsTensor* tensor, find(name));
    if (tensor->shape != std::vector{size}) return wrong_shape(*tensor, std::string(name), {size});
    const auto type = float_type(tensor->dtype);
    if (!type) return wrong_dtype(*tensor, std::string(name));
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) {
      if (*type == DType::kF32) {
        values[i] = load<float>(tensor->data.data() + 4 * i);
      } else {
        const auto bits = load<std::uint16_t>(tensor->data.data() + 2 * i);
        values[i] = *type == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
      }
    }
    return values;
  }

  Result<TokenizerFiles> tokenizer() const override { return tokenizer_.tokenizer(); }
  Result<std::string> tokenizer_json() const override { return tokenizer_.tokenizer_json(); }
  bool has_token(std::string_view text) const override { return tokenizer_.has_token(text); }

  std::vector<TensorInfo> tensors() const override {
    std::vector<TensorInfo> list;
    for (const auto& [name, tensor] : tensors_)
      list.push_back({.name = name,
                      .format = tensor->dtype,
                      .shape = tensor->shape,
                      .bytes = tensor->data.size()});
    return list;
  }

  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : tensors_) bytes += tensor->data.size();
    return bytes;
  }

  void drop(std::span<const std::byte> part) const override {
    for (const SafetensorsFile& file : files_) {
      const auto bytes = file.file.bytes();
      if (part.data() >= bytes.data() && part.data() + part.size() <= bytes.data() + bytes.size())
        file.file.drop(part);
    }
  }

 private:
  explicit DirectoryCheckpoint(const path& directory)
      : directory_(directory), tokenizer_(directory) {}

  Result<const SafetensorsTensor*> find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      return fail(ErrorCode::kNotFound, "a tensor of the model is missing", std::string(name));
    return found->second;
  }

  // Tensor `name`, of this shape.
  Result<const SafetensorsTensor*> find(std::string name,
                                        const std::vector<std::size_t>& shape) const {
    EXO_TRY(const SafetensorsTensor* tensor, find(name));
    if (tensor->shape != shape) return wrong_shape(*tensor, std::move(name), shape);
    return tensor;
  }

  // models.md 1.4: packed codes, scales, and in affine mode biases.
  Result<void> describe_quantized(const QuantizationParameters& parameters,
                                  const SafetensorsTensor& weight, MatrixView& view) const {
    using Kind = WeightFormat::Kind;
    const std::string weight_name = fmt::format("{}.weight", view.name),
                      scales_name = fmt::format("{}.scales", view.name),
                      biases_name = fmt::format("{}.biases", view.name);
    const std::size_t unit = std::max<std::size_t>(parameters.group_size, 32);
    if (view.cols % unit != 0) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("{} columns are no whole number of groups of {}", view.cols, unit),
                  weight_name);
    }
    const std::vector packed = {view.rows, view.cols * parameters.bits / 32},
                      groups = {view.rows, view.cols / parameters.group_size};
    if (weight.shape != packed) return wrong_shape(weight, weight_name, packed);
    if (weight.dtype != "U32") return wrong_dtype(weight, weight_name);
    EXO_TRY(const SafetensorsTensor* scales, find(scales_name, groups));
    view.scales = scales->data;
    if (parameters.mode != Mode::kAffine) {
      if (scales->dtype != "U8") return wrong_dtype(*scales, scales_name);
      view.format = {.kind = parameters.mode == Mode::kMxfp4   ? Kind::kMlxMxfp4
                             : parameters.mode == Mode::kMxfp8 ? Kind::kMlxMxfp8
                                                               : Kind::kMlxNvfp4};
      return {};
    }
    EXO_TRY(const SafetensorsTensor* biases, find(biases_name, groups));
    const auto type = float_type(scales->dtype);
    if (!type) return wrong_dtype(*scales, scales_name);
    if (biases->dtype != scales->dtype) return wrong_dtype(*biases, biases_name);
    view.biases = biases->data;
    view.format = {.kind = Kind::kMlxAffine,
                   .type = *type,
                   .bits = parameters.bits,
                   .group_size = parameters.group_size};
    return {};
  }

  // models.md 1.8: E4M3 bytes and an f32 scale per square.
  Result<void> describe_float8(const SafetensorsTensor& weight, MatrixView& view) const {
    const std::string weight_name = fmt::format("{}.weight", view.name),
                      scales_name = fmt::format("{}.weight_scale_inv", view.name);
    if (weight.shape != std::vector{view.rows, view.cols})
      return wrong_shape(weight, weight_name, {view.rows, view.cols});
    if (weight.dtype != "F8_E4M3") return wrong_dtype(weight, weight_name);
    if (view.cols % 32 != 0)
      return fail(ErrorCode::kUnsupported, "the columns of an F8 matrix must be a multiple of 32",
                  weight_name);
    EXO_TRY(const SafetensorsTensor* scales,
            find(scales_name,
                 {divide_up<std::size_t>(view.rows, 128), divide_up<std::size_t>(view.cols, 128)}));
    if (scales->dtype != "F32") return wrong_dtype(*scales, scales_name);
    view.scales = scales->data;
    view.format = {.kind = WeightFormat::Kind::kFloat8Squares};
    return {};
  }

  static std::unexpected<Error> wrong_shape(const SafetensorsTensor& tensor, std::string name,
                                            const std::vector<std::size_t>& wanted) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the tensor is [{}] where the configuration asks for [{}]",
                            fmt::join(tensor.shape, ", "), fmt::join(wanted, ", ")),
                std::move(name));
  }

  static std::unexpected<Error> wrong_dtype(const SafetensorsTensor& tensor, std::string name) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the tensor's dtype {} cannot be used there", tensor.dtype),
                std::move(name));
  }

  Result<void> check_config() {
    if (const auto file = config_.find("model_file"); file != config_.end() && !file->is_null()) {
      return fail(ErrorCode::kUnsupported,
                  "the model asks to run its own Python code, which exo never does", "model_file");
    }
    if (const auto type = config_.find("model_type"); type == config_.end() || !type->is_string()) {
      return fail(ErrorCode::kInvalidInput, "config.json does not say its model_type",
                  directory_ / "config.json");
    }
    return {};
  }

  // models.md 5.9: the union of both files, else the tokenizer's own end token.
  void read_eos() {
    std::set<std::uint32_t> ids;
    add_ids(config_, ids);
    if (const auto generation =
            read_optional_json(directory_ / "generation_config.json", kMaxConfigBytes))
      add_ids(*generation, ids);
    if (ids.empty()) add_tokenizers_eos(ids);
    eos_.assign(ids.begin(), ids.end());
  }

  void add_tokenizers_eos(std::set<std::uint32_t>& ids) {
    const auto config = read_optional_json(directory_ / "tokenizer_config.json", kMaxConfigBytes);
    if (!config || !config->contains("eos_token")) return;
    const auto text = token_text((*config)["eos_token"]);
    const auto document = read_optional_json(directory_ / kTokenizerDocument, kMaxTokenizerBytes);
    if (!text || !document || !document->value("added_tokens", Json()).is_array()) return;
    for (const Json& token : (*document)["added_tokens"]) {
      if (!token.is_object() || token.value("content", Json()) != *text) continue;
      if (const auto id = token_id(token.value("id", Json()))) ids.insert(*id);
    }
  }

  path directory_;
  DirectoryTokenizer tokenizer_;
  Json config_;
  QuantizationBlock quantization_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsTensor*, std::less<>> tensors_;
  std::vector<std::uint32_t> eos_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_safetensors(const path& directory) {
  return DirectoryCheckpoint::open(directory);
}

}  // namespace exo::models
