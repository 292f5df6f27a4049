// Any text as a chat template: refused, or compiled to a program that renders or fails within its limits.
#include <cstdint>
#include <string>

#include "tests/template/support.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RenderOptions options;
  options.limits = {200'000, 1 << 20, 1 << 24, 100};
  RenderSource(
      std::string(reinterpret_cast<const char*>(data), size),
      R"({"messages": [{"role": "user", "content": "a <b> é"}, {"role": "assistant", "content": ["x", 1, 2.5, null]}],
                   "tools": [{"name": "f", "parameters": {"a": {"type": "string"}}}], "x": [3, 1, 2], "y": -7})",
      {{"bos_token", "<s>"}}, options);
  return 0;
}
