// Runs the text tests of passes (tests/passes/*.llmc). Usage: pass_text_test [--update] FILE...
//
// The first line of a file says what it guards. Cases are separated by `# ---`. A case is a module, `# ==>`, and what
// the passes make of it: remarks as `# remark: ...`, then the module as printed. Lines `# key: value` at the head of a
// case:
//   # pass: fuse-qkv, pack-weights      what to run
//   # kernels: none                     the backend fuses nothing (default: tests/passes/kernels.h)
//   # backend: auto                     as on llmc's command line (default: llvm)
//   # error: BadAttribute 9:3           instead of a result: kind and place of the diagnostic
// Besides the text, each pass run twice must change nothing the second time, and the interpreter must give the same
// bits before and after a pass that is exact (passes/check.h). `--update` rewrites the expected halves; read the diff.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/weights.h"
#include "passes/check.h"
#include "passes/pass.h"
#include "tests/passes/kernels.h"

namespace llmc {
namespace {

struct Case {
  size_t line = 1;    // of its first line
  std::string input;  // with its directives
  std::string expected;
};

std::vector<std::string> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

// The value of `# key: value`; "": there is none.
std::string Directive(const std::string& text, const std::string& key) {
  for (const std::string& line : Split(text, "\n")) {
    const std::string prefix = "# " + key + ": ";
    if (line.starts_with(prefix)) return line.substr(prefix.size());
  }
  return "";
}

std::vector<Case> Read(const std::string& content) {
  std::vector<Case> cases;
  size_t line = 1;
  for (const std::string& text : Split(content, "# ---\n")) {
    const std::vector<std::string> halves = Split(text, "# ==>\n");
    cases.push_back({line, halves[0], halves.size() > 1 ? halves[1] : ""});
    line += static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  }
  return cases;
}

// Remarks and module, or throws what the passes throw.
std::string RunCase(const Case& test, const std::string& file) {
  // Line numbers in diagnostics are the file's.
  Module module = Parse(std::string(test.line - 1, '\n') + test.input, file);
  Verify(module, file);
  std::string result;
  PassContext context;
  if (Directive(test.input, "kernels") != "none") context.kernels = test::TestKernels();
  context.onednn = test::TestOnednn();
  context.choose = test::TestChoice;
  context.targets = "x86-64-v3";
  if (const std::string backend = Directive(test.input, "backend"); !backend.empty()) context.backend = backend;
  context.remark = [&](const Diag& diag) { result += "# remark: " + diag.message + "\n"; };
  PipelineOptions options;
  options.passes = Split(Directive(test.input, "pass"), ", ");
  options.file = file;
  const std::unique_ptr<WeightSource> weights = RandomWeights(1);
  PassCheck check(module, *weights);
  options.after = [&](const PassInfo& pass, const Module& after, bool, double) {
    check.After(pass, after);
    Module again = after;
    PassContext quiet = context;
    quiet.remark = nullptr;
    const bool changed = pass.run(again, quiet);
    LLMC_CHECK(!changed && Print(again) == Print(after), std::string(pass.name) + " changes its own result");
  };
  RunPipeline(module, context, options);
  return result + Print(module);
}

// The first line that differs, with its number in the case's expected half.
std::string Difference(const std::string& expected, const std::string& actual) {
  const std::vector<std::string> a = Split(expected, "\n");
  const std::vector<std::string> b = Split(actual, "\n");
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return "  line " + std::to_string(i + 1) + " of the expected text\n  expected: " + (i < a.size() ? a[i] : "(end)") +
         "\n  actual:   " + (i < b.size() ? b[i] : "(end)");
}

// Failures of a file. With `update`, rewrites its expected halves.
int RunFile(const std::string& file, bool update) {
  std::ifstream in(file);
  std::stringstream content;
  content << in.rdbuf();
  std::vector<Case> cases = Read(content.str());
  int failures = 0;
  std::string updated;
  for (Case& test : cases) {
    const auto fail = [&](const std::string& what) {
      std::cout << file << ":" << test.line << ": " << what << "\n  again: pass_text_test " << file << "\n";
      ++failures;
    };
    const std::string error = Directive(test.input, "error");
    std::string actual;
    try {
      actual = RunCase(test, file);
      if (!error.empty()) fail("expected " + error + ", but it passed");
    } catch (const InputError& thrown) {
      const std::string& at = thrown.diag().place.at;
      const std::string found = std::string(DiagName(thrown.diag().kind)) + (at.empty() ? "" : " " + at);
      if (found != error) fail("threw " + found + ": " + thrown.what());
    } catch (const std::exception& thrown) {
      fail(std::string("threw ") + thrown.what());
    }
    if (!updated.empty()) updated += "# ---\n";
    updated += test.input;
    if (!error.empty()) continue;
    if (actual != test.expected && !update && !actual.empty()) {
      fail("another text than expected\n" + Difference(test.expected, actual));
    }
    updated += "# ==>\n" + (actual.empty() ? test.expected : actual);
  }
  if (update) std::ofstream(file) << updated;
  return failures;
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) {
  bool update = false;
  int failures = 0;
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--update") {
      update = true;
    } else {
      failures += llmc::RunFile(argv[i], update);
      ++files;
    }
  }
  std::cout << files << " files, " << failures << " failures\n";
  return failures == 0 && files > 0 ? 0 : 1;
}
