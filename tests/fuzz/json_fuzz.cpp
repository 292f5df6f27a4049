// Any text as JSON: refused with a message, or a tree whose every value has a place and whose sources parse to the same
// kinds.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontend/json.h"

using namespace llmc;

namespace {

void Walk(const Json& value, int depth) {
  if (value.place().at.empty() || value.source().empty()) std::abort();
  if (depth < 3 && ParseJson(std::string(value.source()), "part").kind() != value.kind()) std::abort();
  if (value.is(JsonKind::Array)) {
    if (value.items().size() != value.size()) std::abort();
    for (const Json& item : value.items()) Walk(item, depth + 1);
  } else if (value.is(JsonKind::Object)) {
    if (value.members().size() != value.size()) std::abort();
    for (const auto& [key, member] : value.members()) Walk(member, depth + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostBytes = 4096;  // places cost time by their distance from the start
  try {
    Walk(
        ParseJson(std::string(reinterpret_cast<const char*>(data), size < kMostBytes ? size : kMostBytes), "fuzz.json"),
        0);
  } catch (const InputError&) {
  }
  return 0;
}
