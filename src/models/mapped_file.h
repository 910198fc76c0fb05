// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/result.h"

namespace exo::models {

class MappedFile {
 public:
  // Errors: kNotFound, kPermission, kIo; kInvalidInput: no regular file, or empty. `subject` is the
  // path.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const;
  const std::filesystem::path& path() const;

  // Tells the system that these bytes are not needed again, so that their pages stop counting as
  // this process's. Reading them again is correct and slow. Thread-safe.
  void drop(std::span<const std::byte> part) const;
  // Tells the system that the file is about to be read as a whole.
  void will_need() const;

 private:
  struct State;
  explicit MappedFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace exo::models
