// The limit that control groups put on this process's CPU time.
#pragma once
#include <cstdint>
#include <string>

namespace llmc {

// In cores, rounded up: the least ceil(quota / period) of the process's own group and the groups above it, in the
// hierarchies of version 2 (cpu.max) and version 1 (cpu.cfs_quota_us, cpu.cfs_period_us) alike. 0: there is none. root:
// put before every path, for tests. man 7 cgroups, man 5 proc (self/cgroup, self/mountinfo).
uint32_t QuotaCores(const std::string& root = "");

}  // namespace llmc
