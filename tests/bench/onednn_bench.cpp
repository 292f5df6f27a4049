// Prints the speed of dnnl steps through libllmc_onednn.so on one core: a product of SmolLM2-135M's size, [rows, 576]
// times [1536, 576], for several widths of slices. Gflop/s (two a multiply-add) of the best of many rounds, and
// microseconds. --short: slices of 6 tiles alone. One row goes through 64 matrices in turn, so that weights come from
// memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <time.h>

#include "runtime/onednn/library.h"
#include "runtime/plan_steps.h"

namespace {

using namespace llmc;

constexpr uint64_t kK = 576, kN = 1536, kMatrices = 64;

// Of this thread: what other processes take doesn't count.
double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

uint8_t* Allocate(uint64_t bytes) {
  return static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 8191) / 4096 * 4096));
}

void Measure(const char* what, uint32_t x_type, uint32_t w_type, DnnlCompute compute, uint32_t rows, uint32_t tiles,
             DnnlGate gate = DnnlGate::None) {
  const bool one_row = rows == 1;
  const uint64_t matrices = one_row ? kMatrices : 1;
  const uint64_t matrix = PlanTileBytes(w_type, kK) * (kN / 16);
  DnnlStep step;
  step.compute = compute;
  step.one_row = one_row;
  step.max_rows = rows;
  step.x_type = x_type;
  step.w_type = w_type;
  step.k = kK;
  step.gate = gate;
  step.interleave = gate != DnnlGate::None;
  const uint64_t n = gate == DnnlGate::None ? kN : kN / 2;
  step.parts = {{n, {PlanSpace::Shared, uint64_t{rows} * kK * 4}}};
  step.slice_tiles = tiles;
  step.scratch = {PlanSpace::Private, 0};
  step.scratch_bytes = DnnlScratchBytes(step).total();
  std::vector<std::string> payloads;
  std::vector<LlmcOnednnStep> steps;
  for (uint64_t i = 0; i < matrices; ++i) {
    step.w = i * matrix;
    payloads.push_back(EncodeStep(step));
  }
  for (const std::string& p : payloads)
    steps.push_back({static_cast<uint32_t>(PlanStepKind::Dnnl), p.data(), p.size(), nullptr});
  const LlmcOnednnLibrary* library = llmc_onednn_library();
  char message[300] = {};
  LlmcOnednnProgram* program = library->create(steps.data(), steps.size(), message, sizeof message);
  if (program == nullptr) {
    std::printf("%s: %s\n", what, message);
    return;
  }
  // Small halves serve as weights, scales and codes of every type.
  uint8_t* weights = Allocate(matrices * matrix + 8192);
  for (uint64_t i = 0; i < matrices * matrix; i += 2) {
    const uint16_t half = static_cast<uint16_t>(0x1c00 + i * 2654435761u % 997);
    std::memcpy(weights + i, &half, 2);
  }
  LlmcContext c{};
  c.weights = weights;
  c.shared = Allocate(uint64_t{rows} * (kK + kN) * 4);
  for (uint64_t i = 0; i < rows * kK * 4; i += 4) {
    const float v = 0.125f;
    std::memcpy(c.shared + i, &v, 4);
  }
  c.scratch = Allocate(step.scratch_bytes);
  c.rows = rows;
  uint8_t* scratchpad = Allocate(library->scratchpad_bytes(program));
  const int rounds = one_row ? 10 : 5;
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double start = CpuSeconds();
    for (uint64_t i = 0; i < matrices; ++i) library->run(program, i, &c, 0, 1, scratchpad);
    best = std::min(best, (CpuSeconds() - start) / static_cast<double>(matrices));
  }
  std::printf("%-22s rows %3u, slices of %2u tiles: %6.1f Gflop/s %8.1f us   %s\n", what, rows, tiles,
              2e-9 * rows * static_cast<double>(kK * kN) / best, best * 1e6, library->describe(program, 0));
  for (uint8_t* p : {weights, c.shared, c.scratch, scratchpad}) std::free(p);
  library->destroy(program);
}

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--short";
  constexpr uint32_t kF32 = 0, kF16 = 1, kBf16 = 2, kQ4_1 = 5, kQ8_0 = 8, kA8 = 9;
  std::printf("%s\n", llmc_onednn_library()->version);
  for (const uint32_t rows : {256u, 16u, 1u}) {
    for (const uint32_t tiles : {1u, 3u, 6u, 12u, 24u}) {
      if (brief && (rows == 16 || tiles != 6)) continue;
      Measure("f32 x f32", kF32, kF32, DnnlCompute::F32, rows, tiles);
      Measure("f32 x f16", kF32, kF16, DnnlCompute::F32, rows, tiles);
      Measure("f32 x bf16", kF32, kBf16, DnnlCompute::F32, rows, tiles);
      Measure("bf16 x bf16", kF32, kBf16, DnnlCompute::Bf16, rows, tiles);
      Measure("a8 x q4_1", kA8, kQ4_1, DnnlCompute::Blocks, rows, tiles);
      Measure("a8 x q8_0", kA8, kQ8_0, DnnlCompute::Blocks, rows, tiles);
      Measure("a8 x q4_1, gated", kA8, kQ4_1, DnnlCompute::Blocks, rows, tiles, DnnlGate::Silu);
      Measure("bf16 x bf16, gated", kF32, kBf16, DnnlCompute::Bf16, rows, tiles, DnnlGate::Silu);
    }
  }
}
