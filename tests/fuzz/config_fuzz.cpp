// Any text as a config or a description: refused with a message, or a description that reads back what it prints and
// whose graph verifies.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontend/build_module.h"
#include "frontend/config_source.h"
#include "frontend/description.h"
#include "frontend/preset.h"
#include "ir/verify.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Json root = ParseJson(std::string(reinterpret_cast<const char*>(data), size), "fuzz.json");
    if (!root.is(JsonKind::Object)) return 0;
    Description d =
        IsDescription(root) ? ReadDescription(root, "fuzz.json") : DescribeHf(HfConfig(root, "fuzz.json"), {});
    std::string text = PrintDescription(d);
    if (PrintDescription(ReadDescription(ParseJson(text, "printed.json"), "printed.json")) != text) std::abort();
    constexpr int64_t kFewLayers = 8;  // the graph's size follows from them
    if (d.model.n_layers > kFewLayers) return 0;
    BuildOptions options;
    options.context = 16;
    options.chunk = 4;
    Verify(BuildModule(d, UnboundWeights(d), options), "fuzz");
  } catch (const InputError&) {
  }
  return 0;
}
