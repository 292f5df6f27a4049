// llmc verify: what each pass and the code did to the numbers.
#pragma once
#include <string>
#include <vector>

#include "tools/cli.h"
#include "tools/workbench/numbers.h"

namespace llmc {

struct VerifyRow {
  std::string what;     // a pass, or "code: ..."
  std::string kind;     // a pass's promise, as llmc opt --list-passes has it
  bool changed = true;  // false: a pass that found nothing to do
  Difference difference;
  bool holds = true;
  std::string note;  // the bound, or why it does not hold
};

struct VerifyReport {
  std::vector<int> layers;  // evaluated
  int all_layers = 0;       // of the model
  std::vector<VerifyRow> rows;
  bool holds() const;
};

// Evaluates the model before and after each pass (eight seeded ids, every position), then the code against the
// interpreter: @score in one call, and @prefill cut in two ways with @decode behind it, with one thread and with two. A
// model of more than kVerifyWhole bytes of weights is cut to one layer of each kind, with its true shapes and weights.
constexpr int64_t kVerifyWhole = int64_t{512} << 20;
VerifyReport VerifyModel(const CompileFlags& flags, bool whole);

}  // namespace llmc
