// Any module that verifies goes through the pipeline: refused with an InputError, or planned, verified (by the wrapper)
// and printed as text that reads back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ir/diag.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "tests/passes/kernels.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    llmc::Module module = llmc::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    llmc::Verify(module, "fuzz");
    llmc::RunPipeline(module, {llmc::test::TestKernels(), {}}, {});
    const std::string printed = llmc::Print(module);
    if (llmc::Print(llmc::Parse(printed, "printed")) != printed) std::abort();
  } catch (const llmc::InputError&) {
    // Refused, as it should be.
  }
  return 0;
}
