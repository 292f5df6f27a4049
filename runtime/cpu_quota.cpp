// /proc/self/cgroup, /proc/self/mountinfo, and the groups they lead to.
#include "runtime/cpu_quota.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace llmc {
namespace {

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return lines;
  char* line = nullptr;
  size_t room = 0;
  for (ssize_t n = 0; (n = getline(&line, &room, file)) >= 0;)
    lines.emplace_back(line, static_cast<size_t>(n > 0 && line[n - 1] == '\n' ? n - 1 : n));
  std::free(line);
  std::fclose(file);
  return lines;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

// "a list,of words" has the word.
bool Lists(const std::string& list, const std::string& word) {
  const std::vector<std::string> words = Split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo writes blanks and backslashes as three octal digits.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Mount {
  bool v2 = false;
  std::string group, point;  // the group that is mounted, and where
};

// The hierarchies that can hold a limit.
std::vector<Mount> Mounts(const std::string& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : LinesOf(root + "/proc/self/mountinfo")) {
    // id parent device ROOT POINT options [fields..] - TYPE source SUPER
    const std::vector<std::string> words = Split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2", v1 = dash[1] == "cgroup" && Lists(dash[3], "cpu");
    if (v1 || v2) mounts.push_back({v2, Unescaped(words[3]), Unescaped(words[4])});
  }
  return mounts;
}

// The process's group in the hierarchy of a mount.
std::string GroupOf(const Mount& mount, const std::string& root) {
  for (const std::string& line : LinesOf(root + "/proc/self/cgroup")) {  // id:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (mount.v2 ? controllers.empty() : Lists(controllers, "cpu")) return line.substr(second + 1);
  }
  return "/";
}

// ceil(quota / period) of a group's folder; 0: no limit.
uint64_t LimitOf(const std::string& folder, bool v2) {
  long long quota = -1, period = 0;
  if (v2) {
    const std::vector<std::string> lines = LinesOf(folder + "/cpu.max");
    if (lines.empty() || std::sscanf(lines[0].c_str(), "%lld %lld", &quota, &period) != 2) return 0;  // "max 100000"
  } else {
    const std::vector<std::string> quotas = LinesOf(folder + "/cpu.cfs_quota_us"),
                                   periods = LinesOf(folder + "/cpu.cfs_period_us");
    if (quotas.empty() || periods.empty()) return 0;
    quota = std::atoll(quotas[0].c_str());
    period = std::atoll(periods[0].c_str());
  }
  if (quota <= 0 || period <= 0) return 0;
  return (static_cast<uint64_t>(quota) + static_cast<uint64_t>(period) - 1) / static_cast<uint64_t>(period);
}

}  // namespace

uint32_t QuotaCores(const std::string& root) {
  uint64_t least = 0;
  for (const Mount& mount : Mounts(root)) {
    // Below the mounted group the folders are the path's; a group that isn't below it (seen from a namespace: "/..")
    // leaves the mounted one.
    std::string group = GroupOf(mount, root);
    const std::string above = mount.group == "/" ? "" : mount.group;
    group = group.starts_with(above) && group.find("/..") == std::string::npos ? group.substr(above.size()) : "";
    while (true) {
      const uint64_t limit = LimitOf(root + mount.point + group, mount.v2);
      if (limit > 0) least = least == 0 ? limit : std::min(least, limit);
      const size_t slash = group.rfind('/');
      if (group.empty() || slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return static_cast<uint32_t>(std::min<uint64_t>(least, 1u << 20));
}

}  // namespace llmc
