// NPY (numpy.lib.format): magic, version, header length, a Python dict literal, the data.
#include "tools/workbench/npy_read.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "ir/diag.h"
#include "tools/scheduled_model.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

[[noreturn]] void Bad(const std::string& path, const std::string& rule) { Fail(DiagKind::BadFormat, {path, ""}, rule); }

// What stands behind 'key': in the header.
std::string_view After(std::string_view header, std::string_view key, const std::string& path) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos) Bad(path, fmt::format("the NPY header has no '{}'", key));
  header.remove_prefix(at + quoted.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  return header;
}

std::vector<int64_t> Shape(std::string_view text, const std::string& path) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  if (!text.starts_with('(')) Bad(path, "the NPY shape is no tuple");
  text.remove_prefix(1);
  while (!text.starts_with(')')) {
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0 || (dim > 0 && count > kMost / dim)) Bad(path, "the NPY shape is not usable");
    count *= dim;
    shape.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    while (text.starts_with(',') || text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) Bad(path, "the NPY shape does not end");
  }
  return shape;
}

}  // namespace

NpyArray ReadNpy(const std::string& path) {
  const std::string bytes = ReadText(path);
  if (bytes.size() < 12 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) Bad(path, "is no NPY file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = byte(6), prefix = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) Bad(path, fmt::format("is NPY of version {}; known are 1 to 3", version));
  const size_t length = byte(8) + (byte(9) << 8) + (version == 1 ? 0 : (byte(10) << 16) + (byte(11) << 24));
  if (length > bytes.size() - prefix) Bad(path, "the NPY header is cut");
  const std::string_view header = std::string_view(bytes).substr(prefix, length);
  const std::string_view type = After(header, "descr", path).substr(0, 5);
  const bool f32 = type == "'<f4'";
  if (!f32 && type != "'<f8'") Bad(path, fmt::format("holds {}...; known are '<f4' and '<f8'", type));
  if (!After(header, "fortran_order", path).starts_with("False")) Bad(path, "is in Fortran order");
  NpyArray array;
  array.shape = Shape(After(header, "shape", path), path);
  int64_t count = 1;
  for (int64_t dim : array.shape) count *= dim;
  const size_t size = static_cast<size_t>(count) * (f32 ? 4 : 8);
  if (bytes.size() - prefix - length != size)
    Bad(path, fmt::format("{} values need {} bytes, there are {}", count, size, bytes.size() - prefix - length));
  const char* data = bytes.data() + prefix + length;
  array.values.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < array.values.size(); ++i) {
    double wide = 0;
    if (f32)
      std::memcpy(&array.values[i], data + i * 4, 4);
    else
      std::memcpy(&wide, data + i * 8, 8);
    if (!f32) array.values[i] = static_cast<float>(wide);
  }
  return array;
}

}  // namespace llmc
