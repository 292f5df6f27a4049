// Which kind of tokenizer a path is.
#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/sentencepiece.h"
#include "frontend/tokenizer.h"
#include "frontend/tokenizer_source.h"

namespace llmc {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// A file beside a tokenizer.json, or nothing.
NamedText Beside(const std::string& path, const std::string& name) {
  const std::string file = JoinPath(FolderOf(path), name);
  return {file, IsPresent(file) ? ReadTextFile(file, JsonLimits().max_bytes) : ""};
}

LoweredTokenizer FromFolder(const std::string& folder) {
  std::vector<InputHash> inputs;
  std::optional<LoweredTokenizer> found = LoadHfTokenizer(folder, 0, inputs);
  if (!found) Fail(DiagKind::Unsupported, {folder, ""}, "has no tokenizer");
  return std::move(*found);
}

}  // namespace

LoweredTokenizer LoadTokenizer(const std::string& path) {
  if (IsDirectory(path)) return FromFolder(path);
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (bytes.starts_with(kGgufMagic)) {
    const GgufHeader header = ParseGguf(file.bytes(), path);
    const std::optional<GgufTokenizer> source = ReadGgufTokenizer(header, path);
    if (!source) Fail(DiagKind::Unsupported, {path, ""}, "has no tokenizer");
    return LowerGgufTokenizer(*source, path, 0);
  }
  if (path.ends_with(".model")) {
    return LowerSentencePiece({{path, ReadTextFile(path, kMaxSentencePieceBytes)},
                               Beside(path, "tokenizer_config.json"),
                               Beside(path, "special_tokens_map.json"),
                               Beside(path, "added_tokens.json"),
                               Beside(path, "config.json")},
                              0);
  }
  // A tokenizer.json under any name, or any other JSON of a model's folder.
  const std::string text(bytes);
  if (!FindValue(ParseJson(text, path, kTokenizerJsonLimits), "model")) return FromFolder(FolderOf(path));
  return LowerHfTokenizer({{path, text},
                           Beside(path, "tokenizer_config.json"),
                           Beside(path, "special_tokens_map.json"),
                           Beside(path, "added_tokens.json")},
                          0);
}

}  // namespace llmc
