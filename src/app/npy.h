// A NumPy array file, written row by row. Source: NumPy's format version 1.0.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>

#include "core/result.h"

namespace exo::app {

// f32[rows, cols], little-endian, C order. The file appears under its name when it is whole.
class NpyWriter {
 public:
  // Errors: kPermission, kNoSpace, kIo, kNotFound: the directory.
  static Result<NpyWriter> create(const std::filesystem::path& path, std::size_t rows,
                                  std::size_t cols);
  NpyWriter(NpyWriter&&) noexcept = default;
  NpyWriter& operator=(NpyWriter&&) = delete;
  ~NpyWriter();

  // Appends whole rows. Errors: as create().
  Result<void> write(std::span<const float> values);
  // After the last row. Errors: as create().
  Result<void> finish();

 private:
  NpyWriter(std::filesystem::path path, std::filesystem::path temporary);
  Result<void> put(const char* data, std::size_t size);

  std::filesystem::path path_, temporary_;
  std::ofstream out_;
};

}  // namespace exo::app
