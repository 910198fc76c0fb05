// Small checkpoint files for tests, written byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace exo::models {

// A directory that goes when the test ends.
class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "exo-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A GGUF file in the making.
class GgufBuilder {
 public:
  GgufBuilder& string(const std::string& key, const std::string& value) {
    return pair(key, 8, text(value));
  }
  GgufBuilder& u32(const std::string& key, std::uint32_t value) { return pair(key, 4, raw(value)); }
  GgufBuilder& f32(const std::string& key, float value) { return pair(key, 6, raw(value)); }
  GgufBuilder& strings(const std::string& key, const std::vector<std::string>& values) {
    std::string payload = raw(std::uint32_t{8}) + raw(std::uint64_t{values.size()});
    for (const std::string& value : values) payload += text(value);
    return pair(key, 9, payload);
  }
  GgufBuilder& integers(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string payload = raw(std::uint32_t{5}) + raw(std::uint64_t{values.size()});
    for (const std::int32_t value : values) payload += raw(value);
    return pair(key, 9, payload);
  }
  GgufBuilder& f32s(const std::string& key, const std::vector<float>& values) {
    std::string payload = raw(std::uint32_t{6}) + raw(std::uint64_t{values.size()});
    for (const float value : values) payload += raw(value);
    return pair(key, 9, payload);
  }
  GgufBuilder& boolean(const std::string& key, bool value) {
    return pair(key, 7, std::string(1, value ? '\1' : '\0'));
  }
  // `dimensions` as GGUF has them: the contiguous one first.
  GgufBuilder& tensor(const std::string& name, const std::vector<std::uint64_t>& dimensions,
                      std::uint32_t type, const std::string& data) {
    std::string record = text(name) + raw(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t d : dimensions) record += raw(d);
    records_ += record + raw(type) + raw(std::uint64_t{data_.size()});
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensors_;
    return *this;
  }
  // All the keys of a llama of one layer, and its tensors, in F32; a tokenizer unless told "".
  GgufBuilder& tiny_llama(const std::string& tokenizer = "gpt2");

  std::string bytes() const {
    std::string header =
        "GGUF" + raw(std::uint32_t{3}) + raw(tensors_) + raw(pairs_) + meta_ + records_;
    if (!data_.empty()) header.resize((header.size() + 31) / 32 * 32);
    return header + data_;
  }

  static std::string text(const std::string& value) {
    return raw(std::uint64_t{value.size()}) + value;
  }

 private:
  GgufBuilder& pair(const std::string& key, std::uint32_t type, const std::string& payload) {
    meta_ += text(key) + raw(type) + payload;
    ++pairs_;
    return *this;
  }

  std::uint64_t pairs_ = 0, tensors_ = 0;
  std::string meta_, records_, data_;
};

inline std::string floats(std::size_t count) {
  std::string data;
  for (std::size_t i = 0; i < count; ++i) data += raw(static_cast<float>(i) / 64);
  return data;
}

inline GgufBuilder& GgufBuilder::tiny_llama(const std::string& tokenizer) {
  constexpr std::uint32_t kHidden = 32, kHeads = 2, kVocabulary = 6;
  string("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u32("llama.context_length", 64);
  u32("llama.embedding_length", kHidden)
      .u32("llama.feed_forward_length", kHidden)
      .u32("llama.attention.head_count", kHeads);
  u32("llama.attention.head_count_kv", kHeads).f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  if (!tokenizer.empty()) {
    string("tokenizer.ggml.model", tokenizer).string("tokenizer.ggml.pre", "smollm");
    strings("tokenizer.ggml.tokens", {"<|endoftext|>", "<|im_end|>", "a", "b", "ab", "\xC4\xA0"});
    integers("tokenizer.ggml.token_type", {3, 3, 1, 1, 1, 1})
        .strings("tokenizer.ggml.merges", {"a b"});
    u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", 1);
  }
  const std::string square = floats(kHidden * kHidden), vector = floats(kHidden);
  tensor("token_embd.weight", {kHidden, kVocabulary}, 0, floats(kHidden * kVocabulary))
      .tensor("output_norm.weight", {kHidden}, 0, vector);
  for (const char* name : {"attn_norm", "ffn_norm"})
    tensor(std::string("blk.0.") + name + ".weight", {kHidden}, 0, vector);
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    tensor(std::string("blk.0.") + name + ".weight", {kHidden, kHidden}, 0, square);
  }
  return *this;
}

// A safetensors file of the header's text and its data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return raw(std::uint64_t{header.size()}) + header + data;
}

}  // namespace exo::models
