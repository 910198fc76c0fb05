// Loading a model whose files are in the page cache, in turns with copying the same files into
// fresh memory: what packing into tiles costs beside moving the bytes.
//
// usage: load_bench MODEL [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <vector>

#include "engine/model.h"
#include "kernels/matrix.h"
#include "models/checkpoint.h"
#include "models/mapped_file.h"

namespace {

using namespace exo;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void stop(const Error& error) {
  fmt::print(stderr, "load_bench: {}\n", to_string(error));
  std::exit(1);
}

std::vector<fs::path> weight_files(const fs::path& model) {
  if (!fs::is_directory(model)) return {model};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(model))
    if (entry.path().extension() == ".safetensors" || entry.path().extension() == ".gguf")
      files.push_back(entry.path());
  return files;
}

// Bytes per second.
double copy(const std::vector<fs::path>& files, kernels::ThreadPool& pool) {
  const auto start = Clock::now();
  std::size_t bytes = 0;
  for (const fs::path& path : files) {
    const auto file = models::MappedFile::open(path);
    if (!file) stop(file.error());
    const auto from = file->bytes();
    const auto to = kernels::Buffer::allocate(from.size());
    if (!to) stop(to.error());
    pool.parallel_for(from.size(), std::size_t{1} << 20, [&](std::size_t begin, std::size_t end) {
      std::memcpy(to->data() + begin, from.data() + begin, end - begin);
    });
    bytes += from.size();
  }
  return static_cast<double>(bytes) / seconds_since(start);
}

double load(const fs::path& model, kernels::ThreadPool& pool) {
  const auto start = Clock::now();
  const auto checkpoint = models::open_checkpoint(model);
  if (!checkpoint) stop(checkpoint.error());
  const auto loaded = engine::Model::load(**checkpoint, pool, {});
  if (!loaded) stop(loaded.error());
  return static_cast<double>((*checkpoint)->weight_bytes()) / seconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: load_bench MODEL [THREADS]\n");
    return 2;
  }
  const fs::path model = argv[1];
  kernels::ThreadPool pool({.threads = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 2});
  const std::vector<fs::path> files = weight_files(model);
  copy(files, pool);  // brings them into the page cache
  double copied = 0, loaded = 0;
  for (int turn = 0; turn < 5; ++turn) {
    copied = std::max(copied, copy(files, pool));
    loaded = std::max(loaded, load(model, pool));
  }
  fmt::print("copy {:.2f} GB/s, load {:.2f} GB/s: {:.2f} of a copy\n", copied * 1e-9, loaded * 1e-9,
             loaded / copied);
}
