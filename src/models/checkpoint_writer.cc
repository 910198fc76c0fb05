#include "models/checkpoint_writer.h"

#include <fmt/format.h>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/file.h"
#include "models/gguf_types.h"
#include "models/gguf_writer.h"

namespace exo::models {
namespace {

using std::filesystem::path;
using Kind = WeightFormat::Kind;

struct Tensor {
  std::string name;
  std::string_view dtype;
  std::vector<std::size_t> shape;
  std::span<const std::byte> data;
};

std::string_view dtype_of(DType type) {
  return type == DType::kF32 ? "F32" : type == DType::kF16 ? "F16" : "BF16";
}

// models.md 1.4 and 1.8: the tensors that a matrix is.
std::vector<Tensor> tensors_of(const MatrixView& view) {
  const WeightFormat& format = view.format;
  const std::string weight = view.name + ".weight", scales = view.name + ".scales";
  const auto packed = [&](std::size_t bits) {
    return Tensor{weight, "U32", {view.rows, view.cols * bits / 32}, view.codes};
  };
  const auto groups = [&](std::size_t size) { return std::vector{view.rows, view.cols / size}; };
  switch (format.kind) {
    case Kind::kMlxAffine:
      return {
          packed(format.bits),
          {scales, dtype_of(format.type), groups(format.group_size), view.scales},
          {view.name + ".biases", dtype_of(format.type), groups(format.group_size), view.biases}};
    case Kind::kMlxMxfp4:
      return {packed(4), {scales, "U8", groups(32), view.scales}};
    case Kind::kMlxMxfp8:
      return {packed(8), {scales, "U8", groups(32), view.scales}};
    case Kind::kMlxNvfp4:
      return {packed(4), {scales, "U8", groups(16), view.scales}};
    case Kind::kFloat8Squares:
      return {{weight, "F8_E4M3", {view.rows, view.cols}, view.codes},
              {view.name + ".weight_scale_inv",
               "F32",
               {divide_up<std::size_t>(view.rows, 128), divide_up<std::size_t>(view.cols, 128)},
               view.scales}};
    default:
      return {{weight, dtype_of(format.type), {view.rows, view.cols}, view.codes}};
  }
}

// models.md 1.3, 1.8: what the configuration says of the format.
void describe_format(const WeightFormat& format, Json& config) {
  config.erase("quantization");
  config.erase("quantization_config");
  const auto mode = [&](std::string_view name, unsigned bits, unsigned group) {
    config["quantization"] = {{"group_size", group}, {"bits", bits}, {"mode", name}};
  };
  switch (format.kind) {
    case Kind::kMlxAffine:
      return mode("affine", format.bits, format.group_size);
    case Kind::kMlxMxfp4:
      return mode("mxfp4", 4, 32);
    case Kind::kMlxMxfp8:
      return mode("mxfp8", 8, 32);
    case Kind::kMlxNvfp4:
      return mode("nvfp4", 4, 16);
    case Kind::kFloat8Squares:
      config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
      return;
    default:
      return;
  }
}

Result<void> write_safetensors(const path& file, std::span<const Tensor> tensors) {
  Json header = Json::object();
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.data.size();
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump_json(header);
  text.resize(round_up<std::size_t>(text.size(), 8), ' ');
  const std::uint64_t size = text.size();
  EXO_TRY(const Descriptor out, create_file(file));
  EXO_TRY(write_all(out.get(), as_text(std::as_bytes(std::span(&size, 1))), file));
  EXO_TRY(write_all(out.get(), text, file));
  for (const Tensor& tensor : tensors) {
    EXO_TRY(write_all(out.get(), as_text(tensor.data), file));
  }
  return {};
}

Result<void> write_mlx(const path& directory, const CheckpointContent& content) {
  std::vector<Tensor> tensors;
  for (const MatrixView& matrix : content.matrices) {
    for (Tensor& tensor : tensors_of(matrix)) tensors.push_back(std::move(tensor));
  }
  for (const NamedVector& vector : content.vectors) {
    tensors.push_back(
        {vector.name, "F32", {vector.values.size()}, std::as_bytes(std::span(vector.values))});
  }
  EXO_TRY(write_safetensors(directory / "model.safetensors", tensors));
  Json config = content.config;
  if (!content.matrices.empty()) describe_format(content.matrices.front().format, config);
  return write_file(directory / "config.json", pretty_json(config) + "\n");
}

bool is_gguf_only(const CheckpointContent& content) {
  return !content.matrices.empty() && content.matrices.front().format.kind != Kind::kDense &&
         gguf_type(content.matrices.front().format) != nullptr;
}

}  // namespace

Result<void> write_checkpoint(const path& directory, const CheckpointContent& content) {
  EXO_TRY(make_directories(directory));
  std::error_code error;
  if (!std::filesystem::is_empty(directory, error) || error) {
    return fail(ErrorCode::kAlreadyExists, "the directory to write a model to must be empty",
                directory);
  }
  const path file = directory / (is_gguf_only(content) ? "model.gguf" : "model.safetensors");
  auto written = is_gguf_only(content) ? write_gguf(file, content) : write_mlx(directory, content);
  if (!written) std::filesystem::remove(file, error);
  return written;
}

}  // namespace exo::models
