// Any bytes as the plan's section of chat templates: refused, or run within limits.
#include <cstdint>
#include <string_view>

#include "runtime/chat_template.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RenderOptions options;
  options.limits = {50'000, 1 << 18, 1 << 22, 60};
  try {
    const ChatTemplates templates(std::string_view(reinterpret_cast<const char*>(data), size), "section");
    templates.Render(R"([{"role": "user", "content": "a"}])", "request", options);
  } catch (const PlanError&) {
    return 0;
  }
  return 0;
}
