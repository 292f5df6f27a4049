// Prints the speed of the kernels on one core, on shapes of SmolLM2-135M (types in blocks of 256: K = 2048), bound at
// compile time as code generation binds them. With an argument only what has it in its name: Gop/s (two a multiply-add) for many rows, GB/s of weights or of the cache for one row. Medians and bests
// of many rounds; other work on the machine shows in the medians.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <time.h>

#include "backends/kernels/kernels.cpp"

namespace {

using namespace llmc::kernels;

uint8_t* Allocate(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  void* p = std::aligned_alloc(kHuge, (bytes + 2 * kHuge - 1) / kHuge * kHuge);
  madvise(p, bytes, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(p);
}

constexpr size_t kWeightBytes = size_t{256} << 20, kSharedBytes = size_t{64} << 20, kStateBytes = size_t{16} << 20;

// Of this thread: what other processes take doesn't count.
double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

const char* only = "";

// f(round) once a round; prints best and median of `amount` per second.
template <class F>
void Measure(const char* what, double amount, const char* unit, int rounds, F f) {
  if (std::strstr(what, only) == nullptr) return;
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const double start = CpuSeconds();
    f(i);
    seconds.push_back(CpuSeconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-28s best %8.1f  median %8.1f %s   (%.1f us)\n", what, amount / seconds[0] * 1e-9,
              amount / seconds[seconds.size() / 2] * 1e-9, unit, seconds[0] * 1e6);
}

#define BOUND __attribute__((flatten, noinline)) void
constexpr int64_t kK = 576, kN = 256;
template <Type T>
constexpr int64_t kKOf = Block<T>::kSuper ? 2048 : kK;

template <Type T>
BOUND LinearA8(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  linear_a8(c, 0, 1, rows, rec, kKOf<T>, kN, 0, 0, T, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kF32, kShared, kShared, kShared,
            kShared, kShared, kTiles, 1);
}
template <Type T>
BOUND LinearF32(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  linear_f32(c, 0, 1, rows, rec, kKOf<T>, kN, 0, 0, T, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kF32, kShared, kShared, kShared,
             kShared, kShared, kTiles, 1);
}
template <Type T>
BOUND Gated(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  linear_a8(c, 0, 1, rows, rec, kK, 1536, 1536, 0, T, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, kA8, kShared, kShared, kShared,
            kShared, kShared, kTiles, 2);
}
constexpr int64_t kScale = 0x3e38aa3b;  // log2(e) / 8
BOUND Groups(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  attention_groups(c, 0, 1, rows, rec, 9, 3, 64, 2048, 0, 0, 0, kScale, kF16, kKeys16, kLayoutHeads, kShared, kShared,
                   kKeys, 1, 0);
}
BOUND Merge(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  attention_merge(c, 0, 1, rows, rec, 9, 64, 2048, 0, 0, 0, kA8, kShared, kShared, kHeads, 3, 0);
}
BOUND BoundRows(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  attention(c, 0, 1, rows, rec, 9, 3, 64, 2048, 0, 0, 0, 0, kScale, kF16, kKeys16, kLayoutHeads, kA8, kShared, kShared,
            kQueries, 16, 0);
}
BOUND BoundNorm(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  norm(c, 0, 1, rows, rec, 1, kK, 0x3727c5ac, 0, 1, 1, 0, 1, 0, 0, 0, 0, kA8, kK, kShared, kShared, kShared, kShared,
       kShared, kRows, 1);
}
BOUND Rope(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  rope(c, 0, 1, rows, rec, 9, 64, 64, 1, kShared, kShared, kRows, 1, 0);
}
BOUND Append(const LlmcContext* c, uint32_t rows, const uint64_t* rec) {
  kv_append(c, 0, 1, rows, rec, 3, 64, 2048, kF16, kKeys16, kShared, kHeads, 1, 0);
}

template <Type T, bool kQuantized>
void Linear(const char* name, LlmcContext& c) {
  constexpr uint32_t kRowCount = 512;
  const auto call = kQuantized ? LinearA8<T> : LinearF32<T>;
  constexpr int64_t kWidth = kKOf<T>;
  const int64_t tile_bytes = BytesOfTile<T>(kWidth);
  const int64_t matrix = tile_bytes * (kN / 16), matrices = static_cast<int64_t>(kWeightBytes) / matrix - 1;
  uint64_t rec[7] = {0, 0, 0, 0, 8 << 20, 0, 0};
  char what[64];
  std::snprintf(what, sizeof what, "%s x %s, 512 rows", kQuantized ? "a8" : "f32", name);
  Measure(what, 2.0 * kRowCount * kWidth * kN, "Gop/s", 30, [&](int) { call(&c, kRowCount, rec); });
  std::snprintf(what, sizeof what, "%s x %s, 3 rows", kQuantized ? "a8" : "f32", name);
  Measure(what, static_cast<double>(matrix * 64), "GB/s", 20, [&](int round) {
    for (int64_t i = 0; i < 64; ++i)
      rec[1] = static_cast<uint64_t>((round * 64 + i) % matrices * matrix), call(&c, 3, rec);
  });
  std::snprintf(what, sizeof what, "%s x %s, 1 row", kQuantized ? "a8" : "f32", name);
  Measure(what, static_cast<double>(matrix * 64), "GB/s", 40, [&](int round) {
    for (int64_t i = 0; i < 64; ++i)
      rec[1] = static_cast<uint64_t>((round * 64 + i) % matrices * matrix), call(&c, 1, rec);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) only = argv[1];
  LlmcContext c{};
  uint8_t* weights = Allocate(kWeightBytes);
  // Halves of small normal numbers serve as scales, codes and 16-bit weights alike.
  for (size_t i = 0; i < kWeightBytes; i += 2) {
    const uint16_t half = static_cast<uint16_t>(0x1c00 + i * 2654435761u % 997);
    std::memcpy(weights + i, &half, 2);
  }
  c.weights = weights;
  c.shared = Allocate(kSharedBytes);
  for (size_t i = 0; i < kSharedBytes; i += 4) {
    const float v = static_cast<float>(i * 2654435761u % 1999) * 0.001f - 1.0f;
    std::memcpy(c.shared + i, &v, 4);
  }
  c.states = Allocate(kStateBytes);
  std::memcpy(c.states, weights, kStateBytes);
  const auto quantize_rows = [&](int64_t k) {
    for (int64_t r = 0; r < 512; ++r) {
      for (int64_t b = 0; b < k / 32; ++b) {
        const float* from = reinterpret_cast<const float*>(c.shared + (16 << 20)) + r * k + 32 * b;
        QuantizeBlock(Load(from), Load(from + 16), c.shared + r * A8RowBytes(k), k, b);
      }
    }
  };
  quantize_rows(2048);
  Linear<kQ2_K, true>("q2_k", c);
  Linear<kQ3_K, true>("q3_k", c);
  Linear<kQ4_K, true>("q4_k", c);
  Linear<kQ5_K, true>("q5_k", c);
  Linear<kQ6_K, true>("q6_k", c);
  Linear<kIQ4_XS, true>("iq4_xs", c);
  quantize_rows(kK);
  Linear<kQ4_1, true>("q4_1", c);
  Linear<kQ4_0, true>("q4_0", c);
  Linear<kQ8_0, true>("q8_0", c);
  Linear<kQ5_0, true>("q5_0", c);
  Linear<kQ5_1, true>("q5_1", c);
  Linear<kIQ4_NL, true>("iq4_nl", c);
  const uint64_t gated_rec[] = {0, 0, 0, 0, 8 << 20, 0, 0};
  Measure("gated q4_1, 512 rows", 2.0 * 512 * kK * 3072, "Gop/s", 20, [&](int) { Gated<kQ4_1>(&c, 512, gated_rec); });
  const uint64_t rec[] = {16 << 20, 0, 2 << 20, 8 << 20};
  const uint64_t attention_rec[] = {16 << 20, 0, 2 << 20, 0, 8 << 20};
  c.pos = 511;
  Measure("attention groups, pos 511", 512 * 64 * 3 * 4, "GB/s", 200, [&](int) { Groups(&c, 1, rec); });
  const uint64_t merge_rec[] = {8 << 20, 0, 24 << 20};
  Measure("attention merge, pos 511", 512 * 64 * 3 * 4, "GB/s", 200, [&](int) { Merge(&c, 1, merge_rec); });
  c.pos = 0;
  Measure("attention, 512 rows", 4.0 * 64 * 9 * 512 * 513 / 2, "Gop/s", 20,
          [&](int) { BoundRows(&c, 512, attention_rec); });
  const uint64_t norm_rec[] = {16 << 20, 24 << 20, 1 << 20, 0, 32 << 20, 0, 40 << 20};
  Measure("add norm quantize, 512 rows", 512 * kK * 4, "GB/s", 20, [&](int) { BoundNorm(&c, 512, norm_rec); });
  Measure("add norm quantize, 1 row", kK * 4, "GB/s", 2000, [&](int) { BoundNorm(&c, 1, norm_rec); });
  const uint64_t rope_rec[] = {16 << 20, 1 << 20, 24 << 20};
  Measure("rope, 512 rows", 512 * kK * 4, "GB/s", 20, [&](int) { Rope(&c, 512, rope_rec); });
  Measure("kv_append keys, 512 rows", 512 * 192 * 4, "GB/s", 20, [&](int) { Append(&c, 512, rope_rec); });
  std::memcpy(c.shared, c.shared + (16 << 20), 512 * kK * 4);
  Linear<kF32, false>("f32", c);
  Linear<kF16, false>("f16", c);
  Linear<kBF16, false>("bf16", c);
  Linear<kQ4_1, false>("q4_1", c);
  Linear<kQ8_0, false>("q8_0", c);
  return 0;
}
