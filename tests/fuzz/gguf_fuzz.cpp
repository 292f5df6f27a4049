// Any bytes as a GGUF file: refused with a message, or tensors that lie in the file, values that can be read, and a
// description or an error from its keys.
#include <cstdint>
#include <cstdlib>

#include "frontend/config_source.h"
#include "frontend/gguf.h"
#include "frontend/preset.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    GgufHeader header = ParseGguf({reinterpret_cast<const std::byte*>(data), size}, "fuzz.gguf");
    TensorSet set;
    for (const TensorInfo& t : header.tensors) {
      if (t.offset > size || t.bytes > size - t.offset) std::abort();
      set.tensors.emplace(t.name, t);
    }
    for (const GgufKey& key : header.keys) {
      if (key.value.IsArrayOf(GgufType::String) && key.value.Strings().size() != key.value.count) std::abort();
      key.value.Ints();
      key.value.Int();
      key.value.Float();
      key.value.String();
    }
    DescribeGguf(GgufConfig(header, set, "fuzz.gguf"), {});
  } catch (const InputError&) {
  }
  return 0;
}
