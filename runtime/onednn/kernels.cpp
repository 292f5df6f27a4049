// The kernels, compiled natively for x86-64-v3 by clang (tools/cmake/onednn.cmake): the very sources that the LLVM
// backend binds constants into, here with the constants as arguments. What unpacks weights for oneDNN is written with
// the same primitives, so the values are the same.
#include "runtime/onednn/kernels.h"

#include <utility>

#include "backends/kernels/kernels.cpp"

namespace llmc::onednn {
namespace {

using namespace llmc::kernels;

template <size_t>
using Int64 = int64_t;
template <size_t... I>
using KernelOf = void(const LlmcContext*, uint32_t, uint32_t, uint32_t, const uint64_t*, Int64<I>...);

template <class... Constants>
constexpr int Arity(void (*)(const LlmcContext*, uint32_t, uint32_t, uint32_t, const uint64_t*, Constants...)) {
  return sizeof...(Constants);
}
template <auto kKernel, size_t... I>
void CallWith(const LlmcContext* c, uint32_t thread, uint32_t threads, uint32_t rows, const uint64_t* record,
              const int64_t* constants, std::index_sequence<I...>) {
  kKernel(c, thread, threads, rows, record, constants[I]...);
}
template <auto kKernel>
void Call(const LlmcContext* c, uint32_t thread, uint32_t threads, uint32_t rows, const uint64_t* record,
          const int64_t* constants) {
  CallWith<kKernel>(c, thread, threads, rows, record, constants, std::make_index_sequence<Arity(kKernel)>());
}

const NativeKernel kKernels[] = {
#define KERNEL_DEF(name, ops, record, constants, divisions, open) \
  {#name, record, constants, divisions, Arity(&kernels::name), &Call<&kernels::name>},
#include "backends/kernels/kernels.def"
#undef KERNEL_DEF
    {nullptr, nullptr, nullptr, nullptr, 0, nullptr},
};

// Rows of k that are unpacked from one tile after another: what they fill stays in the first-level cache until its
// lines are whole, or one step. A multiple of 32.
constexpr uint64_t kChunkK = 64;

// A tile's columns for each k in [begin, end) to out + k * stride; begin is a multiple of 32.
template <Type T>
INLINE void UnpackTile(const uint8_t* tile, int64_t begin, int64_t k_end, float* out, int64_t stride) {
  if constexpr (T == kF32) {
    for (int64_t k = begin; k < k_end; ++k) {
      Prefetch(tile + 64 * k + kPrefetchAhead);
      Store(out + k * stride, Load(reinterpret_cast<const float*>(tile) + 16 * k));
    }
  } else if constexpr (kIsFloat<T>) {
    F32x16 even, odd;
    for (int64_t k = begin; k < k_end; k += 2) {
      Prefetch(tile + 32 * k + kPrefetchAhead);
      LoadPairs(tile + 32 * k, T, even, odd);
      Store(out + k * stride, InRowOrder<T>(even));
      if (k + 1 < k_end) Store(out + (k + 1) * stride, InRowOrder<T>(odd));
    }
  } else {
    for (int64_t k = begin; k < k_end; k += StepK<T>())
      UnpackStep<T>(tile + k / StepK<T>() * StepBytes<T>(), out + k * stride, stride);
  }
}

// 16 x u32 below 2^16 to u16.
INLINE void StoreLow16(uint16_t* p, I32x16 v) {
  const __m256i packed = _mm256_packus_epi32(v.a, v.b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
INLINE void StoreBf16(uint16_t* p, F32x16 v) {
  const F32x16 r = RoundToBf16(v);
  StoreLow16(p, ShiftRight({_mm256_castps_si256(r.a), _mm256_castps_si256(r.b)}, 16));
}

// f(first column, columns) for each 16 columns of `width`, and for the rest.
template <class F>
INLINE void ForSixteens(int64_t width, F f) {
  for (int64_t c = 0; c < width; c += 16) f(c, width - c < 16 ? width - c : 16);
}
INLINE F32x16 LoadUpTo(const float* p, int64_t n) { return n == 16 ? Load(p) : LoadPart(p, n); }
INLINE void StoreUpTo(float* p, F32x16 v, int64_t n) { n == 16 ? Store(p, v) : StorePart(p, v, n); }

template <Type T>
struct TypeTag {};
template <class F>
void ForBlockType(uint32_t type, F f) {
  switch (TileType(type)) {
#define CASE(T) \
  case T: return f(TypeTag<T>());
    BLOCK_TYPES(CASE)
#undef CASE
    default: return;  // no block type: plans are checked
  }
}
template <class F>
void ForType(uint32_t type, F f) {
  switch (type) {
    case kF32: return f(TypeTag<kF32>());
    case kF16: return f(TypeTag<kF16>());
    case kBF16: return f(TypeTag<kBF16>());
    default: return ForBlockType(type, f);
  }
}

// f(tile, first k, last k + 1), tiles inside chunks of k, which are whole steps of the type.
template <Type T, class F>
INLINE void ForChunks(uint64_t tiles, uint64_t k, F f) {
  constexpr uint64_t kStep = static_cast<uint64_t>(StepK<T>()), kChunk = kStep > kChunkK ? kStep : kChunkK;
  for (uint64_t begin = 0; begin < k; begin += kChunk) {
    for (uint64_t t = 0; t < tiles; ++t) f(t, begin, k - begin < kChunk ? k : begin + kChunk);
  }
}

INLINE void StoreCodes(float* p, I32x16 v) { Store(p, ToFloat(v)); }
INLINE void StoreCodes(int8_t* p, I32x16 v) {  // each in -128..127
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

template <class Out>
void UnpackCodesOf(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, Out* out) {
  ForBlockType(type, [&]<Type T>(TypeTag<T>) {
    using B = Block<T>;
    const uint64_t stride = 16 * tiles;
    ForChunks<T>(tiles, k, [&](uint64_t t, uint64_t begin, uint64_t end) {
      for (uint64_t first = begin; first < end; first += static_cast<uint64_t>(StepK<T>())) {
        const uint8_t* step = w + t * tile_stride + first / static_cast<uint64_t>(StepK<T>()) * B::kBytes;
        const Head<T> head = HeadOf<T>(step);
        for (int64_t j = 0; j < B::kBlocks; ++j) {
          PrefetchBlock<T>(step, j);
          const I32x16 pair = HalfScalesOf<T>(head, j);
          Out* rows = out + 16 * t + (first + 32 * static_cast<uint64_t>(j)) * stride;
#pragma clang loop unroll(full)
          for (int g = 0; g < 8; ++g) {
            const Codes codes = CodesOf<T>(head, j, g);
#pragma clang loop unroll(full)
            for (int i = 0; i < 4; ++i) {
              I32x16 code = B::kSigned ? SignedCodeOf(codes, i) : CodeOf(codes, i);
              if constexpr (B::kOffset != 0) code = SubInt(code, SplatInt(B::kOffset));
              if constexpr (B::kHalves) code = MulInt(code, HalfOf(pair, g / 4));
              StoreCodes(rows + static_cast<uint64_t>(4 * g + i) * stride, code);
            }
          }
        }
      }
    });
  });
}

}  // namespace

const NativeKernel* NativeKernels() { return kKernels; }

uint8_t* PlaceOf(const LlmcContext* c, uint32_t thread, uint32_t space, uint64_t offset) {
  return At(c, thread, space, offset);
}

void UnpackF32(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, float* out) {
  ForType(type, [&]<Type T>(TypeTag<T>) {
    ForChunks<T>(tiles, k, [&](uint64_t t, uint64_t begin, uint64_t end) {
      UnpackTile<T>(w + t * tile_stride, static_cast<int64_t>(begin), static_cast<int64_t>(end), out + 16 * t,
                    static_cast<int64_t>(16 * tiles));
    });
  });
}

void UnpackBf16(const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, uint16_t* out) {
  ForChunks<kBF16>(tiles, k, [&](uint64_t t, uint64_t begin, uint64_t end) {
    const uint8_t* tile = w + t * tile_stride;
    for (uint64_t i = begin; i < end; i += 2) {
      Prefetch(tile + 32 * i + kPrefetchAhead);
      const Codes pairs = LoadCodes(tile + 32 * i);
      uint16_t* row = out + 16 * (tiles * i + t);
      StoreLow16(row, And({pairs.a, pairs.b}, 0xffff));
      if (i + 1 < end) StoreLow16(row + 16 * tiles, ShiftRight({pairs.a, pairs.b}, 16));
    }
  });
}

void UnpackCodes(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, float* out) {
  UnpackCodesOf(type, w, tile_stride, tiles, k, out);
}
void UnpackCodes(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, int8_t* out) {
  UnpackCodesOf(type, w, tile_stride, tiles, k, out);
}

BlockMinima UnpackScales(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, float* d,
                         float* m, int32_t* mins) {
  BlockMinima minima = BlockMinima::None;
  ForBlockType(type, [&]<Type T>(TypeTag<T>) {
    using B = Block<T>;
    minima = B::kHalfMins ? BlockMinima::Halves : B::kMin ? BlockMinima::One : BlockMinima::None;
    for (uint64_t t = 0; t < tiles; ++t, w += tile_stride) {
      for (uint64_t b = 0; b < k / 32; ++b) {
        const Head<T> head = HeadOf<T>(w + b / B::kBlocks * B::kBytes);
        const int64_t j = static_cast<int64_t>(b % B::kBlocks);
        const uint64_t at = 16 * (b * tiles + t);
        Store(d + at, ScaleOf<T>(head, j));
        if constexpr (B::kMin || B::kHalfMins) Store(m + at, MinimumOf<T>(head, j));
        if constexpr (B::kHalfMins) StoreInt(mins + at, HalfMinsOf<T>(head, j));
      }
    }
  });
  return minima;
}

bool CodesFitBytes(uint32_t type) {
  bool fit = false;
  ForBlockType(type, [&]<Type T>(TypeTag<T>) { fit = !Block<T>::kHalves; });
  return fit;
}

uint64_t A8Stride(uint64_t k) { return static_cast<uint64_t>(A8RowBytes(static_cast<int64_t>(k))); }

void WidenA8(const uint8_t* x, uint64_t rows, uint64_t k, float* out) {
  const int64_t dim = static_cast<int64_t>(k);
  for (uint64_t r = 0; r < rows; ++r, x += A8RowBytes(dim), out += dim) {
    const A8 row = A8Row(x, dim);
    for (int64_t i = 0; i < dim; i += 8) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.codes + i));
      _mm256_storeu_ps(out + i, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)));
    }
  }
}

// R rows from row `r` on.
template <bool kInts, BlockMinima kMinima, int R>
INLINE void AddRows(const BlockSums& s, uint64_t r) {
  A8 x[R];
  for (int i = 0; i < R; ++i)
    x[i] = A8Row(s.x + (r + static_cast<uint64_t>(i)) * A8Stride(s.k), static_cast<int64_t>(s.k));
  for (uint64_t c = 0; c < s.width; c += 16) {
    F32x16 v[R];
    float* sums = s.sums + r * s.width + c;
#pragma clang loop unroll(full)
    for (int i = 0; i < R; ++i) v[i] = s.first == 0 ? Zero() : Load(sums + static_cast<uint64_t>(i) * s.width);
    for (uint64_t n = 0; n < s.blocks; ++n) {
      const uint64_t b = s.first + n, scale = b * s.width + c;
      const F32x16 d = Load(s.d + scale);
#pragma clang loop unroll(full)
      for (int i = 0; i < R; ++i) {
        const uint64_t at = n * s.batch_stride + (r + static_cast<uint64_t>(i)) * s.width + c;
        if constexpr (kMinima == BlockMinima::One) v[i] = Fma(Load(s.m + scale), Splat(x[i].s[b]), v[i]);
        if constexpr (kMinima == BlockMinima::Halves) {
          // Sums of the first and of the last 16 codes, as the minima are pairs.
          const int32_t word = x[i].sums[b], first = word >> 16, last = static_cast<int16_t>(word & 0xffff) - first;
          const I32x16 mins = LoadInt(reinterpret_cast<const uint32_t*>(s.mins) + scale);
          const I32x16 sum = MulPairs(mins, SplatInt((first & 0xffff) | last * 65536));
          v[i] = Fma(Mul(Load(s.m + scale), Splat(x[i].d[b])), ToFloat(sum), v[i]);
        }
        const F32x16 dot = kInts ? ToFloat(LoadInt(static_cast<const uint32_t*>(s.dots) + at))
                                 : Load(static_cast<const float*>(s.dots) + at);
        v[i] = Fma(Mul(d, Splat(x[i].d[b])), dot, v[i]);
      }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < R; ++i) Store(sums + static_cast<uint64_t>(i) * s.width, v[i]);
  }
}
template <bool kInts, BlockMinima kMinima>
static void AddBlocksOf(const BlockSums& s) {
  uint64_t r = 0;
  for (; r + 4 <= s.rows; r += 4) AddRows<kInts, kMinima, 4>(s, r);
  for (; r < s.rows; ++r) AddRows<kInts, kMinima, 1>(s, r);
}
template <bool kInts>
static void AddBlocksBy(const BlockSums& s) {
  switch (s.minima) {
    case BlockMinima::None: return AddBlocksOf<kInts, BlockMinima::None>(s);
    case BlockMinima::One: return AddBlocksOf<kInts, BlockMinima::One>(s);
    case BlockMinima::Halves: return AddBlocksOf<kInts, BlockMinima::Halves>(s);
  }
}
void AddBlocks(const BlockSums& s) { s.ints ? AddBlocksBy<true>(s) : AddBlocksBy<false>(s); }

void FinishSums(const float* sums, uint64_t sum_stride, const float* bias, const float* residual, uint64_t rows,
                uint64_t width, uint64_t out_stride, float* out) {
  for (uint64_t r = 0; r < rows; ++r, sums += sum_stride, out += out_stride) {
    ForSixteens(static_cast<int64_t>(width), [&](int64_t c, int64_t n) {
      F32x16 v = Load(sums + c);
      if (bias != nullptr) v = Add(v, LoadUpTo(bias + c, n));
      if (residual != nullptr) v = Add(LoadUpTo(residual + r * out_stride + c, n), v);
      StoreUpTo(out + c, v, n);
    });
  }
}

void FinishGated(int64_t act, const float* gate, const float* up, uint64_t sum_stride, const float* gate_bias,
                 const float* up_bias, uint64_t rows, uint64_t width, uint64_t out_stride, float* out) {
  for (uint64_t r = 0; r < rows; ++r, gate += sum_stride, up += sum_stride, out += out_stride) {
    ForSixteens(static_cast<int64_t>(width), [&](int64_t c, int64_t n) {
      F32x16 g = Load(gate + c), u = Load(up + c);
      if (gate_bias != nullptr) {
        g = Add(g, LoadUpTo(gate_bias + c, n));
        u = Add(u, LoadUpTo(up_bias + c, n));
      }
      StoreUpTo(out + c, Mul(Activate(act, g), u), n);
    });
  }
}

void ConvertToBf16(const float* x, uint64_t count, uint16_t* out) {
  uint64_t i = 0;
  for (; count - i >= 16; i += 16) StoreBf16(out + i, Load(x + i));
  if (i < count) {
    uint16_t last[16];
    StoreBf16(last, LoadPart(x + i, static_cast<int64_t>(count - i)));
    for (uint64_t j = i; j < count; ++j) out[j] = last[j - i];
  }
}

void SetRows(const float* from, const float* bias, uint64_t rows, uint64_t width, uint64_t stride, float* out) {
  for (uint64_t r = 0; r < rows; ++r, from += stride, out += stride) {
    ForSixteens(static_cast<int64_t>(width), [&](int64_t c, int64_t n) {
      const F32x16 v = LoadUpTo(from + c, n);
      StoreUpTo(out + c, bias != nullptr ? Add(v, LoadUpTo(bias + c, n)) : v, n);
    });
  }
}

void GateRows(int64_t act, const float* gate, uint64_t gate_stride, uint64_t rows, uint64_t width, uint64_t stride,
              float* out) {
  for (uint64_t r = 0; r < rows; ++r, gate += gate_stride, out += stride) {
    ForSixteens(static_cast<int64_t>(width), [&](int64_t c, int64_t n) {
      StoreUpTo(out + c, Mul(Activate(act, LoadUpTo(gate + c, n)), LoadUpTo(out + c, n)), n);
    });
  }
}

void MultiplyRows(const float* factor, uint64_t factor_stride, uint64_t rows, uint64_t width, uint64_t stride,
                  float* out) {
  for (uint64_t r = 0; r < rows; ++r, factor += factor_stride, out += stride) {
    ForSixteens(static_cast<int64_t>(width), [&](int64_t c, int64_t n) {
      StoreUpTo(out + c, Mul(LoadUpTo(factor + c, n), LoadUpTo(out + c, n)), n);
    });
  }
}

}  // namespace llmc::onednn
