// Any pattern on any text: refused, or an automaton that finds what a backtracking matcher finds. The input is a
// pattern, a zero byte, a text.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "frontend/pattern.h"
#include "runtime/plan_automaton.h"
#include "tests/tokenizer/backtrack.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view pattern = all.substr(0, all.find('\0'));
  const std::string_view text = pattern.size() < all.size() ? all.substr(pattern.size() + 1, 64) : std::string_view();
  if (pattern.size() > 64) return 0;
  PatternNode tree;
  std::string table;
  try {
    tree = ParsePattern(pattern);
    table = CompilePattern(tree);
  } catch (const PatternError&) {
    return 0;
  }
  const Automaton automaton(table);
  uint64_t steps = 0;
  Matcher matcher(automaton, text, steps);
  for (size_t at = 0; at < text.size(); at += DecodeUtf8(text, at).bytes) {
    Backtracker backtracker(text, 20'000);
    const std::optional<size_t> want = backtracker.Match(tree, at);
    if (!backtracker.exhausted() && matcher.End(at) != want.value_or(at)) std::abort();
  }
  return 0;
}
