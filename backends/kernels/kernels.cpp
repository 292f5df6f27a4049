// The one translation unit of the kernels: compiled to bitcode for each ISA level (tools/cmake), and natively by tests.
#include "backends/kernels/attention_rows.h"
#include "backends/kernels/embed.h"
#include "backends/kernels/experts.h"
#include "backends/kernels/heads.h"
#include "backends/kernels/recurrent.h"
#include "backends/kernels/sync.h"
