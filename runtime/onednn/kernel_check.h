// What a kernel step must keep for its kernel to be callable.
#pragma once
#include <string>

#include "runtime/onednn/kernels.h"
#include "runtime/plan_steps.h"

namespace llmc::onednn {

// The step's kernel. Throws PlanError("WHERE: rule, values") when there is none of that name, when the numbers of
// constants or words aren't kernels.def's, or a constant is none that the kernel knows. Where operands lie isn't
// checked, here or by the loader: a kernel step is as trusted as code (runtime/README.md, "Steps").
const NativeKernel& CheckKernel(const KernelStep& step, const std::string& where);

}  // namespace llmc::onednn
