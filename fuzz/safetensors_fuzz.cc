// A directory in MLX or Hugging Face layout. The input: config.json, tokenizer_config.json,
// model.safetensors.
#include "fuzz/checkpoint_walk.h"
#include "fuzz/input.h"
#include "models/checkpoint_builder.h"
#include "models/safetensors.h"

namespace {

// A directory whose files are links to files in memory: one write each per input.
class Directory {
 public:
  Directory() {
    std::filesystem::create_symlink(config_.path(), path() / "config.json");
    std::filesystem::create_symlink(tokenizer_.path(), path() / "tokenizer_config.json");
    std::filesystem::create_symlink(weights_.path(), path() / "model.safetensors");
  }
  void write(std::string_view config, std::string_view tokenizer, std::string_view weights) {
    config_.write(config);
    tokenizer_.write(tokenizer);
    weights_.write(weights);
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  exo::models::TestDirectory directory_;
  exo::fuzz::MemoryFile config_{"config"}, tokenizer_{"tokenizer"}, weights_{"weights"};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Directory directory;
  const auto parts = exo::fuzz::parts_of(exo::fuzz::text_of(data, size), 3);
  directory.write(parts[0], parts[1], parts[2]);
  if (const auto model = exo::models::open_safetensors(directory.path()))
    exo::fuzz::walk_checkpoint(**model);
  return 0;
}
