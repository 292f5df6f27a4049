// I03: CPU limits of control groups, of the process's own and those above it, in both versions.
#include "runtime/cpu_quota.h"

#include <filesystem>
#include <fstream>

#include "tests/plan/support.h"

namespace llmc {
namespace {

class Quota : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint32_t Cores() const { return QuotaCores(root_.string()); }
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) /
            ("quota-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::filesystem::path root_;
};

constexpr char kV2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(Quota, NothingIsNoLimit) {
  EXPECT_EQ(Cores(), 0U);
  Write("/proc/self/mountinfo", kV2);
  Write("/proc/self/cgroup", "0::/a\n");
  EXPECT_EQ(Cores(), 0U);
  Write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(Cores(), 0U);
}

TEST_F(Quota, TheLeastOfTheGroupAndThoseAboveIt) {
  Write("/proc/self/mountinfo", std::string("22 1 8:1 / / rw - ext4 /dev/sda rw\n") + kV2);
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/sys/fs/cgroup/a/b/c/cpu.max", "350000 100000\n");
  EXPECT_EQ(Cores(), 4U);  // rounded up
  Write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Cores(), 2U);
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Cores(), 2U);
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(Cores(), 1U);
  Write("/sys/fs/cgroup/x/cpu.max", "1000 100000\n");  // another group's
  EXPECT_EQ(Cores(), 1U);
}

TEST_F(Quota, ContainersSeeTheirGroupMounted) {
  Write("/proc/self/mountinfo", "30 23 0:26 /docker/1 /my\\040groups rw shared:4 - cgroup2 cgroup rw\n");
  Write("/proc/self/cgroup", "0::/docker/1/job\n");
  Write("/my groups/job/cpu.max", "300000 100000\n");
  EXPECT_EQ(Cores(), 3U);
  Write("/my groups/cpu.max", "200000 100000\n");
  EXPECT_EQ(Cores(), 2U);
  Write("/proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(Cores(), 2U);
}

TEST_F(Quota, VersionOne) {
  Write("/proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  Write("/proc/self/cgroup", "9:memory:/m\n4:cpu,cpuacct:/jobs/1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/jobs/1/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/jobs/1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cores(), 0U);
  Write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "250000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cores(), 3U);
}

TEST_F(Quota, DamagedFilesAreNoLimit) {
  Write("/proc/self/mountinfo", "30\n\n - \n30 23 0:26 / /g rw - cgroup2\n30 23 0:26 / /g rw - cgroup2 c rw\n");
  Write("/proc/self/cgroup", "0\n:::\n0::/a\n");
  for (const char* text : {"", "x y\n", "100000\n", "-5 100000\n", "100000 0\n"}) {
    Write("/g/a/cpu.max", text);
    EXPECT_EQ(Cores(), 0U) << text;
  }
}

}  // namespace
}  // namespace llmc
