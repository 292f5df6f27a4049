// The primitives that kernels are written in: vectors of 16 lanes, lane r being row r of a tile, column r of a row or
// key r of a group. Each ISA has a native form and there is one portable form (LLMC_EMULATE) that runs anywhere; both
// give the same bits for finite input. No primitive reassociates.
//
// Two switches say what the shapes of kernels depend on; flags give them for the portable form, the ISA for the native:
//   LLMC_WIDE: 32 registers of 16 lanes (AVX-512); else 16 registers, two for a vector (AVX2)
//   LLMC_VNNI: dots of unsigned with signed bytes add up in 32 bits; else in 16
#pragma once
#include "backends/kernels/kernel.h"

#ifndef LLMC_EMULATE
#ifdef __AVX512F__
#define LLMC_WIDE 1
#else
#define LLMC_WIDE 0
#endif
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define LLMC_VNNI 1
#else
#define LLMC_VNNI 0
#endif
#endif

namespace KERNELS_NAMESPACE {
constexpr bool kWide = LLMC_WIDE != 0;
constexpr bool kVnni = LLMC_VNNI != 0;
}  // namespace KERNELS_NAMESPACE

#ifdef LLMC_EMULATE
#include "backends/kernels/primitives_portable.h"
#elif LLMC_WIDE
#include "backends/kernels/primitives_avx512.h"
#else
#include "backends/kernels/primitives_avx2.h"
#endif
