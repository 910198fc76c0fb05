// Topology and quota files as Linux writes them, and as a broken system might.
#include "kernels/cpu_limits.h"

#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace exo::kernels {
namespace {

namespace fs = std::filesystem;

class CpuLimits : public testing::Test {
 protected:
  CpuLimits() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / (std::string("exo_cpu_limits_") + info->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~CpuLimits() override { fs::remove_all(root_); }

  fs::path write(const fs::path& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
    return root_ / name;
  }

  fs::path root_;
};

TEST_F(CpuLimits, HyperthreadsOfOneCoreCountOnce) {
  for (const int cpu : {0, 1, 2, 3}) {
    write("cpu" + std::to_string(cpu) + "/topology/core_cpus_list",
          cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  }
  EXPECT_EQ(count_physical_cores(std::vector{0, 1, 2, 3}, root_), 2U);
  EXPECT_EQ(count_physical_cores(std::vector{0, 2}, root_), 1U);
  EXPECT_EQ(count_physical_cores(std::vector{3}, root_), 1U);
  EXPECT_EQ(count_physical_cores({}, root_), 0U);
}

TEST_F(CpuLimits, ACpuWithoutTopologyIsACoreOfItsOwn) {
  write("cpu0/topology/thread_siblings_list", "0-1\n");
  write("cpu1/topology/thread_siblings_list", "0-1\n");
  EXPECT_EQ(count_physical_cores(std::vector{0, 1, 5, 9}, root_), 3U);
}

TEST(ParseCpuMax, ReadsAQuotaAndNothingElse) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  for (const std::string_view text :
       {"max 100000\n", "", "150000", "-1 100000", "1 0", "a b", " "}) {
    EXPECT_EQ(parse_cpu_max(text), std::nullopt) << text;
  }
}

TEST_F(CpuLimits, TheTightestGroupOfAPathCounts) {
  const auto membership = write("membership", "0::/outer/inner\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), std::nullopt);
  write("outer/inner/cpu.max", "300000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), 3);
  write("outer/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), 2);
  write("cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), 0.5);
}

TEST_F(CpuLimits, ReadsVersionOneToo) {
  const auto membership =
      write("membership", "5:memory:/m\n4:cpu,cpuacct:/task\n3:cpuset:/task\nnonsense\n");
  write("cpu/task/cpu.cfs_period_us", "100000\n");
  write("cpu/task/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), std::nullopt);
  write("cpu/task/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), 4);
  write("cpu,cpuacct/task/cpu.cfs_quota_us", "100000\n");
  write("cpu,cpuacct/task/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, root_), 1);
}

TEST_F(CpuLimits, APathThatLeavesTheMountAndMissingFilesLimitNothing) {
  write("mount/cpu.max", "200000 100000\n");
  write("elsewhere/cpu.max", "100000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(write("membership", "0::/../elsewhere\n"), root_ / "mount"), 2);
  EXPECT_EQ(cgroup_cpu_quota(root_ / "missing", root_ / "missing"), std::nullopt);
}

TEST(AllowedCpus, IncludesTheOneThisRunsOn) { EXPECT_GE(allowed_cpus().size(), 1U); }

}  // namespace
}  // namespace exo::kernels
