// A product, slice by slice: unpack the slice's weights, call the matmul. What the post-ops can't say is done by
// kernels.cpp: a residual is what out holds before the product (with the bias added, so that one post-op, sum, does
// for both), and the gate's factor is multiplied in after it.
#include "runtime/onednn/program.h"

#include <algorithm>
#include <set>

#include "ir/round_up.h"
#include "runtime/onednn/blocks.h"
#include "runtime/onednn/kernel_check.h"
#include "runtime/onednn/slices.h"
#include "runtime/plan_error.h"

namespace llmc::onednn {
namespace {

// A tile of f32 weights is the matrix itself.
bool NeedsNoUnpacking(const DnnlStep& step) { return DnnlScratchBytes(step).w == 0; }

std::string StepName(uint64_t index) { return "step " + std::to_string(index); }

// One thread's share of a product.
class Share {
 public:
  Share(const Product& product, const LlmcContext& c, uint32_t thread, uint8_t* widened, uint8_t* dnnl_scratchpad)
      : product_(product),
        step_(product.step),
        c_(c),
        thread_(thread),
        dnnl_scratchpad_(dnnl_scratchpad),
        rows_(product.step.one_row ? 1 : c.rows),
        stream_(Engine()) {
    const DnnlScratch sizes = DnnlScratchBytes(step_);
    uint8_t* scratch = At(step_.scratch);
    x_scratch_ = scratch;
    w_scratch_ = product.factors == Factors::Bf16AsF32 ? widened : scratch + sizes.x;
    gate_scratch_ = reinterpret_cast<float*>(scratch + sizes.x + sizes.w);
  }

  void Run(uint64_t begin, uint64_t end) {
    if (begin == end) return;
    ConvertX();
    ForSlices(step_, begin, end, [&](size_t part, uint64_t column, uint64_t width) { RunSlice(part, column, width); });
  }

 private:
  uint8_t* At(const PlanPlace& place) const {
    return PlaceOf(&c_, thread_, static_cast<uint32_t>(place.space), place.offset);
  }
  float* FloatsAt(const PlanPlace& place) const { return reinterpret_cast<float*>(At(place)); }

  void ConvertX() {
    const uint8_t* x = At(step_.x);
    if (product_.factors == Factors::Bf16) {
      ConvertToBf16(reinterpret_cast<const float*>(x), rows_ * step_.k, reinterpret_cast<uint16_t*>(x_scratch_));
      x_ = x_scratch_;
    } else {
      x_ = x;
    }
  }

  void RunSlice(size_t p, uint64_t column, uint64_t width) {
    const DnnlStep::Part& part = step_.parts[p];
    float* out = FloatsAt(part.out) + column;
    if (!IsGated(step_)) {
      if (step_.residual) {
        const float* residual = FloatsAt(*step_.residual) + column;
        const float* bias = step_.bias ? BiasOf(product_.matrices[p], column) : nullptr;
        if (residual != out || bias != nullptr) SetRows(residual, bias, rows_, width, part.n, out);
      }
      return Multiply(product_.matrices[p], calls_[0], column, width, out);
    }
    Multiply(product_.matrices[0], calls_[0], column, width, gate_scratch_);
    Multiply(product_.matrices[1], calls_[1], column, width, out);
    if (GateIsOnednns(step_)) {
      MultiplyRows(gate_scratch_, SliceColumns(step_), rows_, width, part.n, out);
    } else {
      GateRows(ActivationOf(step_), gate_scratch_, SliceColumns(step_), rows_, width, part.n, out);
    }
  }

  const float* BiasOf(const Factor& factor, uint64_t column) const {
    return reinterpret_cast<const float*>(c_.weights + factor.bias) + column;
  }

  void Multiply(const Factor& factor, std::optional<MatmulCall>& call, uint64_t column, uint64_t width, float* out) {
    const Matmul& matmul = width == SliceColumns(step_) ? *factor.full : *factor.last;
    if (!call || call->matmul() != &matmul) call.emplace(matmul, static_cast<int64_t>(rows_), dnnl_scratchpad_);
    const void* w = c_.weights + factor.w + column / kPlanTile * factor.tile_stride;
    if (!NeedsNoUnpacking(step_)) w = Unpack(static_cast<const uint8_t*>(w), factor.tile_stride, TilesOf(width));
    call->Run(stream_, x_, w, matmul.shape().bias ? BiasOf(factor, column) : nullptr, out);
  }
  const void* Unpack(const uint8_t* w, uint64_t tile_stride, uint64_t tiles) {
    if (product_.factors == Factors::Bf16) {
      UnpackBf16(w, tile_stride, tiles, step_.k, reinterpret_cast<uint16_t*>(w_scratch_));
    } else {
      UnpackF32(step_.w_type, w, tile_stride, tiles, step_.k, reinterpret_cast<float*>(w_scratch_));
    }
    return w_scratch_;
  }

  const Product& product_;
  const DnnlStep& step_;
  const LlmcContext& c_;
  const uint32_t thread_;
  uint8_t* dnnl_scratchpad_;
  const uint64_t rows_;
  dnnl::stream stream_;
  uint8_t *x_scratch_, *w_scratch_;
  float* gate_scratch_;
  const void* x_ = nullptr;
  std::optional<MatmulCall> calls_[2];  // gated: gate's, up's
};

}  // namespace

Program::Program(const LlmcOnednnStep* steps, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string where = steps[i].where != nullptr ? steps[i].where : StepName(i);
    const std::string_view payload(steps[i].payload, steps[i].size);
    if (steps[i].kind == static_cast<uint32_t>(PlanStepKind::Kernel)) {
      KernelStep step = DecodeKernelStep(payload, where);
      const NativeKernel& kernel = CheckKernel(step, where);
      steps_.emplace_back(KernelCall{&kernel, std::move(step)});
    } else if (steps[i].kind == static_cast<uint32_t>(PlanStepKind::Dnnl)) {
      steps_.emplace_back(MakeProduct(DecodeDnnlStep(payload, where)));
    } else {
      throw PlanError(where + ": kind " + std::to_string(steps[i].kind) + " is neither kernel nor dnnl");
    }
  }
  for (const auto& [shape, matmul] : matmuls_) {
    dnnl_bytes_ = std::max(dnnl_bytes_, RoundUp(matmul->scratchpad_bytes(), 64));
    descriptions_.push_back(matmul->Describe());
  }
  // Code that oneDNN generates is shared by the matmuls of one type.
  std::set<Factors> warm;
  for (const auto& [shape, matmul] : matmuls_) {
    if (warm.insert(shape.factors).second) matmul->WarmUp();
  }
}

Product Program::MakeProduct(const DnnlStep& step) {
  Product product{step, Factors::F32, {}};
  const uint64_t tile = PlanTileBytes(step.w_type, step.k);
  uint64_t first_tile = 0, first_column = 0;
  for (size_t m = 0; m < (IsGated(step) ? 2 : step.parts.size()); ++m) {
    const uint64_t n = step.parts[IsGated(step) ? 0 : m].n;
    Factor& factor = product.matrices.emplace_back();
    factor.w = step.w + tile * (step.interleave ? m : first_tile);
    factor.tile_stride = step.interleave ? 2 * tile : tile;
    factor.bias = step.bias.value_or(0) + sizeof(float) * first_column;
    first_tile += TilesOf(n);
    first_column += n;
  }
  // Of one row the int8 matmul takes twice the time of the f32 one.
  if (step.compute == DnnlCompute::Blocks && !step.one_row && CodesFitBytes(step.w_type)) {
    product.factors = Factors::I8;
    if (MakeMatmuls(product)) return product;
    product.factors = Factors::F32;
  }
  if (step.compute == DnnlCompute::Bf16) {
    product.factors = Factors::Bf16;
    if (MakeMatmuls(product)) return product;
    product.factors = Factors::Bf16AsF32;
    widened_bytes_ = std::max(widened_bytes_, RoundUp(sizeof(float) * step.k * SliceColumns(step), 64));
  }
  MakeMatmuls(product);
  return product;
}

// False when oneDNN has no such product here.
bool Program::MakeMatmuls(Product& product) {
  const DnnlStep& step = product.step;
  for (size_t m = 0; m < product.matrices.size(); ++m) {
    const uint64_t n = step.parts[IsGated(step) ? 0 : m].n, full = SliceColumns(step);
    MatmulShape shape;
    shape.k = shape.x_stride = static_cast<int64_t>(step.k);
    shape.factors = product.factors;
    shape.bias = step.bias.has_value() && !step.residual;
    shape.sum = step.residual.has_value();
    shape.swish = GateIsOnednns(step) && m == 0;
    shape.out_stride = static_cast<int64_t>(IsGated(step) && m == 0 ? full : n);
    for (const uint64_t width : {full, n % full}) {
      if (width == 0 || width > n) continue;
      shape.width = static_cast<int64_t>(width);
      shape.w_stride = static_cast<int64_t>(kPlanTile * TilesOf(width));
      if (step.compute == DnnlCompute::Blocks) shape = BlockShape(step, product.factors, width);
      const Matmul* matmul = FindMatmul(shape);
      if (matmul == nullptr) return false;
      (width == full ? product.matrices[m].full : product.matrices[m].last) = matmul;
    }
  }
  return true;
}

const Matmul* Program::FindMatmul(const MatmulShape& shape) {
  const auto found = matmuls_.find(shape);
  if (found != matmuls_.end()) return found->second.get();
  std::optional<Matmul> made = Matmul::Make(shape);
  if (!made || (shape.factors == Factors::I8 && !Int8IsExact(*made))) return nullptr;
  return matmuls_.emplace(shape, std::make_unique<Matmul>(std::move(*made))).first->second.get();
}

void Program::Run(uint64_t step, const LlmcContext& c, uint32_t thread, uint32_t threads, uint8_t* scratchpad) const {
  if (const auto* call = std::get_if<KernelCall>(&steps_[step])) {
    call->kernel->call(&c, thread, threads, call->step.one_row ? 1 : c.rows, call->step.words.data(),
                       call->step.constants.data());
    return;
  }
  RunProduct(std::get<Product>(steps_[step]), c, thread, threads, scratchpad);
}

void Program::RunProduct(const Product& product, const LlmcContext& c, uint32_t thread, uint32_t threads,
                         uint8_t* scratchpad) const {
  const DnnlStep& step = product.step;
  if (!step.one_row && c.rows > step.max_rows)
    throw PlanError(std::to_string(c.rows) + " rows in a step made for " + std::to_string(step.max_rows));
  const uint64_t units = UnitsOf(step), begin = units * thread / threads, end = units * (thread + 1) / threads;
  if (step.compute == DnnlCompute::Blocks)
    return RunBlocks(product, c, thread, begin, end, scratchpad + widened_bytes_);
  Share(product, c, thread, scratchpad, scratchpad + widened_bytes_).Run(begin, end);
}

}  // namespace llmc::onednn
