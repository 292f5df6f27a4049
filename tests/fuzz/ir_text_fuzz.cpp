// Any text: refused with an InputError, or read, printed, read again to the same canonical text, and verified without a
// fault.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ir/diag.h"
#include "ir/text.h"
#include "ir/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const llmc::Module module = llmc::Parse(text, "fuzz");
    const std::string printed = llmc::Print(module);
    const llmc::Module again = llmc::Parse(printed, "printed");
    if (llmc::Print(again) != printed) std::abort();
    llmc::Verify(module, "fuzz");
  } catch (const llmc::InputError&) {
    // Refused, as it should be.
  }
  return 0;
}
