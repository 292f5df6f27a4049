// Any text as a JSON schema: refused with a message, or a grammar in which every place leads on and every text is JSON.
#include "runtime/json_schema.h"
#include "runtime/template_json.h"
#include "tests/fuzz/grammar_walk.h"

using namespace llmc;

namespace {

// Three digits behind an e: a number that the reader may refuse as too large.
bool HasLargeExponent(const std::string& text) {
  for (size_t e = text.find_first_of("eE"); e != std::string::npos; e = text.find_first_of("eE", e + 1)) {
    const size_t digits = e + 1 + (text.find_first_of("+-", e) == e + 1 ? 1 : 0);
    const size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
    if (end >= digits + 3) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostBytes = 2048;
  const std::span<const uint8_t> bytes(data, std::min(size, kMostBytes));
  try {
    const Grammar grammar =
        GrammarOfJsonSchema({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz.json");
    bool whole = false;
    const std::string text = Walk(grammar, bytes, 200, whole);
    if (whole && !HasLargeExponent(text) && !IsJson(text)) std::abort();
  } catch (const PlanError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
