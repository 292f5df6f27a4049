// Any text as tokenizer.json: refused with a message, or lowered to a section that encodes and gives the text back as
// far as its bytes have tokens.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  LoweredTokenizer lowered;
  try {
    lowered = LowerHfTokenizer(
        {{"tokenizer.json", text},
         {"tokenizer_config.json", R"({"bos_token": "a", "eos_token": "b"})"},
         {"special_tokens_map.json", R"({"eos_token": "c", "x_token": "d", "extra_special_tokens": ["e"]})"}},
        0);
  } catch (const InputError&) {
    return 0;
  }
  const Tokenizer tokenizer(lowered.section);
  for (const bool special : {true, false}) {
    for (const int32_t id : tokenizer.Encode(text.substr(0, 512), {.parse_special = special})) {
      if (id < 0 || id >= tokenizer.size()) std::abort();
    }
  }
  return 0;
}
