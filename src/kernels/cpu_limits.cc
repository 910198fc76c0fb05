// Reading affinity, core topology and cgroup quotas. A file that is missing or odd limits nothing.
#include "kernels/cpu_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>

#if defined(__linux__)
#include <sched.h>
#endif

namespace exo::kernels {
namespace {

namespace fs = std::filesystem;

// The whole file, or nothing.
std::optional<std::string> read_text(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<double> parse_positive(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data() || value <= 0) return std::nullopt;
  return static_cast<double>(value);
}

std::optional<double> quota_over_period(std::string_view quota, std::string_view period) {
  const auto q = parse_positive(quota), p = parse_positive(period);
  if (!q || !p) return std::nullopt;
  return *q / *p;
}

std::optional<double> quota_v2(const fs::path& group) {
  const auto text = read_text(group / "cpu.max");
  return text ? parse_cpu_max(*text) : std::nullopt;
}

std::optional<double> quota_v1(const fs::path& group) {
  const auto quota = read_text(group / "cpu.cfs_quota_us");  // −1: no limit
  const auto period = read_text(group / "cpu.cfs_period_us");
  return quota && period ? quota_over_period(*quota, *period) : std::nullopt;
}

void tighten(std::optional<double>& least, std::optional<double> other) {
  if (other && (!least || *other < *least)) least = other;
}

// The tightest quota of `group` and all groups above it up to `root`. Inside a container the path
// may lead out of what is mounted; the missing levels limit nothing.
template <typename ReadQuota>
std::optional<double> tightest(const fs::path& root, std::string_view group, ReadQuota read_quota) {
  std::optional<double> least = read_quota(root);
  fs::path directory = root;
  for (const fs::path& part : fs::path(group).relative_path()) {
    if (part == "..") return least;
    directory /= part;
    tighten(least, read_quota(directory));
  }
  return least;
}

bool lists_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) break;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  // A fixed set holds 1024 CPUs; larger machines need a longer mask.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 16; capacity *= 4) {
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    std::vector<unsigned long> mask(bytes / sizeof(unsigned long));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(0, bytes, set) != 0) continue;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    break;
  }
#endif
  return cpus;
}

std::size_t count_physical_cores(std::span<const int> cpus, const fs::path& cpu_directory) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string label = "cpu" + std::to_string(cpu);
    const fs::path topology = cpu_directory / label / "topology";
    auto siblings = read_text(topology / "core_cpus_list");
    if (!siblings) siblings = read_text(topology / "thread_siblings_list");  // before Linux 5.3
    cores.insert(siblings && !siblings->empty() ? *siblings : label);
  }
  return cores.size();
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return quota_over_period(text.substr(0, space), text.substr(space + 1));
}

std::optional<double> cgroup_cpu_quota(const fs::path& membership, const fs::path& hierarchy) {
  std::optional<double> least = quota_v2(hierarchy);
  std::ifstream file(membership);
  std::string line;  // "0::/path" for v2, "4:cpu,cpuacct:/path" for v1
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) tighten(least, tightest(hierarchy, group, quota_v2));
    if (!lists_cpu(controllers)) continue;
    tighten(least, tightest(hierarchy / "cpu", group, quota_v1));
    tighten(least, tightest(hierarchy / controllers, group, quota_v1));
  }
  return least;
}

}  // namespace exo::kernels
