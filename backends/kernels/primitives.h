// The primitives that kernels are written in: vectors of 16 lanes, lane r being row r of a tile, column r of a row or
// key r of a group. Each ISA has a native form and there is one portable form (LLMC_EMULATE) that runs anywhere; both
// give the same bits for finite input. No primitive reassociates.
#pragma once
#include "backends/kernels/kernel.h"

#ifdef LLMC_EMULATE
#include "backends/kernels/primitives_portable.h"
#else
#include "backends/kernels/primitives_avx2.h"
#endif
