// Brings a file to another place in the cheapest way that the file systems allow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/result.h"

namespace exo::models {

// Hard link, else reflink. False: neither is possible there. Errors: kPermission, kNoSpace, kIo: of
// the target's directory.
Result<bool> link_file(const std::filesystem::path& from, const std::filesystem::path& to);

// The same, else a copy in pieces, `progress` told of each. Errors: kNoSpace, kPermission, kIo; the
// target is removed then.
Result<void> place_file(const std::filesystem::path& from, const std::filesystem::path& to,
                        const std::function<void(std::uint64_t bytes)>& progress);

}  // namespace exo::models
