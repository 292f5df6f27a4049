// Lists that are text: parameters of kernels (backends/kernels/kernels.def), CPU features of libllmc_onednn.so.
#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

namespace llmc {

// The words between spaces; they point into `text`.
inline std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace llmc
