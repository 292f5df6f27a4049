// Any bytes as tokenizer.model: refused with a message, or lowered to a section that encodes into its own ids.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const char* config :
       {R"({"add_bos_token": true, "tokenizer_class": "LlamaTokenizer"})", R"({"pad_token": "a"})"}) {
    LoweredTokenizer lowered;
    try {
      SentencePieceFiles files;
      files.model = {"tokenizer.model", bytes};
      files.config = {"tokenizer_config.json", config};
      lowered = LowerSentencePiece(files, 0);
    } catch (const InputError&) {
      continue;
    }
    const Tokenizer tokenizer(lowered.section);
    for (const int32_t id : tokenizer.Encode(bytes.substr(0, 512))) {
      if (id < 0 || id >= tokenizer.size()) std::abort();
    }
  }
  return 0;
}
