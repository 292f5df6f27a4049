// Lines of reports, those that differ in the layer alone as one.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace llmc {

struct FoldedLine {
  size_t first = 0;  // of the lines that it stands for
  std::string text;  // `b{i}` for the layer, and ", i = 0..30" behind it where it stands for several
};
// What folds as equal layers of the IR do (ir/repeat.h) is one line. A layer is the number in `%b12.` or `$b12.`;
// other numbers may grow with it.
std::vector<FoldedLine> FoldLines(const std::vector<std::string>& lines);

}  // namespace llmc
