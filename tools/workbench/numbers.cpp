// Comparison of floats by bits, distance and relative error.
#include "tools/workbench/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ir/diag.h"

namespace llmc {
namespace {

// Floats in ascending order as integers; both zeros are 0.
int64_t Ordered(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits < 0 ? -static_cast<int64_t>(bits & 0x7fffffff) : bits;
}

uint64_t Ulps(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return uint64_t{1} << 32;
  const int64_t distance = Ordered(a) - Ordered(b);
  return static_cast<uint64_t>(distance < 0 ? -distance : distance);
}

double Distance(float a, float b) {
  if (std::isfinite(a) && std::isfinite(b)) return std::abs(static_cast<double>(a) - static_cast<double>(b));
  return std::numeric_limits<double>::infinity();
}

}  // namespace

Difference Compare(std::span<const float> now, std::span<const float> was, size_t columns) {
  LLMC_CHECK(now.size() == was.size() && columns > 0 && now.size() % columns == 0, "values of one shape are compared");
  Difference d;
  d.values = now.size();
  for (size_t row = 0; row * columns < now.size(); ++row) {
    double error = 0, norm = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
      const auto w = static_cast<double>(was[i]);
      norm += w * w;
      if (std::bit_cast<uint32_t>(now[i]) == std::bit_cast<uint32_t>(was[i])) continue;
      if (d.unequal++ == 0) d.first = i;
      const double distance = Distance(now[i], was[i]);
      error += distance * distance;
      if (distance > d.max_abs) {
        d.max_abs = distance;
        d.worst = i;
      }
      d.max_ulp = std::max(d.max_ulp, Ulps(now[i], was[i]));
    }
    const double nmse = error == 0 ? 0 : norm > 0 ? error / norm : std::numeric_limits<double>::infinity();
    if (!(nmse <= d.worst_nmse)) {
      d.worst_nmse = nmse;
      d.worst_row = row;
    }
  }
  return d;
}

std::string ShortNumber(double value) { return value == 0 ? "0" : fmt::format("{:.2g}", value); }

std::string JsonNumber(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace llmc
