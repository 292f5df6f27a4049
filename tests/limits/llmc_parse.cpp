// llmc-parse KIND FILE: reads one file with the parser of that kind and does nothing else, so that its memory can be
// limited (libLLVM alone takes more address space than the limit). Kinds: json, safetensors, gguf, ir,
// tokenizer, describe, report. Exit status as llmc's.
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "frontend/file.h"
#include "frontend/frontend.h"
#include "frontend/gguf.h"
#include "frontend/json.h"
#include "frontend/safetensors.h"
#include "frontend/tokenizer.h"
#include "ir/diag.h"
#include "ir/text.h"

namespace llmc {
namespace {

int ParseFile(const std::string& kind, const std::string& path) {
  ModelOptions options;
  options.model = path;
  options.sink = [](const Diag& diag) { std::fprintf(stderr, "%s\n", ToText(diag).c_str()); };
  if (kind == "json") {
    JsonLimits limits;
    ParseJson(ReadTextFile(path, limits.max_bytes), path, limits);
  } else if (kind == "safetensors") {
    OpenSafetensors(path);
  } else if (kind == "gguf") {
    const GgufModel model = OpenGguf(path);
    if (const auto tokenizer = ReadGgufTokenizer(model.header, path)) LowerGgufTokenizer(*tokenizer, path, 0);
  } else if (kind == "ir") {
    constexpr uint64_t kMaxIrBytes = uint64_t{16} << 20;
    Parse(ReadTextFile(path, kMaxIrBytes), path);
  } else if (kind == "tokenizer") {
    std::vector<InputHash> inputs;
    LoadHfTokenizer(DirOf(path), 0, inputs);
  } else if (kind == "describe") {
    std::fputs(DescribeModel(options).c_str(), stdout);
  } else if (kind == "report") {
    std::fputs(ReportModel(options, 512).c_str(), stdout);
  } else {
    throw UsageError("llmc-parse: no kind is called " + kind);
  }
  return 0;
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: llmc-parse KIND FILE\n");
    return 2;
  }
  try {
    return llmc::ParseFile(argv[1], argv[2]);
  } catch (const llmc::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  } catch (const llmc::UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmc-parse: %s\n", error.what());
    return 3;
  }
}
