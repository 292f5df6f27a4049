// Primitives for x86-64-v4 (AVX-512 F, BW, CD, DQ, VL), with or without VNNI: 16 lanes are one zmm register.
// primitives_portable.h says what each one computes.
#pragma once
#include <immintrin.h>

#include "backends/kernels/kernel.h"

namespace KERNELS_NAMESPACE {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Codes {  // 64 bytes, four of each lane
  __m512i v;
};
struct Dot {  // sums of each lane: with VNNI one in i32, else two in i16
  __m512i v;
};

INLINE F32x16 Zero() { return {_mm512_setzero_ps()}; }
INLINE F32x16 Splat(float x) { return {_mm512_set1_ps(x)}; }
INLINE F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
INLINE void Store(float* p, F32x16 v) { _mm512_storeu_ps(p, v.v); }
INLINE __mmask16 LanesBelow(int64_t n) {
  const int64_t lanes = n < 0 ? 0 : n > 16 ? 16 : n;
  return static_cast<__mmask16>((1u << lanes) - 1);
}
INLINE F32x16 LoadPart(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(LanesBelow(n), p)}; }
INLINE void StorePart(float* p, F32x16 v, int64_t n) { _mm512_mask_storeu_ps(p, LanesBelow(n), v.v); }
INLINE F32x16 LoadHalf(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
INLINE void StoreHalf(uint16_t* p, F32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE float HalfToFloat(uint16_t h) { return _cvtsh_ss(h); }
INLINE uint16_t FloatToHalf(float x) {
  return static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE F32x16 Fma(F32x16 x, F32x16 y, F32x16 z) { return {_mm512_fmadd_ps(x.v, y.v, z.v)}; }
INLINE F32x16 Add(F32x16 x, F32x16 y) { return {_mm512_add_ps(x.v, y.v)}; }
INLINE F32x16 Sub(F32x16 x, F32x16 y) { return {_mm512_sub_ps(x.v, y.v)}; }
INLINE F32x16 Mul(F32x16 x, F32x16 y) { return {_mm512_mul_ps(x.v, y.v)}; }
INLINE F32x16 Div(F32x16 x, F32x16 y) { return {_mm512_div_ps(x.v, y.v)}; }
INLINE F32x16 Max(F32x16 x, F32x16 y) { return {_mm512_max_ps(x.v, y.v)}; }
INLINE F32x16 Min(F32x16 x, F32x16 y) { return {_mm512_min_ps(x.v, y.v)}; }
INLINE I32x16 AbsBits(F32x16 x) { return {_mm512_castps_si512(_mm512_abs_ps(x.v))}; }
INLINE F32x16 Round(F32x16 x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE I32x16 ToInt(F32x16 x) { return {_mm512_cvtps_epi32(x.v)}; }
INLINE F32x16 ToFloat(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
INLINE F32x16 AsFloat(I32x16 x) { return {_mm512_castsi512_ps(x.v)}; }
INLINE I32x16 AddInt(I32x16 x, I32x16 y) { return {_mm512_add_epi32(x.v, y.v)}; }
INLINE I32x16 SubInt(I32x16 x, I32x16 y) { return {_mm512_sub_epi32(x.v, y.v)}; }
INLINE I32x16 MaxInt(I32x16 x, I32x16 y) { return {_mm512_max_epi32(x.v, y.v)}; }
INLINE I32x16 MulInt(I32x16 x, I32x16 y) { return {_mm512_mullo_epi32(x.v, y.v)}; }
INLINE I32x16 TimesLow16(I32x16 x, int c) { return {_mm512_madd_epi16(x.v, _mm512_set1_epi32(c & 0xffff))}; }
INLINE I32x16 SplatInt(int32_t x) { return {_mm512_set1_epi32(x)}; }
INLINE I32x16 WidenSigned(const uint8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
INLINE I32x16 LoadInt(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
INLINE I32x16 LoadIntPart(const int32_t* p, int64_t n) { return {_mm512_maskz_loadu_epi32(LanesBelow(n), p)}; }
INLINE void StoreInt(int32_t* p, I32x16 v) { _mm512_storeu_si512(p, v.v); }
INLINE I32x16 WidenBytes(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
INLINE __m256i LoadBytes32(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
INLINE I32x16 WidenHalves(const uint8_t* p) { return {_mm512_cvtepu16_epi32(LoadBytes32(p))}; }
INLINE I32x16 PairsOfBytes(const uint8_t* p) { return {_mm512_cvtepi8_epi16(LoadBytes32(p))}; }
INLINE I32x16 HalfOf(I32x16 x, int which) {
  return {_mm512_srai_epi32(which == 0 ? _mm512_slli_epi32(x.v, 16) : x.v, 16)};
}
INLINE I32x16 MulPairs(I32x16 x, I32x16 y) { return {_mm512_madd_epi16(x.v, y.v)}; }
INLINE I32x16 And(I32x16 x, int32_t mask) { return {_mm512_and_si512(x.v, _mm512_set1_epi32(mask))}; }
INLINE I32x16 ShiftLeft(I32x16 x, int n) { return {_mm512_slli_epi32(x.v, static_cast<unsigned>(n))}; }
INLINE I32x16 ShiftRight(I32x16 x, int n) { return {_mm512_srli_epi32(x.v, static_cast<unsigned>(n))}; }

INLINE float TreeSum(F32x16 v) {
  const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
INLINE float MaxLane(F32x16 v) {
  const __m256 s = _mm256_max_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
INLINE int32_t MaxIntLane(I32x16 v) {
  const __m256i s = _mm256_max_epi32(_mm512_castsi512_si256(v.v), _mm512_extracti32x8_epi32(v.v, 1));
  __m128i t = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
INLINE int32_t SumInt(I32x16 v) {
  const __m256i s = _mm256_add_epi32(_mm512_castsi512_si256(v.v), _mm512_extracti32x8_epi32(v.v, 1));
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
INLINE F32x16 KeepLanes(F32x16 v, int64_t begin, int64_t end, float otherwise) {
  const __mmask16 in = static_cast<__mmask16>(LanesBelow(end) & ~LanesBelow(begin));
  return {_mm512_mask_mov_ps(_mm512_set1_ps(otherwise), in, v.v)};
}
INLINE void StoreCodes(int8_t* p, I32x16 lo, I32x16 hi) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(lo.v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm512_cvtsepi32_epi8(hi.v));
}

INLINE Codes LoadCodes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
INLINE void StoreBytes(uint8_t* p, Codes v) { _mm512_storeu_si512(p, v.v); }
INLINE Codes FieldOf(Codes v, int shift, int mask) {
  const __m512i moved = shift < 0 ? _mm512_slli_epi16(v.v, static_cast<unsigned>(-shift))
                                  : _mm512_srli_epi16(v.v, static_cast<unsigned>(shift));
  return {_mm512_and_si512(moved, _mm512_set1_epi8(static_cast<char>(mask)))};
}
INLINE Codes OrCodes(Codes x, Codes y) { return {_mm512_or_si512(x.v, y.v)}; }
template <uint64_t kFirst, uint64_t kLast>
INLINE Codes Lookup(Codes index) {
  const __m512i table = _mm512_set4_epi64(static_cast<int64_t>(kLast), static_cast<int64_t>(kFirst),
                                          static_cast<int64_t>(kLast), static_cast<int64_t>(kFirst));
  return {_mm512_shuffle_epi8(table, index.v)};
}
INLINE Codes FlipSigns(Codes v) { return {_mm512_xor_si512(v.v, _mm512_set1_epi8(-128))}; }
INLINE I32x16 CodeOf(Codes v, int i) { return And(ShiftRight({v.v}, 8 * i), 255); }
INLINE I32x16 SignedCodeOf(Codes v, int i) { return {_mm512_srai_epi32(ShiftLeft({v.v}, 24 - 8 * i).v, 24)}; }

struct FourCodes {
  int32_t v;
} __attribute__((may_alias, packed));
INLINE __m512i Broadcast4(const int8_t* a) { return _mm512_set1_epi32(reinterpret_cast<const FourCodes*>(a)->v); }
// In order: nothing is moved between one and the next, so what lives in registers is what the kernel says.
#if LLMC_VNNI
INLINE Dot DotFrom(I32x16 start) { return {start.v}; }
INLINE void DotNext(Dot& dot, Codes w, const int8_t* a) { dot.v = _mm512_dpbusd_epi32(dot.v, w.v, Broadcast4(a)); }
INLINE I32x16 DotSum(Dot dot) { return {dot.v}; }
#else
INLINE void DotFirst(Dot& dot, Codes w, const int8_t* a) {
  asm volatile("vpbroadcastd %2, %0\n\tvpmaddubsw %0, %1, %0"
               : "=&v"(dot.v)
               : "v"(w.v), "m"(*reinterpret_cast<const FourCodes*>(a)));
}
INLINE void DotNext(Dot& dot, Codes w, const int8_t* a) {
  __m512i t;
  asm volatile("vpbroadcastd %3, %1\n\tvpmaddubsw %1, %2, %1\n\tvpaddw %1, %0, %0"
               : "+v"(dot.v), "=&v"(t)
               : "v"(w.v), "m"(*reinterpret_cast<const FourCodes*>(a)));
}
INLINE I32x16 DotSum(Dot dot) { return {_mm512_madd_epi16(dot.v, _mm512_set1_epi16(1))}; }
INLINE I32x16 DotSumTimes(Dot dot, I32x16 pair, int which) {
  const __m512i kept = which == 0 ? _mm512_and_si512(pair.v, _mm512_set1_epi32(0xffff))
                                  : _mm512_andnot_si512(_mm512_set1_epi32(0xffff), pair.v);
  const __m512i moved = which == 0 ? _mm512_slli_epi32(pair.v, 16) : _mm512_srli_epi32(pair.v, 16);
  return {_mm512_madd_epi16(dot.v, _mm512_or_si512(kept, moved))};
}
INLINE Codes Magnitudes(Codes w) { return {_mm512_abs_epi8(w.v)}; }
INLINE void DotSigned(I32x16& sum, Codes w, Codes magnitudes, const int8_t* a) {
  const __m512i v = Broadcast4(a);
  const __m512i signed_a = _mm512_mask_sub_epi8(v, _mm512_movepi8_mask(w.v), _mm512_setzero_si512(), v);
  const __m512i products = _mm512_maddubs_epi16(magnitudes.v, signed_a);
  sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(products, _mm512_set1_epi16(1)));
}
#endif
INLINE void FmaInOrder(F32x16& acc, const float* x, F32x16 y) {
  asm volatile("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(acc.v) : "v"(y.v), "m"(*x));
}
INLINE void FmaTwoInOrder(F32x16& acc0, F32x16& acc1, const float* x, F32x16 y0, F32x16 y1) {
  __m512 t;
  asm volatile("vbroadcastss %5, %2\n\tvfmadd231ps %2, %3, %0\n\tvfmadd231ps %2, %4, %1"
               : "+v"(acc0.v), "+v"(acc1.v), "=&v"(t)
               : "v"(y0.v), "v"(y1.v), "m"(*x));
}
INLINE void InOrder() { asm volatile("" ::: "memory"); }

INLINE F32x16 SwapPairs(F32x16 v) { return {_mm512_permute_ps(v.v, 0xb1)}; }
INLINE F32x16 NegateEven(F32x16 v) {
  const __m512i sign = _mm512_set1_epi64(0x80000000);
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v.v), sign))};
}
INLINE F32x16 Negate(F32x16 v) { return {_mm512_xor_ps(v.v, _mm512_set1_ps(-0.0f))}; }
INLINE F32x16 LoadTwice(const float* p) {
  const __m512i lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return {_mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
}

INLINE void LoadHalfPairs(const uint8_t* p, F32x16& even, F32x16& odd) {
  const uint16_t* h = reinterpret_cast<const uint16_t*>(p);
  const F32x16 x = LoadHalf(h), y = LoadHalf(h + 16);
  const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  even = {_mm512_permutex2var_ps(x.v, lanes, y.v)};
  odd = {_mm512_permutex2var_ps(x.v, _mm512_add_epi32(lanes, _mm512_set1_epi32(1)), y.v)};
}
INLINE F32x16 FromPairOrder(F32x16 v) { return v; }
INLINE void LoadBf16Pairs(const uint8_t* p, F32x16& even, F32x16& odd) {
  const Codes v = LoadCodes(p);
  even = AsFloat(ShiftLeft({v.v}, 16));
  odd = AsFloat(And({v.v}, static_cast<int32_t>(0xffff0000)));
}

INLINE F32x16 RoundToBf16(F32x16 v) {
  const __m512i bits = _mm512_castps_si512(v.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i rounded = _mm512_mask_mov_epi32(sum, _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q), quiet);
  return {_mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000))))};
}

INLINE void Prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace KERNELS_NAMESPACE
