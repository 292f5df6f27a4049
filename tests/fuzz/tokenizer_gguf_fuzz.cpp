// Any metadata of a GGUF tokenizer: refused with a message, or lowered to a section that encodes into its own ids.
// Input: a byte that chooses the pre-tokenizer, one of flags (1: token types, 2: the byte alphabet first, 4: BOS), then
// three lists with a line each entry, a zero byte between the lists: tokens, merges, a text to encode.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

using namespace llmc;

namespace {

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string_view Part(std::string_view& text) {
  const size_t end = text.find('\0');
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

// The letters that stand for bytes in byte-level BPE.
std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> letters;
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const uint32_t c = itself ? b : next++;
    letters.push_back(c < 0x80 ? std::string(1, static_cast<char>(c))
                               : std::string{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))});
  }
  return letters;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kPre[] = {"gpt-2", "llama-bpe", "qwen2", "smollm", "", "deepseek"};
  if (size < 2) return 0;
  const uint8_t flags = data[1];
  std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::vector<std::string> tokens = (flags & 2) != 0 ? ByteAlphabet() : std::vector<std::string>();
  for (std::string& line : Lines(Part(rest))) tokens.push_back(std::move(line));
  const std::vector<std::string> merges = Lines(Part(rest));
  GgufTokenizer source;
  source.model = "gpt2";
  source.pre = kPre[data[0] % std::size(kPre)];
  source.tokens.assign(tokens.begin(), tokens.end());
  source.merges.assign(merges.begin(), merges.end());
  if ((flags & 1) != 0)
    for (size_t i = 0; i < tokens.size(); ++i)
      source.token_type.push_back(tokens[i].empty() ? 1 : static_cast<uint8_t>(tokens[i].back()) % 7);
  if ((flags & 4) != 0) {
    source.bos_id = data[0];
    source.add_bos = true;
  }
  LoweredTokenizer lowered;
  try {
    lowered = LowerGgufTokenizer(source, "fuzz.gguf", 0);
  } catch (const InputError&) {
    return 0;
  }
  const Tokenizer tokenizer(lowered.section);
  for (const int32_t id : tokenizer.Encode(rest.substr(0, 512)))
    if (id < 0 || id >= tokenizer.size()) std::abort();
  return 0;
}
