// Statistics of every op's results, and comparison with tensors of another program.
#include "tools/workbench/trace.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "ir/diag.h"
#include "tools/scheduled_model.h"
#include "tools/text_file.h"
#include "tools/workbench/npy_read.h"
#include "tools/workbench/numbers.h"

namespace llmc {
namespace {

void Summarise(TraceRow& row) {
  double sum = 0, squares = 0;
  size_t finite = 0;
  for (size_t i = 0; i < row.value.values.size(); ++i) {
    const auto v = static_cast<double>(row.value.values[i]);
    if (!std::isfinite(v)) {
      if (row.nonfinite++ == 0) row.first_nonfinite = i;
      continue;
    }
    row.least = finite == 0 ? v : std::min(row.least, v);
    row.largest = finite == 0 ? v : std::max(row.largest, v);
    sum += v;
    squares += v * v;
    ++finite;
  }
  if (finite == 0) return;
  row.mean = sum / static_cast<double>(finite);
  row.deviation = std::sqrt(std::max(0.0, squares / static_cast<double>(finite) - row.mean * row.mean));
}

std::vector<int64_t> Dims(const Type& type) {
  std::vector<int64_t> dims;
  for (const Dim& dim : type.dims) dims.push_back(dim.value);
  return dims;
}

std::vector<int64_t> WithoutLeadingOnes(std::vector<int64_t> dims, size_t rank) {
  while (dims.size() > rank && dims.front() == 1) dims.erase(dims.begin());
  return dims;
}

// A map file: ours -> theirs.
std::map<std::string, std::string> ReadMap(const std::string& path) {
  std::map<std::string, std::string> map;
  if (path.empty()) return map;
  std::istringstream lines(ReadText(path));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string ours, theirs, more;
    if (!(words >> ours)) continue;
    if (!(words >> theirs) || words >> more)
      Fail(DiagKind::SyntaxError, {path, std::to_string(number)}, "a line is OURS THEIRS: a value's name, a file's");
    map[ours] = theirs;
  }
  return map;
}

}  // namespace

std::vector<TraceRow> Trace(const Module& module, const WeightSource& weights, std::span<const int32_t> tokens,
                            int threads) {
  std::vector<TraceRow> rows;
  std::map<std::string, size_t> known;
  RunValues(module, weights, tokens, threads, [&](OpValue&& value, int64_t) {
    const auto [found, fresh] = known.emplace(value.name, rows.size());
    if (fresh) {
      rows.push_back({std::move(value)});
      return;
    }
    OpValue& whole = rows[found->second].value;
    if (!whole.type.dims.empty()) whole.type.dims[0].value += value.type.dims[0].value;
    whole.values.insert(whole.values.end(), value.values.begin(), value.values.end());
  });
  for (TraceRow& row : rows) Summarise(row);
  return rows;
}

std::vector<Parted> CompareWith(const std::vector<TraceRow>& rows, const std::string& folder, const std::string& map) {
  const std::map<std::string, std::string> names = ReadMap(map);
  std::vector<Parted> out;
  for (const TraceRow& row : rows) {
    const auto named = names.find(row.value.name);
    const std::string file = (named == names.end() ? row.value.name : named->second) + ".npy";
    const std::string path = folder + "/" + file;
    std::error_code none;
    if (!std::filesystem::exists(path, none)) continue;
    const NpyArray theirs = ReadNpy(path);
    Parted parted{row.value.name, file, "", 0, 0};
    const std::vector<int64_t> dims = Dims(row.value.type);
    if (theirs.values.size() != row.value.values.size() ||
        WithoutLeadingOnes(theirs.shape, 1).front() != dims.front()) {
      parted.problem = fmt::format("ours has {} values, theirs {}", row.value.values.size(), theirs.values.size());
    } else {
      const Difference d = Compare(
          row.value.values, theirs.values,
          static_cast<size_t>(static_cast<int64_t>(row.value.values.size()) / std::max<int64_t>(1, dims.front())));
      parted.nmse = d.worst_nmse;
      parted.max_abs = d.max_abs;
    }
    out.push_back(std::move(parted));
  }
  if (out.empty())
    Fail(DiagKind::FileError, {folder, ""},
         "holds no NPY file that is named like a value of this run (trace lists them)");
  return out;
}

}  // namespace llmc
