// Any text as a grammar in GBNF: refused with a message, or a grammar in which every place leads on.
#include "runtime/gbnf.h"
#include "tests/fuzz/grammar_walk.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostBytes = 2048;
  const std::span<const uint8_t> bytes(data, std::min(size, kMostBytes));
  try {
    const Grammar grammar = ParseGbnf({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz.gbnf");
    bool whole = false;
    Walk(grammar, bytes, 64, whole);
  } catch (const PlanError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
