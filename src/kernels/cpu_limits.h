// How many processor cores this process may use, as the system's files tell it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace exo::kernels {

// The CPUs of this process's affinity mask; empty where the system has none.
std::vector<int> allowed_cpus();

// How many different physical cores `cpus` are on; a CPU whose topology cannot be read counts as a
// core of its own.
//   cpu_directory  /sys/devices/system/cpu, or a copy of it
std::size_t count_physical_cores(std::span<const int> cpus,
                                 const std::filesystem::path& cpu_directory);

// CPUs' worth of time that cgroup v2's cpu.max grants ("max 100000", "150000 100000"), if it
// limits.
std::optional<double> parse_cpu_max(std::string_view text);

// The tightest CPU quota among the process's cgroup and those above it, v2 and v1.
//   membership  /proc/self/cgroup    hierarchy  /sys/fs/cgroup    (or copies of them)
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& membership,
                                       const std::filesystem::path& hierarchy);

}  // namespace exo::kernels
