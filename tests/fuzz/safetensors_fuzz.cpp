// Any bytes as a safetensors file: refused with a message, or tensors that lie in the file.
#include <cstdint>
#include <cstdlib>

#include "frontend/safetensors.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const TensorInfo& t : ParseSafetensors({reinterpret_cast<const std::byte*>(data), size}, "fuzz.safetensors")) {
      if (t.offset > size || t.bytes > size - t.offset) std::abort();
    }
  } catch (const InputError&) {
  }
  return 0;
}
