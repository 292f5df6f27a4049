// Payloads of a plan's steps (PlanStep, plan.h): what a phase that isn't one piece of machine code is made of.
// runtime/README.md, "Steps", specifies the bytes and the text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan.h"

namespace llmc {

// Where an operand lives; the numbers are those of backends/kernels/kernel.h, enum Space.
// Logits is what the phase gives, logits or hidden rows.
enum class PlanSpace : uint32_t {
  Weights = 0,
  Shared = 1,
  Private = 2,
  States = 3,
  Logits = 4,
  Tokens = 5,
  Types = 6,   // Since 1.5, as Hidden
  Hidden = 7,  // rows that the phase takes
};
inline constexpr uint32_t kLastPlanSpace = static_cast<uint32_t>(PlanSpace::Hidden);
std::string_view PlanSpaceName(PlanSpace space);  // "weights", "shared", ...
struct PlanPlace {
  PlanSpace space = PlanSpace::Shared;
  uint64_t offset = 0;  // bytes
  bool operator==(const PlanPlace&) const = default;
};

// PlanStepKind::Kernel: one call of a kernel of libllmc_onednn.so (backends/kernels/kernels.def), each thread computing
// its share.
struct KernelStep {
  std::string kernel;
  bool one_row = false;            // rows = 1, else the call's
  std::vector<int64_t> constants;  // all of the kernel's, in order
  std::vector<uint64_t> words;     // its record, in order
  bool operator==(const KernelStep&) const = default;
};

// PlanStepKind::Dnnl: a matrix product, out[rows, n] = x[rows, k] * w[n, k]^T, by oneDNN matmuls over slices of
// columns.
//
// The columns of each part are cut into slices of 16 * slice_tiles (the part's last one may be narrower); slice widths
// come from the plan, so neither they nor the bits depend on the number of threads: thread t of T takes slices
// S*t/T .. S*(t+1)/T, parts one after another; of interleaved parts the same slices of both, so that what is divided
// over tiles with the same grain (ir/README.md, S3) reads a thread's own columns. For a slice a thread unpacks the
// weights from tiles16 (ir/layout.h) into its scratch, as [k, width] of `compute`'s type, and calls one matmul per part
// with its post-ops.
enum class DnnlCompute : uint32_t {
  F32 = 1,   // x f32, w as f32
  Bf16 = 2,  // x f32 and w hold bf16 values: bf16 products, f32 sums
  // x a8, w of a block type: dots of blocks of 32 codes, exact whatever computes them (32 * 127 * 128 < 2^24, so f32
  // holds them too), and the sums over blocks that ir/README.md defines: out to the bit
  Blocks = 3,
};
// The activation of a gate: one more than its number in ir/activations.def.
enum class DnnlGate : uint32_t {
  None,
#define ACTIVATION(name, text) name,
#include "ir/activations.def"
#undef ACTIVATION
};
constexpr uint32_t kDnnlGates = 1  // with None
#define ACTIVATION(name, text) +1
#include "ir/activations.def"
#undef ACTIVATION
    ;
std::string_view DnnlGateName(DnnlGate gate);  // "silu", ...; "none"
struct DnnlStep {
  DnnlCompute compute = DnnlCompute::F32;
  bool one_row = false;          // rows = 1, else the call's, up to max_rows
  uint32_t max_rows = 1;         // of the phase, 1 with one_row: what scratch is sized for
  uint32_t x_type = 0;           // DType's value (ir/dtypes.def): f32 or a8
  uint32_t w_type = 0;           // DType's value: any weight type
  PlanPlace x;                   // [rows, k], dense
  uint64_t w = 0;                // tiles16 in the weight section, at a multiple of 32; parts one after another
  std::optional<uint64_t> bias;  // f32[sum of n] in the weight section
  uint64_t k = 0;
  struct Part {
    uint64_t n = 0;
    PlanPlace out;  // f32[rows, n], dense
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;            // 1..3; gated: one, of which w and bias hold two (gate, then up)
  bool interleave = false;            // w: tile t of part p is tile 2t + p; two parts, or gated
  DnnlGate gate = DnnlGate::None;     // out = gate(x * Wg + bg) * (x * Wu + bu)
  std::optional<PlanPlace> residual;  // f32[rows, n], added to the product; one part, not gated
  uint32_t slice_tiles = 1;
  PlanPlace scratch{PlanSpace::Private, 0};  // 64-byte aligned
  uint64_t scratch_bytes = 0;                // exactly DnnlScratchBytes
  bool operator==(const DnnlStep&) const = default;
};

// Element types by DType's value (ir/dtypes.def).
std::string_view PlanTypeName(uint32_t type);  // "f32", "q4_1"; "" for a value that isn't one
inline constexpr uint64_t kPlanTile = 16;      // rows of a tile: columns of a product
inline constexpr uint64_t kPlanBlock = 32;     // elements of a block, of a8 too
// Bytes of a tile of k elements a row (TileBytes, ir/layout.h); 0: not a type of weights.
uint64_t PlanTileBytes(uint32_t w_type, uint64_t k);
// Bytes of a row of k elements of activations (ByteSize, ir/type.h); 0: not a type of a product's x.
uint64_t PlanRowBytes(uint32_t x_type, uint64_t k);

// What a step needs of each thread's private arena, bytes, in this order, each rounded up to 64; W = 16 * slice_tiles.
//   x       [max_rows, k] of compute's type (Blocks: the codes as f32), unless compute is F32
//   w       [k, W] of compute's type (Blocks: the codes as f32), unless w is f32, compute F32 and slice_tiles 1:
//           there a tile is that matrix already
//   scales  Blocks: [A, k / 32, W], d and m in f32; of q2_k also integers of minima in i32 (A = DnnlScaleArrays)
//   dots    Blocks: f32[dot_blocks, max_rows, W]
//   sums    gated: f32[max_rows, W], the gate's; Blocks: the sums, gated: f32[2, max_rows, W]
struct DnnlScratch {
  uint64_t x = 0, w = 0, scales = 0, dots = 0, sums = 0;
  uint64_t total() const { return x + w + scales + dots + sums; }
};
uint64_t DnnlScaleArrays(const DnnlStep& step);
DnnlScratch DnnlScratchBytes(const DnnlStep& step);
// Blocks whose dots one matmul gives: a divisor of k / 32, so that they take at most 256 KiB, or one.
uint64_t DnnlDotBlocks(const DnnlStep& step);

// Encoding of payloads. Decoding throws PlanError("WHERE: rule, values") for anything that isn't what encoding a value
// that keeps the rules gives: runtime/README.md, "Steps", lists them. All products of a decoded step's sizes fit in 64
// bits. Places are only known to be aligned and in a space that makes sense; CheckManifest checks that they lie inside.
std::string EncodeStep(const KernelStep& step);
std::string EncodeStep(const DnnlStep& step);
KernelStep DecodeKernelStep(std::string_view payload, std::string_view where);
DnnlStep DecodeDnnlStep(std::string_view payload, std::string_view where);

// A step as one line of the plan's text form: "kernel \"rms_norm\" words 0,64" (runtime/README.md, "Text form").
std::string StepText(const PlanStep& step);

}  // namespace llmc
