// Remarks of passes, those that differ in the layer alone as one line.
#pragma once
#include <vector>

#include "ir/diag.h"

namespace llmc {

class Remarks {
 public:
  explicit Remarks(DiagSink out) : out_(std::move(out)) {}
  // Keeps a remark until Flush.
  void Add(Diag diag) { kept_.push_back(std::move(diag)); }
  // Hands them on in order. What folds as equal layers of the IR do (ir/repeat.h) is written once, with `b{i}` for the
  // layer and ", i = 0..30" behind it.
  void Flush();

 private:
  DiagSink out_;
  std::vector<Diag> kept_;
};

}  // namespace llmc
