// The one translation unit of the kernels: compiled to bitcode for each ISA level (tools/cmake), and natively by tests.
#include "backends/llvm/kernels/attention_rows.h"
#include "backends/llvm/kernels/linear.h"
#include "backends/llvm/kernels/sync.h"
