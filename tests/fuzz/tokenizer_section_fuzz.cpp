// Any bytes as a tokenizer section, and any text: refused with PlanError, or ids inside the vocabulary. The input is a
// u16 length of the text, the text, the section.
// Seeds: tokenizer_section_seeds.cpp.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/plan_error.h"
#include "runtime/tokenizer.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint16_t length = 0;
  if (size < 2) return 0;
  std::memcpy(&length, data, 2);
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view text = rest.substr(0, length);
  const std::string section(rest.substr(text.size()));
  try {
    const Tokenizer tokenizer(section);
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer.size()) std::abort();
    }
    const Encoding encoding = tokenizer.EncodeWithOffsets(text);
    if (encoding.ids != ids || encoding.offsets.size() != ids.size()) std::abort();
    for (const SourceSpan& span : encoding.offsets) {
      if (span.begin > span.end || span.end > text.size()) std::abort();
    }
    tokenizer.EncodePair(text, text.substr(text.size() / 2), {.parse_special = false});
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.Push(id);
    if (streamed + stream.Finish() != tokenizer.Decode(ids)) std::abort();
  } catch (const PlanError&) {
  }
  return 0;
}
