// Remarks as lines that fold.
#include "tools/remarks.h"

#include "tools/fold_text.h"

namespace llmc {

void Remarks::Flush() {
  std::vector<std::string> lines;
  lines.reserve(kept_.size());
  for (const Diag& diag : kept_) lines.push_back(diag.message);
  for (FoldedLine& line : FoldLines(lines)) {
    Diag diag = kept_[line.first];
    diag.message = std::move(line.text);
    out_(diag);
  }
  kept_.clear();
}

}  // namespace llmc
