// Many texts through one tokenizer, for tools/compare_tokenizers.py:
//   tokenize_texts PATH [--speed]    PATH: a folder, a tokenizer.json, a tokenizer.model or a GGUF file
// stdin: a u32 size (little-endian) and that many bytes a text. stdout: for each text a u32 number of ids, the ids as i32,
// the same for special tokens as text, u32 begin and end of each id of the first list in bytes of the text, a u32 size and
// the bytes that the first list decodes to. --speed: one line with bytes, tokens and seconds of CPU time
// instead.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <string>
#include <vector>

#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

namespace {

void Put(const void* data, size_t size) { std::fwrite(data, 1, size, stdout); }
void PutNumber(size_t value) {
  const auto number = static_cast<uint32_t>(value);
  Put(&number, sizeof number);
}

int Run(const std::string& path, bool speed) {
  using namespace llmc;
  const std::string section = LoadTokenizer(path).section;
  const Tokenizer tokenizer(section);
  size_t bytes = 0, tokens = 0;
  double seconds = 0;
  for (uint32_t size = 0; std::fread(&size, 1, sizeof size, stdin) == sizeof size;) {
    std::string text(size, '\0');
    if (std::fread(text.data(), 1, size, stdin) != size) return 1;
    if (speed) {
      const std::clock_t start = std::clock();
      tokens += tokenizer.Encode(text).size();
      seconds += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      bytes += size;
      continue;
    }
    const Encoding encoding = tokenizer.EncodeWithOffsets(text);
    const std::vector<int32_t> plain = tokenizer.Encode(text, {.parse_special = false});
    for (const std::vector<int32_t>* ids : {&encoding.ids, &plain}) {
      PutNumber(ids->size());
      Put(ids->data(), ids->size() * sizeof(int32_t));
    }
    Put(encoding.offsets.data(), encoding.offsets.size() * sizeof(SourceSpan));
    const std::string decoded = tokenizer.Decode(encoding.ids);
    PutNumber(decoded.size());
    Put(decoded.data(), decoded.size());
  }
  if (speed) std::printf("%zu %zu %.6f\n", bytes, tokens, seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    return Run(argv[1], argc > 2 && std::strcmp(argv[2], "--speed") == 0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tokenize_texts: %s\n", e.what());
    return 1;
  }
}
