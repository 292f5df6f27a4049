// Any bytes as tokenizer.model: refused with a message, or lowered to a section that encodes into its own ids.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  LoweredTokenizer lowered;
  try {
    lowered = LowerSentencePiece(bytes, "tokenizer.model", {"tokenizer_config.json", R"({"add_bos_token": true})"}, 0);
  } catch (const InputError&) {
    return 0;
  }
  const Tokenizer tokenizer(lowered.section);
  for (const int32_t id : tokenizer.Encode(bytes.substr(0, 512))) {
    if (id < 0 || id >= tokenizer.size()) std::abort();
  }
  return 0;
}
