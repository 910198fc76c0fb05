// Whole files: bounded reading, atomic replacement.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/result.h"

namespace exo {

// The content of a regular file. Errors: kNotFound, kPermission, kIo; kInvalidInput when it is no
// regular file or is longer than `max_bytes`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes);

// Replaces the file as a whole (temporary file in the same directory, fsync, rename); parents are
// created. `mode` as chmod. Errors: kPermission, kNoSpace, kIo; the old file stays as it was.
Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        unsigned mode = 0644);

// A new, empty file, open for writing. Errors: kAlreadyExists or another of fail_errno().
Result<Descriptor> create_file(const std::filesystem::path& path, unsigned mode = 0644);

// Creates `path` and its parents. Errors: kPermission, kNoSpace, kIo.
Result<void> make_directories(const std::filesystem::path& path);

}  // namespace exo
