// Primitives for x86-64-v3 (AVX2, FMA, F16C), with or without AVX-VNNI: 16 lanes are two ymm registers, lanes 0-7 and
// 8-15. primitives_portable.h says what each one computes.
#pragma once
#include <immintrin.h>

#include "backends/kernels/kernel.h"

namespace KERNELS_NAMESPACE {

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};
struct Codes {  // 64 bytes, four of each lane
  __m256i a, b;
};
struct Dot {  // sums of each lane: with VNNI one in i32, else two in i16
  __m256i a, b;
};

INLINE F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE F32x16 Splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void Store(float* p, F32x16 v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
INLINE __m256i LanesBelow(int64_t n, int first) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}
INLINE F32x16 LoadPart(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, LanesBelow(n, 0)), _mm256_maskload_ps(p + 8, LanesBelow(n, 8))};
}
INLINE void StorePart(float* p, F32x16 v, int64_t n) {
  _mm256_maskstore_ps(p, LanesBelow(n, 0), v.a);
  _mm256_maskstore_ps(p + 8, LanesBelow(n, 8), v.b);
}
INLINE F32x16 LoadHalf(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
INLINE void StoreHalf(uint16_t* p, F32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE float HalfToFloat(uint16_t h) { return _cvtsh_ss(h); }
INLINE uint16_t FloatToHalf(float x) {
  return static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE F32x16 Fma(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
INLINE F32x16 Add(F32x16 x, F32x16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE F32x16 Sub(F32x16 x, F32x16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE F32x16 Mul(F32x16 x, F32x16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE F32x16 Div(F32x16 x, F32x16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE F32x16 Max(F32x16 x, F32x16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE F32x16 Min(F32x16 x, F32x16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE I32x16 AbsBits(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_castps_si256(_mm256_andnot_ps(sign, x.a)), _mm256_castps_si256(_mm256_andnot_ps(sign, x.b))};
}
INLINE F32x16 Round(F32x16 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
}
INLINE I32x16 ToInt(F32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
INLINE F32x16 ToFloat(I32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
INLINE F32x16 AsFloat(I32x16 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
INLINE I32x16 AddInt(I32x16 x, I32x16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
INLINE I32x16 SubInt(I32x16 x, I32x16 y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
INLINE I32x16 MaxInt(I32x16 x, I32x16 y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
INLINE I32x16 MulInt(I32x16 x, I32x16 y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
INLINE I32x16 TimesLow16(I32x16 x, int c) {
  const __m256i low = _mm256_set1_epi32(c & 0xffff);
  return {_mm256_madd_epi16(x.a, low), _mm256_madd_epi16(x.b, low)};
}
INLINE I32x16 SplatInt(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE I32x16 WidenSigned(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
INLINE I32x16 LoadInt(const uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
INLINE I32x16 LoadIntPart(const int32_t* p, int64_t n) {
  return {_mm256_maskload_epi32(p, LanesBelow(n, 0)), _mm256_maskload_epi32(p + 8, LanesBelow(n, 8))};
}
INLINE void StoreInt(int32_t* p, I32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), v.b);
}
INLINE __m128i LoadBytes16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
INLINE I32x16 WidenBytes(const uint8_t* p) {
  const __m128i bytes = LoadBytes16(p);
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
INLINE I32x16 WidenHalves(const uint8_t* p) {
  return {_mm256_cvtepu16_epi32(LoadBytes16(p)), _mm256_cvtepu16_epi32(LoadBytes16(p + 16))};
}
INLINE I32x16 PairsOfBytes(const uint8_t* p) {
  return {_mm256_cvtepi8_epi16(LoadBytes16(p)), _mm256_cvtepi8_epi16(LoadBytes16(p + 16))};
}
INLINE I32x16 HalfOf(I32x16 x, int which) {
  if (which == 0) x = {_mm256_slli_epi32(x.a, 16), _mm256_slli_epi32(x.b, 16)};
  return {_mm256_srai_epi32(x.a, 16), _mm256_srai_epi32(x.b, 16)};
}
INLINE I32x16 MulPairs(I32x16 x, I32x16 y) { return {_mm256_madd_epi16(x.a, y.a), _mm256_madd_epi16(x.b, y.b)}; }
INLINE I32x16 And(I32x16 x, int32_t mask) {
  return {_mm256_and_si256(x.a, _mm256_set1_epi32(mask)), _mm256_and_si256(x.b, _mm256_set1_epi32(mask))};
}
INLINE I32x16 ShiftLeft(I32x16 x, int n) { return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)}; }
INLINE I32x16 ShiftRight(I32x16 x, int n) { return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)}; }

INLINE float TreeSum(F32x16 v) {
  const __m256 s = _mm256_add_ps(v.a, v.b);
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
INLINE float MaxLane(F32x16 v) {
  const __m256 s = _mm256_max_ps(v.a, v.b);
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
INLINE int32_t MaxIntLane(I32x16 v) {
  const __m256i s = _mm256_max_epi32(v.a, v.b);
  __m128i t = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
INLINE int32_t SumInt(I32x16 v) {
  const __m256i s = _mm256_add_epi32(v.a, v.b);
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
INLINE F32x16 KeepLanes(F32x16 v, int64_t begin, int64_t end, float otherwise) {
  const __m256 other = _mm256_set1_ps(otherwise);
  const __m256i in_a = _mm256_andnot_si256(LanesBelow(begin, 0), LanesBelow(end, 0));
  const __m256i in_b = _mm256_andnot_si256(LanesBelow(begin, 8), LanesBelow(end, 8));
  return {_mm256_blendv_ps(other, v.a, _mm256_castsi256_ps(in_a)),
          _mm256_blendv_ps(other, v.b, _mm256_castsi256_ps(in_b))};
}
INLINE void StoreCodes(int8_t* p, I32x16 lo, I32x16 hi) {
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(lo.a, lo.b), _mm256_packs_epi32(hi.a, hi.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

INLINE Codes LoadCodes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
INLINE void StoreBytes(uint8_t* p, Codes v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.b);
}
INLINE __m256i FieldOf(__m256i v, int shift, int mask) {
  const __m256i moved = shift < 0 ? _mm256_slli_epi16(v, -shift) : _mm256_srli_epi16(v, shift);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask)));
}
INLINE Codes FieldOf(Codes v, int shift, int mask) { return {FieldOf(v.a, shift, mask), FieldOf(v.b, shift, mask)}; }
INLINE Codes OrCodes(Codes x, Codes y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
template <uint64_t kFirst, uint64_t kLast>
INLINE Codes Lookup(Codes index) {
  const __m256i table = _mm256_set_epi64x(static_cast<int64_t>(kLast), static_cast<int64_t>(kFirst),
                                          static_cast<int64_t>(kLast), static_cast<int64_t>(kFirst));
  return {_mm256_shuffle_epi8(table, index.a), _mm256_shuffle_epi8(table, index.b)};
}
INLINE Codes FlipSigns(Codes v) {
  const __m256i sign = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(v.a, sign), _mm256_xor_si256(v.b, sign)};
}
INLINE I32x16 CodeOf(Codes v, int i) { return And(ShiftRight({v.a, v.b}, 8 * i), 255); }
INLINE I32x16 SignedCodeOf(Codes v, int i) {
  const I32x16 top = ShiftLeft({v.a, v.b}, 24 - 8 * i);
  return {_mm256_srai_epi32(top.a, 24), _mm256_srai_epi32(top.b, 24)};
}

struct FourCodes {
  int32_t v;
} __attribute__((may_alias, packed));
INLINE __m256i Broadcast4(const int8_t* a) { return _mm256_set1_epi32(reinterpret_cast<const FourCodes*>(a)->v); }
// In order: a 4 x 16 tile needs 8 sums, 2 codes and 2 temporaries, and holds its speed only when nothing is reordered
// into a spill.
#if LLMC_VNNI
INLINE Dot DotFrom(I32x16 start) { return {start.a, start.b}; }
INLINE void DotNext(Dot& dot, Codes w, const int8_t* a) {
  const __m256i v = Broadcast4(a);
  dot = {_mm256_dpbusd_avx_epi32(dot.a, w.a, v), _mm256_dpbusd_avx_epi32(dot.b, w.b, v)};
}
INLINE I32x16 DotSum(Dot dot) { return {dot.a, dot.b}; }
#else
INLINE void DotFirst(Dot& dot, Codes w, const int8_t* a) {
  __m256i t;
  asm volatile("vpbroadcastd %5, %2\n\tvpmaddubsw %2, %3, %0\n\tvpmaddubsw %2, %4, %1"
               : "=&x"(dot.a), "=&x"(dot.b), "=&x"(t)
               : "x"(w.a), "x"(w.b), "m"(*reinterpret_cast<const FourCodes*>(a)));
}
INLINE void DotNext(Dot& dot, Codes w, const int8_t* a) {
  __m256i t, u;
  asm volatile(
      "vpbroadcastd %6, %2\n\tvpmaddubsw %2, %4, %3\n\tvpmaddubsw %2, %5, %2\n\tvpaddw %3, %0, %0\n\tvpaddw %2, %1, %1"
      : "+x"(dot.a), "+x"(dot.b), "=&x"(t), "=&x"(u)
      : "x"(w.a), "x"(w.b), "m"(*reinterpret_cast<const FourCodes*>(a)));
}
INLINE I32x16 DotSum(Dot dot) {
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(dot.a, one), _mm256_madd_epi16(dot.b, one)};
}
INLINE __m256i TwiceOf(__m256i pair, int which) {  // one i16 in both halves
  const __m256i low = _mm256_and_si256(pair, _mm256_set1_epi32(0xffff)),
                high = _mm256_andnot_si256(_mm256_set1_epi32(0xffff), pair);
  return which == 0 ? _mm256_or_si256(low, _mm256_slli_epi32(pair, 16))
                    : _mm256_or_si256(high, _mm256_srli_epi32(pair, 16));
}
INLINE I32x16 DotSumTimes(Dot dot, I32x16 pair, int which) {
  return {_mm256_madd_epi16(dot.a, TwiceOf(pair.a, which)), _mm256_madd_epi16(dot.b, TwiceOf(pair.b, which))};
}
INLINE Codes Magnitudes(Codes w) { return {_mm256_abs_epi8(w.a), _mm256_abs_epi8(w.b)}; }
INLINE void DotSigned(I32x16& sum, Codes w, Codes magnitudes, const int8_t* a) {
  __m256i t, u;
  asm volatile(
      "vpbroadcastd %9, %2\n\tvpsignb %4, %2, %3\n\tvpsignb %5, %2, %2\n\t"
      "vpmaddubsw %3, %6, %3\n\tvpmaddubsw %2, %7, %2\n\tvpmaddwd %3, %8, %3\n\tvpmaddwd %2, %8, %2\n\t"
      "vpaddd %3, %0, %0\n\tvpaddd %2, %1, %1"
      : "+x"(sum.a), "+x"(sum.b), "=&x"(t), "=&x"(u)
      : "x"(w.a), "x"(w.b), "x"(magnitudes.a), "x"(magnitudes.b), "x"(_mm256_set1_epi16(1)),
        "m"(*reinterpret_cast<const FourCodes*>(a)));
}
#endif
INLINE void FmaInOrder(F32x16& acc, const float* x, F32x16 y) {
  __m256 t;
  asm volatile("vbroadcastss %5, %2\n\tvfmadd231ps %2, %3, %0\n\tvfmadd231ps %2, %4, %1"
               : "+x"(acc.a), "+x"(acc.b), "=&x"(t)
               : "x"(y.a), "x"(y.b), "m"(*x));
}
INLINE void InOrder() { asm volatile("" ::: "memory"); }

INLINE F32x16 SwapPairs(F32x16 v) { return {_mm256_permute_ps(v.a, 0xb1), _mm256_permute_ps(v.b, 0xb1)}; }
INLINE F32x16 NegateEven(F32x16 v) {
  const __m256 sign = _mm256_setr_ps(-0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f);
  return {_mm256_xor_ps(v.a, sign), _mm256_xor_ps(v.b, sign)};
}
INLINE F32x16 Negate(F32x16 v) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(v.a, sign), _mm256_xor_ps(v.b, sign)};
}
INLINE F32x16 LoadTwice(const float* p) {
  const __m256 v = _mm256_loadu_ps(p);
  return {_mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
          _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}

// Even and odd halves of each 32-bit lane. Halves come in pair order: lanes 0 1 4 5 2 3 6 7 of each eight, which
// FromPairOrder undoes.
INLINE void LoadHalfPairs(const uint8_t* p, F32x16& even, F32x16& odd) {
  const uint16_t* h = reinterpret_cast<const uint16_t*>(p);
  const F32x16 x = LoadHalf(h), y = LoadHalf(h + 16);
  even = {_mm256_shuffle_ps(x.a, x.b, 0x88), _mm256_shuffle_ps(y.a, y.b, 0x88)};
  odd = {_mm256_shuffle_ps(x.a, x.b, 0xdd), _mm256_shuffle_ps(y.a, y.b, 0xdd)};
}
INLINE F32x16 FromPairOrder(F32x16 v) {
  return {_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v.a), 0xd8)),
          _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v.b), 0xd8))};
}
INLINE void LoadBf16Pairs(const uint8_t* p, F32x16& even, F32x16& odd) {
  const Codes v = LoadCodes(p);
  even = AsFloat(ShiftLeft({v.a, v.b}, 16));
  odd = AsFloat(And({v.a, v.b}, static_cast<int32_t>(0xffff0000)));
}

INLINE __m256 RoundToBf16(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_castsi256_ps(
      _mm256_and_si256(_mm256_blendv_epi8(sum, quiet, nan), _mm256_set1_epi32(static_cast<int32_t>(0xffff0000))));
}
INLINE F32x16 RoundToBf16(F32x16 v) { return {RoundToBf16(v.a), RoundToBf16(v.b)}; }

INLINE void Prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace KERNELS_NAMESPACE
