// A GGUF model as a Checkpoint: Hugging Face names and row order over the file's own.
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/half.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "models/gguf.h"
#include "models/gguf_architecture.h"
#include "models/gguf_config.h"
#include "models/gguf_tokenizer.h"

namespace exo::models {
namespace {

// gguf.md 4.2: Hugging Face row h·D + s·D/2 + i is row h·D + 2i + s of the file.
std::vector<std::uint32_t> interleaved_rows(std::size_t rows, std::size_t head_dim) {
  std::vector<std::uint32_t> map(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / head_dim * head_dim, within = row % head_dim;
    const std::size_t s = within / (head_dim / 2), i = within % (head_dim / 2);
    map[row] = static_cast<std::uint32_t>(head + 2 * i + s);
  }
  return map;
}

class GgufCheckpoint final : public Checkpoint {
 public:
  static Result<std::unique_ptr<Checkpoint>> open(std::vector<GgufFile> shards) {
    auto checkpoint = std::unique_ptr<GgufCheckpoint>(new GgufCheckpoint(std::move(shards)));
    for (std::size_t s = 0; s < checkpoint->shards_.size(); ++s) {
      for (const auto& [name, tensor] : checkpoint->shards_[s].tensors) {
        if (!checkpoint->tensors_.emplace(name, Located{&tensor, s}).second) {
          return fail(ErrorCode::kInvalidInput, "a tensor occurs in two shards", name);
        }
      }
    }
    EXO_TRY(checkpoint->read_config());
    if (checkpoint->tensors_.empty()) {
      return fail(ErrorCode::kInvalidInput,
                  "the file holds a vocabulary without weights: text can be tokenized with it, and "
                  "no more");
    }
    return std::unique_ptr<Checkpoint>(std::move(checkpoint));
  }

  const Json& config() const override { return config_; }
  const std::vector<std::uint32_t>& eos_token_ids() const override { return eos_; }

  bool has(std::string_view tensor) const override { return find(tensor).first != nullptr; }

  Result<MatrixView> matrix(std::string_view name, std::size_t rows,
                            std::size_t cols) const override {
    const std::string full = fmt::format("{}.weight", name);
    const auto [tensor, own_name] = find(full);
    if (tensor == nullptr)
      return fail(ErrorCode::kNotFound, "a tensor of the model is missing", full);
    if (without_trailing_ones(tensor->shape) != without_trailing_ones({rows, cols}))
      return wrong_shape(*tensor, own_name, {rows, cols});
    if (const std::string scale = own_name.substr(0, own_name.rfind('.')) + ".scale";
        tensors_.contains(scale))
      return fail(ErrorCode::kUnsupported, "a factor for a whole matrix is not supported yet",
                  scale);
    const auto format = weight_format(*tensor->type);
    if (!format) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("weights of type {} are not supported: take a file of the model with "
                              "another quantisation (Q4_K_M, Q8_0 and IQ4_XS are some)",
                              tensor->type->name),
                  own_name);
    }
    MatrixView view{.name = std::string(name),
                    .format = *format,
                    .rows = rows,
                    .cols = cols,
                    .codes = tensor->data};
    if (is_interleaved(name)) {
      if (head_dim_ < 2 || head_dim_ % 2 != 0 || rows % head_dim_ != 0) {
        return fail(ErrorCode::kInvalidInput, "the rows are no whole number of heads", own_name);
      }
      view.row_map = interleaved_rows(rows, head_dim_);
    }
    return view;
  }

  Result<std::vector<float>> vector(std::string_view name, std::size_t size) const override {
    const auto [tensor, own_name] = find(name);
    if (tensor == nullptr)
      return fail(ErrorCode::kNotFound, "a tensor of the model is missing", std::string(name));
    if (without_trailing_ones(tensor->shape) != without_trailing_ones({size}))
      return wrong_shape(*tensor, own_name, {size});
    EXO_TRY(std::vector<float> values, read_floats(*tensor, own_name));
    if (architecture_->norms_hold_one_plus && name.ends_with("norm.weight")) {
      for (float& value : values) value -= 1;
    }
    if (name.ends_with(".bias") && is_interleaved(name.substr(0, name.rfind('.'))) &&
        head_dim_ >= 2 && size % head_dim_ == 0) {
      const auto map = interleaved_rows(size, head_dim_);
      std::vector<float> ordered(size);
      for (std::size_t i = 0; i < size; ++i) ordered[i] = values[map[i]];
      return ordered;
    }
    return values;
  }

  Result<TokenizerFiles> tokenizer() const override {
    return gguf_tokenizer_files(shards_[0].metadata);
  }
  Result<std::string> tokenizer_json() const override {
    return tokenizer_json_from_gguf(shards_[0].metadata);
  }
  bool has_token(std::string_view text) const override {
    return gguf_has_token(shards_[0].metadata, text);
  }

  std::vector<TensorInfo> tensors() const override {
    std::vector<TensorInfo> list;
    for (const auto& [name, located] : tensors_) {
      list.push_back({.name = name,
                      .format = located.tensor->type->name,
                      .shape = located.tensor->shape,
                      .bytes = located.tensor->data.size()});
    }
    return list;
  }

  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& [name, located] : tensors_) bytes += located.tensor->data.size();
    return bytes;
  }

  void drop(std::span<const std::byte> part) const override {
    for (const GgufFile& shard : shards_) {
      const auto bytes = shard.file.bytes();
      if (part.data() >= bytes.data() && part.data() + part.size() <= bytes.data() + bytes.size())
        shard.file.drop(part);
    }
  }

 private:
  struct Located {
    const GgufTensor* tensor;
    std::size_t shard;
  };

  explicit GgufCheckpoint(std::vector<GgufFile> shards) : shards_(std::move(shards)) {}

  // Whether the rows of a module are in GGUF's own order.
  bool is_interleaved(std::string_view module) const {
    return architecture_->interleaves_heads &&
           (module.ends_with(".q_proj") || module.ends_with(".k_proj"));
  }

  static std::vector<std::size_t> without_trailing_ones(std::vector<std::size_t> shape) {
    // GGUF may write {n} as {n, 1}, which is [1, n] here: leading ones are those that carry no
    // size.
    while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
    return shape;
  }

  std::unexpected<Error> wrong_shape(const GgufTensor& tensor, const std::string& name,
                                     const std::vector<std::size_t>& wanted) const {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the tensor is [{}] where the configuration asks for [{}]",
                            fmt::join(tensor.shape, ", "), fmt::join(wanted, ", ")),
                name);
  }

  // The tensor of a Hugging Face name, and its name in the file.
  std::pair<const GgufTensor*, std::string> find(std::string_view name) const {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return {nullptr, {}};
    const auto module = gguf_module(*architecture_, name.substr(0, dot));
    if (!module) return {nullptr, {}};
    const std::string own = fmt::format("{}{}", *module, name.substr(dot));
    const auto found = tensors_.find(own);
    return {found == tensors_.end() ? nullptr : found->second.tensor, own};
  }

  static Result<std::vector<float>> read_floats(const GgufTensor& tensor, const std::string& name) {
    const std::string_view type = tensor.type->name;
    const std::size_t count = tensor.data.size() / tensor.type->bytes;
    std::vector<float> values(type == "F32" || type == "F16" || type == "BF16" ? count : 0);
    if (values.empty())
      return fail(ErrorCode::kUnsupported, fmt::format("a vector of type {} cannot be read", type),
                  name);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = float_at(tensor.data.data() + i * tensor.type->bytes, type);
    return values;
  }

  static float float_at(const std::byte* p, std::string_view type) {
    if (type == "F32") return load<float>(p);
    const auto bits = load<std::uint16_t>(p);
    return type == "F16" ? f16_to_float(bits) : bf16_to_float(bits);
  }

  Result<void> read_config() {
    const auto embedding = tensors_.find("token_embd.weight");
    GgufTensorFacts facts{
        .vocab_size = embedding == tensors_.end() ? 0 : embedding->second.tensor->shape.front(),
        .has = [this](std::string_view name) { return tensors_.contains(name); }};
    if (const auto freqs = tensors_.find("rope_freqs.weight"); freqs != tensors_.end()) {
      EXO_TRY(facts.rope_divisors, read_floats(*freqs->second.tensor, "rope_freqs.weight"));
    }
    EXO_TRY(config_, config_from_gguf(shards_[0].metadata, facts));
    architecture_ = gguf_architecture(*shards_[0].metadata.string("general.architecture"));
    head_dim_ = config_.value("head_dim", std::size_t{0});
    eos_ = eos_ids_from_gguf(shards_[0].metadata);
    return {};
  }

  std::vector<GgufFile> shards_;
  std::map<std::string, Located, std::less<>> tensors_;
  Json config_;
  std::vector<std::uint32_t> eos_;
  std::size_t head_dim_ = 0;
  const GgufArchitecture* architecture_ = nullptr;
};

// "PREFIX-00002-of-00003.gguf" → its parts; nothing for another name.
struct SplitName {
  std::string prefix;
  std::size_t index = 0, count = 0;
};
std::optional<SplitName> split_name(const std::string& file_name) {
  constexpr std::size_t kTail = std::string_view("-00001-of-00002.gguf").size();
  if (file_name.size() <= kTail) return std::nullopt;
  const std::string_view tail = std::string_view(file_name).substr(file_name.size() - kTail);
  SplitName name{.prefix = file_name.substr(0, file_name.size() - kTail)};
  const auto number = [&](std::size_t at, std::size_t& value) {
    const auto [end, error] = std::from_chars(tail.data() + at, tail.data() + at + 5, value);
    return error == std::errc() && end == tail.data() + at + 5;
  };
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf")
    return std::nullopt;
  if (!number(1, name.index) || !number(10, name.count)) return std::nullopt;
  return name;
}

Result<std::vector<GgufFile>> open_shards(const std::filesystem::path& path, GgufFile first,
                                          std::int64_t count) {
  const auto name = split_name(path.filename());
  if (!name || name->count != static_cast<std::uint64_t>(count)) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("this is one of {} files of a model, and its name does not say which "
                            "(NAME-00001-of-{:05}.gguf)",
                            count, count),
                path);
  }
  std::vector<GgufFile> shards;
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < name->count; ++i) {
    const auto shard_path = path.parent_path() /
                            fmt::format("{}-{:05}-of-{:05}.gguf", name->prefix, i + 1, name->count);
    Result<GgufFile> shard =
        i + 1 == name->index ? Result<GgufFile>(std::move(first)) : GgufFile::open(shard_path);
    if (!shard) return std::unexpected(std::move(shard.error()));
    if (shard->metadata.integer("split.no").value_or(-1) != static_cast<std::int64_t>(i) ||
        shard->metadata.integer("split.count").value_or(-1) != count) {
      return fail(ErrorCode::kInvalidInput, "the file's place in the model disagrees with its name",
                  shard_path);
    }
    tensors += shard->tensors.size();
    shards.push_back(std::move(*shard));
  }
  const auto expected = shards[0].metadata.integer("split.tensors.count");
  if (expected && *expected != static_cast<std::int64_t>(tensors)) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the model's files hold {} tensors instead of {}", tensors, *expected),
                path);
  }
  return shards;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_gguf(const std::filesystem::path& path) {
  EXO_TRY(GgufFile first, GgufFile::open(path));
  const std::int64_t count = first.metadata.integer("split.count").value_or(1);
  std::vector<GgufFile> shards;
  if (count > 1) {
    constexpr std::int64_t kMaxShards = 9999;
    if (count > kMaxShards)
      return fail(ErrorCode::kInvalidInput, "damaged GGUF file: too many shards", path);
    EXO_TRY(shards, open_shards(path, std::move(first), count));
  } else {
    shards.push_back(std::move(first));
  }
  return GgufCheckpoint::open(std::move(shards));
}

}  // namespace exo::models
