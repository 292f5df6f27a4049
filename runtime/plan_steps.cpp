// Payloads of kernel and dnnl steps: one encoding per value, and the rules that hold inside a step. What a step's
// operands lie in (arenas, weights, phases) is checked by plan_check.cpp. Also compiled into libllmc_onednn.so.
#include "runtime/plan_steps.h"

#include <algorithm>
#include <iterator>

#include "ir/round_up.h"
#include "runtime/plan_encoding.h"

namespace llmc {
namespace {

// Bounds that keep every product of these values inside 64 bits.
constexpr uint64_t kMaxK = uint64_t{1} << 24;
constexpr uint64_t kMaxN = uint64_t{1} << 26;
constexpr uint32_t kMaxRows = 1u << 16;
constexpr uint32_t kMaxSliceTiles = 4096;
constexpr uint32_t kMaxConstants = 256, kMaxWords = 4096, kMaxKernelName = 256;

// Element types by the numbers of ir/dtypes.def; tests/backends checks the table against ir/layout.h.
enum class TypeClass : uint8_t { FLOAT, INT, BLOCK, ACT };
enum : uint32_t {
#define DTYPE(name, number, text, gguf, block, bytes, cls) k##name = number,
#include "ir/dtypes.def"
#undef DTYPE
};
struct TypeInfo {
  uint32_t number;
  std::string_view name;
  TypeClass cls;
  uint64_t block, block_bytes;
  bool is_weight() const { return cls == TypeClass::FLOAT || cls == TypeClass::BLOCK; }
  // K of a step of a tile: words of 32 bits, or blocks.
  uint64_t step_k() const { return block > 1 ? block : sizeof(float) / block_bytes; }
};
constexpr TypeInfo kTypes[] = {
#define DTYPE(name, number, text, gguf, block, bytes, cls) {number, text, TypeClass::cls, block, bytes},
#include "ir/dtypes.def"
#undef DTYPE
};
const TypeInfo* FindType(uint32_t number) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeInfo& t) { return t.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

constexpr std::string_view kGates[] = {
    "none",
#define ACTIVATION(name, text) text,
#include "ir/activations.def"
#undef ACTIVATION
};
static_assert(std::size(kGates) == kDnnlGates);

constexpr uint32_t kOneRow = 1, kInterleave = 2, kHasBias = 4, kHasResidual = 8;

std::string Str(uint64_t value) { return std::to_string(value); }
uint64_t Whole(uint64_t bytes) { return RoundUp(bytes, 64); }  // cache lines

void PutPlace(std::string& out, const PlanPlace& place) {
  Put(out, static_cast<uint32_t>(place.space));
  Put(out, place.offset);
}

// Spaces as bits.
constexpr uint32_t Bit(PlanSpace space) { return 1u << static_cast<uint32_t>(space); }
constexpr uint32_t kReadable = Bit(PlanSpace::Weights) | Bit(PlanSpace::Shared) | Bit(PlanSpace::Private) |
                               Bit(PlanSpace::States) | Bit(PlanSpace::Logits) | Bit(PlanSpace::Hidden);
constexpr uint32_t kWritable = Bit(PlanSpace::Shared) | Bit(PlanSpace::Private) | Bit(PlanSpace::Logits);

PlanPlace TakePlace(ByteReader& in, const std::string& what, uint32_t spaces, uint64_t unit) {
  PlanPlace place;
  const uint32_t space = in.Take<uint32_t>();
  if (space > kLastPlanSpace) in.Fail(what + " is in space " + Str(space) + ", not in 0.." + Str(kLastPlanSpace));
  place.space = static_cast<PlanSpace>(space);
  place.offset = in.Take<uint64_t>();
  if ((spaces & Bit(place.space)) == 0) in.Fail(what + " can't be in " + std::string(PlanSpaceName(place.space)));
  if (place.offset % unit != 0) in.Fail(what + " at " + Str(place.offset) + " isn't at a multiple of " + Str(unit));
  return place;
}

uint64_t TakeBetween(ByteReader& in, const char* what, uint64_t value, uint64_t low, uint64_t high) {
  if (value < low || value > high)
    in.Fail(std::string(what) + " " + Str(value) + " isn't in " + Str(low) + ".." + Str(high));
  return value;
}
uint32_t TakeU32(ByteReader& in, const char* what, uint32_t low, uint32_t high) {
  return static_cast<uint32_t>(TakeBetween(in, what, in.Take<uint32_t>(), low, high));
}
uint64_t TakeU64(ByteReader& in, const char* what, uint64_t low, uint64_t high) {
  return TakeBetween(in, what, in.Take<uint64_t>(), low, high);
}

// What the fields say about each other.
void CheckDnnl(const DnnlStep& step, const ByteReader& in) {
  const bool gated = step.gate != DnnlGate::None;
  if (step.one_row && step.max_rows != 1) in.Fail("one row, and up to " + Str(step.max_rows) + " rows");
  if (step.x_type != kF32 && step.x_type != kA8) in.Fail("x of type " + Str(step.x_type) + ", which isn't f32 or a8");
  const bool of_blocks = step.compute == DnnlCompute::Blocks;
  if (of_blocks != (step.x_type == kA8)) {
    in.Fail("compute " + Str(static_cast<uint64_t>(step.compute)) + " of x of type " +
            std::string(PlanTypeName(step.x_type)) + ": a8 goes with blocks alone");
  }
  if (PlanTileBytes(step.w_type, 1) == 0) in.Fail("w of type " + Str(step.w_type) + ", which isn't one of weights");
  if (step.compute == DnnlCompute::Bf16 && (step.x_type != kF32 || step.w_type != kBF16)) {
    in.Fail("bf16 products of x of type " + std::string(PlanTypeName(step.x_type)) + " and w of type " +
            std::string(PlanTypeName(step.w_type)) + ", not f32 and bf16");
  }
  const TypeInfo& w = *FindType(step.w_type);
  if (of_blocks && w.cls != TypeClass::BLOCK) in.Fail("blocks of w of type " + std::string(w.name));
  if (step.k % w.block != 0) in.Fail("k " + Str(step.k) + " isn't a multiple of " + Str(w.block));
  if (gated && step.parts.size() != 1) in.Fail("gated, with " + Str(step.parts.size()) + " parts, not 1");
  if (step.interleave && !gated && step.parts.size() != 2)
    in.Fail("interleaved, neither gated nor of two parts: " + Str(step.parts.size()));
  if (step.residual && (gated || step.parts.size() != 1))
    in.Fail("a residual, with " + std::string(gated ? "a gate" : Str(step.parts.size()) + " parts"));
  if (step.interleave && step.parts.size() == 2 && step.parts[0].n != step.parts[1].n)
    in.Fail("interleaved parts of " + Str(step.parts[0].n) + " and " + Str(step.parts[1].n) + " columns");
  const uint64_t scratch = DnnlScratchBytes(step).total();
  if (step.scratch_bytes != scratch)
    in.Fail("scratch of " + Str(step.scratch_bytes) + " bytes, the step needs " + Str(scratch));
}

}  // namespace

std::string_view PlanSpaceName(PlanSpace space) {
  switch (space) {
    case PlanSpace::Weights: return "weights";
    case PlanSpace::Shared: return "shared";
    case PlanSpace::Private: return "private";
    case PlanSpace::States: return "states";
    case PlanSpace::Logits: return "logits";
    case PlanSpace::Types: return "types";
    case PlanSpace::Hidden: return "hidden";
    case PlanSpace::Tokens: break;
  }
  return "tokens";
}

std::string_view DnnlGateName(DnnlGate gate) { return kGates[static_cast<size_t>(gate)]; }

std::string_view PlanTypeName(uint32_t type) {
  const TypeInfo* info = FindType(type);
  return info == nullptr ? "" : info->name;
}

uint64_t PlanTileBytes(uint32_t w_type, uint64_t k) {
  const TypeInfo* type = FindType(w_type);
  if (type == nullptr || !type->is_weight()) return 0;
  if (w_type == kTQ1_0) return PlanTileBytes(kTQ2_0, k);  // its trits lie in tiles as the other's codes do
  const uint64_t step_bytes = kPlanTile * type->step_k() / type->block * type->block_bytes;
  return (k + type->step_k() - 1) / type->step_k() * step_bytes;
}

uint64_t PlanRowBytes(uint32_t x_type, uint64_t k) {
  if (x_type == kF32) return k * sizeof(float);
  constexpr uint64_t kNumbers = 3 * sizeof(float);  // of a block: d, s, the sum of its codes
  return x_type == kA8 ? k / kPlanBlock * (kPlanBlock + kNumbers) : 0;
}

uint64_t DnnlDotBlocks(const DnnlStep& step) {
  constexpr uint64_t kDots = 256 << 10;  // bytes: they stay in the second-level cache
  const uint64_t blocks = step.k / kPlanBlock;
  const uint64_t one = step.max_rows * kPlanTile * step.slice_tiles * sizeof(float);
  if (one == 0) return 1;  // no step: refused where steps are checked
  uint64_t most = std::clamp(kDots / one, uint64_t{1}, std::max(blocks, uint64_t{1}));
  while (most > 1 && blocks % most != 0) --most;
  return most;
}

uint64_t DnnlScaleArrays(const DnnlStep& step) { return step.w_type == kQ2_K ? 3 : 2; }

DnnlScratch DnnlScratchBytes(const DnnlStep& step) {
  const bool blocks = step.compute == DnnlCompute::Blocks, gated = step.gate != DnnlGate::None;
  const uint64_t element = step.compute == DnnlCompute::Bf16 ? 2 : 4, width = kPlanTile * step.slice_tiles;
  const uint64_t rows = step.max_rows * width * sizeof(float);
  DnnlScratch bytes;
  if (step.compute != DnnlCompute::F32) bytes.x = Whole(step.max_rows * step.k * element);
  if (step.compute != DnnlCompute::F32 || step.w_type != kF32 || step.slice_tiles != 1)
    bytes.w = Whole(step.k * width * element);
  if (blocks) {
    bytes.scales = DnnlScaleArrays(step) * Whole(step.k / kPlanBlock * width * sizeof(float));
    bytes.dots = Whole(DnnlDotBlocks(step) * rows);
  }
  if (blocks || gated) bytes.sums = (blocks && gated ? 2 : 1) * Whole(rows);
  return bytes;
}

std::string EncodeStep(const KernelStep& step) {
  std::string out;
  Put(out, step.one_row ? kOneRow : 0u);
  Put(out, static_cast<uint32_t>(step.constants.size()));
  Put(out, static_cast<uint32_t>(step.words.size()));
  for (int64_t value : step.constants) Put(out, value);
  for (uint64_t word : step.words) Put(out, word);
  return out + step.kernel;
}

KernelStep DecodeKernelStep(std::string_view payload, std::string_view where) {
  ByteReader in(payload, std::string(where));
  KernelStep step;
  step.one_row = TakeU32(in, "flags", 0, kOneRow) != 0;
  const uint32_t constants = TakeU32(in, "constants", 0, kMaxConstants), words = TakeU32(in, "words", 0, kMaxWords);
  for (uint32_t i = 0; i < constants; ++i) step.constants.push_back(in.Take<int64_t>());
  for (uint32_t i = 0; i < words; ++i) step.words.push_back(in.Take<uint64_t>());
  const std::string_view name = in.TakeBytes(in.left());
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (name.empty() || name.size() > kMaxKernelName || !printable)
    in.Fail("the kernel's name isn't 1.." + Str(kMaxKernelName) + " printable characters");
  step.kernel = name;
  return step;
}

std::string EncodeStep(const DnnlStep& step) {
  std::string out;
  Put(out, static_cast<uint32_t>(step.compute));
  Put(out, (step.one_row ? kOneRow : 0) | (step.interleave ? kInterleave : 0) | (step.bias ? kHasBias : 0) |
               (step.residual ? kHasResidual : 0));
  Put(out, static_cast<uint32_t>(step.gate));
  Put(out, step.max_rows);
  Put(out, step.x_type);
  Put(out, step.w_type);
  Put(out, step.slice_tiles);
  Put(out, static_cast<uint32_t>(step.parts.size()));
  Put(out, step.k);
  PutPlace(out, step.x);
  Put(out, step.w);
  for (const DnnlStep::Part& part : step.parts) {
    Put(out, part.n);
    PutPlace(out, part.out);
  }
  if (step.bias) Put(out, *step.bias);
  if (step.residual) PutPlace(out, *step.residual);
  PutPlace(out, step.scratch);
  Put(out, step.scratch_bytes);
  return out;
}

DnnlStep DecodeDnnlStep(std::string_view payload, std::string_view where) {
  ByteReader in(payload, std::string(where));
  DnnlStep step;
  step.compute = static_cast<DnnlCompute>(TakeU32(in, "compute", 1, static_cast<uint32_t>(DnnlCompute::Blocks)));
  const uint32_t flags = TakeU32(in, "flags", 0, kOneRow | kInterleave | kHasBias | kHasResidual);
  step.one_row = (flags & kOneRow) != 0;
  step.interleave = (flags & kInterleave) != 0;
  step.gate = static_cast<DnnlGate>(TakeU32(in, "gate", 0, kDnnlGates - 1));
  step.max_rows = TakeU32(in, "most rows", 1, kMaxRows);
  step.x_type = in.Take<uint32_t>();
  step.w_type = in.Take<uint32_t>();
  step.slice_tiles = TakeU32(in, "tiles of a slice", 1, kMaxSliceTiles);
  const uint32_t parts = TakeU32(in, "parts", 1, 3);
  step.k = TakeU64(in, "k", 1, kMaxK);
  step.x = TakePlace(in, "x", kReadable, 4);
  step.w = in.Take<uint64_t>();
  if (step.w % 32 != 0) in.Fail("w at " + Str(step.w) + " isn't at a multiple of 32");
  for (uint32_t p = 0; p < parts; ++p) {
    DnnlStep::Part& part = step.parts.emplace_back();
    part.n = TakeU64(in, "columns", 1, kMaxN);
    part.out = TakePlace(in, "out", kWritable, 4);
  }
  if ((flags & kHasBias) != 0) {
    step.bias = in.Take<uint64_t>();
    if (*step.bias % 4 != 0) in.Fail("bias at " + Str(*step.bias) + " isn't at a multiple of 4");
  }
  if ((flags & kHasResidual) != 0) step.residual = TakePlace(in, "residual", kReadable, 4);
  step.scratch = TakePlace(in, "scratch", Bit(PlanSpace::Private), 64);
  step.scratch_bytes = in.Take<uint64_t>();
  if (!in.done()) in.Fail(Str(in.left()) + " bytes too many");
  CheckDnnl(step, in);
  return step;
}

}  // namespace llmc
