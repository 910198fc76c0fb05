#include "models/gguf_writer.h"

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/file.h"
#include "models/gguf.h"
#include "models/gguf_architecture.h"

namespace exo::models {
namespace {

constexpr std::uint32_t kVersion = 3, kU32 = 4, kF32 = 6, kString = 8;  // gguf.md 1.3

struct KeyPair {
  const char* hugging_face;
  const char* gguf;
};
constexpr std::array kSizes = {
    KeyPair{"num_hidden_layers", "block_count"},
    KeyPair{"max_position_embeddings", "context_length"},
    KeyPair{"hidden_size", "embedding_length"},
    KeyPair{"intermediate_size", "feed_forward_length"},
    KeyPair{"num_attention_heads", "attention.head_count"},
    KeyPair{"num_key_value_heads", "attention.head_count_kv"},
    KeyPair{"head_dim", "attention.key_length"},
    KeyPair{"head_dim", "attention.value_length"},
    KeyPair{"sliding_window", "attention.sliding_window"},
    KeyPair{"sliding_window_pattern", "attention.sliding_window_pattern"}};
constexpr std::array kNumbers = {KeyPair{"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
                                 KeyPair{"rope_theta", "rope.freq_base"},
                                 KeyPair{"rope_local_base_freq", "rope.freq_base_swa"}};

// The header's bytes as they grow.
class HeaderWriter {
 public:
  template <typename T>
  HeaderWriter& number(T value) {
    bytes_ += as_text(std::as_bytes(std::span(&value, 1)));
    return *this;
  }
  HeaderWriter& text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes_ += value;
    return *this;
  }
  HeaderWriter& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class PairWriter {
 public:
  void string(std::string_view key, std::string_view value) {
    writer_.text(key).number(kString).text(value);
    ++count_;
  }
  void u32(std::string_view key, std::uint32_t value) {
    writer_.text(key).number(kU32).number(value);
    ++count_;
  }
  void f32(std::string_view key, float value) {
    writer_.text(key).number(kF32).number(value);
    ++count_;
  }
  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return writer_.bytes(); }

 private:
  HeaderWriter writer_;
  std::uint64_t count_ = 0;
};

// A tensor in the order and values of the file.
struct Tensor {
  std::string name;
  const GgufType* type = nullptr;
  std::vector<std::uint64_t> dimensions;  // the contiguous one first
  std::span<const std::byte> data = {};
  std::size_t head_dim = 0;  // > 0: the rows are written interleaved, gguf.md 4.2
  std::vector<float> values = {};

  std::span<const std::byte> bytes() const {
    return values.empty() ? data : std::as_bytes(std::span(values));
  }
};

Result<const GgufArchitecture*> architecture_of(const Json& config) {
  const std::string type = config.value("model_type", std::string());
  const GgufArchitecture* found =
      type == "gemma3_text" ? gguf_architecture("gemma3") : gguf_architecture(type);
  if (found == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("models of type \"{}\" cannot be written as GGUF: take one of the MLX "
                            "quantisations",
                            type),
                "model_type");
  }
  return found;
}

Result<PairWriter> write_pairs(const GgufArchitecture& architecture,
                               const CheckpointContent& content) {
  const Json& config = content.config;
  PairWriter pairs;
  pairs.string("general.architecture", architecture.name);
  pairs.u32("general.quantization_version", 2);
  const auto own = [&](const char* name) { return fmt::format("{}.{}", architecture.name, name); };
  for (const KeyPair& key : kSizes) {
    const auto found = config.find(key.hugging_face);
    if (found != config.end() && found->is_number_integer())
      pairs.u32(own(key.gguf), found->get<std::uint32_t>());
  }
  for (const KeyPair& key : kNumbers) {
    const auto found = config.find(key.hugging_face);
    if (found != config.end() && found->is_number()) pairs.f32(own(key.gguf), found->get<float>());
  }
  const Json scaling = config.value("rope_scaling", Json());
  if (content.rope_divisors.empty() && scaling.is_object() && scaling.contains("factor")) {
    pairs.string(own("rope.scaling.type"), "linear");
    pairs.f32(own("rope.scaling.factor"), scaling["factor"].get<float>());
  }
  return pairs;
}

Result<std::string> file_name_of(const GgufArchitecture& architecture, std::string_view tensor) {
  const std::size_t dot = tensor.rfind('.');
  const auto module = gguf_module(architecture, tensor.substr(0, dot));
  if (!module)
    return fail(ErrorCode::kInvalidInput, "GGUF has no name for the tensor", std::string(tensor));
  return fmt::format("{}{}", *module, tensor.substr(dot));
}

Result<std::vector<Tensor>> list_tensors(const GgufArchitecture& architecture,
                                         const CheckpointContent& content) {
  const auto head_dim = content.config.value("head_dim", std::size_t{0});
  const auto interleaved = [&](std::string_view name) {
    return architecture.interleaves_heads && (name.contains(".q_proj") || name.contains(".k_proj"));
  };
  std::vector<Tensor> tensors;
  for (const MatrixView& matrix : content.matrices) {
    EXO_TRY(std::string name, file_name_of(architecture, matrix.name + ".weight"));
    tensors.push_back({.name = std::move(name),
                       .type = gguf_type(matrix.format),
                       .dimensions = {matrix.cols, matrix.rows},
                       .data = matrix.codes,
                       .head_dim = interleaved(matrix.name) ? head_dim : 0});
  }
  const GgufType* f32 = gguf_type(WeightFormat{.kind = WeightFormat::Kind::kDense});
  for (const NamedVector& vector : content.vectors) {
    EXO_TRY(std::string name, file_name_of(architecture, vector.name));
    Tensor tensor{.name = std::move(name),
                  .type = f32,
                  .dimensions = {vector.values.size()},
                  .head_dim = interleaved(vector.name) ? head_dim : 0,
                  .values = vector.values};
    if (architecture.norms_hold_one_plus && vector.name.ends_with("norm.weight"))
      for (float& value : tensor.values) value += 1;
    tensors.push_back(std::move(tensor));
  }
  if (!content.rope_divisors.empty()) {
    tensors.push_back({.name = "rope_freqs.weight",
                       .type = f32,
                       .dimensions = {content.rope_divisors.size()},
                       .values = content.rope_divisors});
  }
  return tensors;
}

// gguf.md 4.2: row h·D + 2i + s of the file is Hugging Face row h·D + s·D/2 + i.
Result<void> write_rows(int out, const Tensor& tensor, const std::string& subject) {
  const auto bytes = tensor.bytes();
  if (tensor.head_dim == 0) return write_all(out, as_text(bytes), subject);
  const std::size_t rows = tensor.dimensions.back(), row_bytes = bytes.size() / rows;
  std::string ordered;
  ordered.reserve(bytes.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / tensor.head_dim * tensor.head_dim,
                      within = row % tensor.head_dim;
    const std::size_t from = head + within % 2 * (tensor.head_dim / 2) + within / 2;
    ordered += as_text(bytes.subspan(from * row_bytes, row_bytes));
  }
  return write_all(out, ordered, subject);
}

}  // namespace

Result<void> write_gguf(const std::filesystem::path& file, const CheckpointContent& content) {
  EXO_TRY(const GgufArchitecture* architecture, architecture_of(content.config));
  EXO_TRY(const PairWriter pairs, write_pairs(*architecture, content));
  EXO_TRY(const std::vector<Tensor> tensors, list_tensors(*architecture, content));

  HeaderWriter header;
  header.number(kGgufMagic).number(kVersion);
  header.number<std::uint64_t>(tensors.size()).number(pairs.count()).raw(pairs.bytes());
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    header.text(tensor.name).number(static_cast<std::uint32_t>(tensor.dimensions.size()));
    for (const std::uint64_t dimension : tensor.dimensions) header.number(dimension);
    header.number(tensor.type->number).number(offset);
    offset = round_up<std::uint64_t>(offset + tensor.bytes().size(), kGgufAlignment);
  }
  const auto padding = [](std::uint64_t size) {
    return std::string(round_up<std::uint64_t>(size, kGgufAlignment) - size, '\0');
  };
  header.raw(padding(header.bytes().size()));

  EXO_TRY(const Descriptor out, create_file(file));
  EXO_TRY(write_all(out.get(), header.bytes(), file));
  for (const Tensor& tensor : tensors) {
    EXO_TRY(write_rows(out.get(), tensor, file));
    EXO_TRY(write_all(out.get(), padding(tensor.bytes().size()), file));
  }
  return {};
}

}  // namespace exo::models
