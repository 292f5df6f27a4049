// Models in several GGUF files NAME-00001-of-0000N.gguf: keys split.no, split.count and split.tensors.count in each.
#include <fmt/format.h>

#include "frontend/gguf.h"

namespace llmc {
namespace {

struct Split {
  int64_t no = 0;
  int64_t count = 1;
  int64_t tensors = -1;  // of all files together; -1: not said
};

int64_t SplitKey(const GgufHeader& header, const std::string& file, std::string_view key, int64_t otherwise) {
  const GgufValue* v = header.Find(key);
  if (v == nullptr) return otherwise;
  auto n = v->Int();
  if (!n || *n < 0) Fail(DiagKind::BadFormat, {file, fmt::format("key {}", key)}, "GGUF: must be a count");
  return *n;
}

Split SplitOf(const GgufHeader& header, const std::string& file) {
  return {SplitKey(header, file, "split.no", 0), SplitKey(header, file, "split.count", 1),
          SplitKey(header, file, "split.tensors.count", -1)};
}

}  // namespace

GgufModel OpenGguf(const std::string& path) {
  GgufModel model;
  auto first = std::make_shared<const MappedFile>(path);
  model.header = ParseGguf(first->bytes(), path);
  Split split = SplitOf(model.header, path);
  if (split.count <= 1) {
    model.tensors.Add(first, model.header.tensors);
    return model;
  }
  std::string ending = fmt::format("-{:05}-of-{:05}.gguf", split.no + 1, split.count);
  if (!path.ends_with(ending)) {
    Fail(DiagKind::BadFormat, {path, "key split.no"},
         fmt::format("GGUF: file {} of {} of a split model must be called NAME{}", split.no + 1, split.count, ending));
  }
  std::string stem = path.substr(0, path.size() - ending.size());
  auto name_of = [&](int64_t no) { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, no + 1, split.count); };
  if (split.no != 0) {
    Fail(DiagKind::BadFormat, {path, "key split.no"},
         fmt::format("GGUF: this is file {} of {}; name the first one, {}", split.no + 1, split.count, name_of(0)));
  }
  model.tensors.Add(first, model.header.tensors);
  for (int64_t i = 1; i < split.count; ++i) {
    std::string name = name_of(i);
    auto file = std::make_shared<const MappedFile>(name);
    GgufHeader header = ParseGguf(file->bytes(), name);
    Split its = SplitOf(header, name);
    if (its.no != i || its.count != split.count) {
      Fail(DiagKind::BadFormat, {name, "key split.no"},
           fmt::format("GGUF: says file {} of {}, its name says {} of {}", its.no + 1, its.count, i + 1, split.count));
    }
    model.tensors.Add(file, std::move(header.tensors));
  }
  auto found = static_cast<int64_t>(model.tensors.tensors.size());
  if (split.tensors >= 0 && split.tensors != found) {
    Fail(DiagKind::BadFormat, {path, "key split.tensors.count"},
         fmt::format("GGUF: says {} tensors, the files have {}", split.tensors, found));
  }
  return model;
}

}  // namespace llmc
