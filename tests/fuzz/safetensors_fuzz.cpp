// Any bytes as a safetensors file: refused with a message, or tensors that lie in the file, mxfp4 of two tensors among
// them.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "frontend/mxfp4_pairs.h"
#include "frontend/safetensors.h"
#include "tests/support/temp_dir.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const test::TempDir dir;
  const std::string path = dir.Write("m.safetensors", {reinterpret_cast<const char*>(data), size});
  try {
    const TensorSet set = OpenSafetensors(path);
    for (const auto& [name, t] : set.tensors) {
      if (t.bytes_only || t.offset > size || t.bytes > size - t.offset) std::abort();
      if (!t.scales) continue;
      const uint64_t blocks = t.bytes / 16;
      if (t.bytes % 16 != 0 || t.scales->offset > size || blocks > size - t.scales->offset) std::abort();
      std::vector<std::byte> out(17 * blocks);
      ReadMxfp4(set, t, 0, blocks, out.data());
    }
  } catch (const InputError&) {
  }
  return 0;
}
