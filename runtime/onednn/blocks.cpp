// Dots of blocks of 32 codes as a batch of products with k = 32. f32 is exact too: no partial sum passes 32 * 128 * 128
// < 2^24, nor do codes times the integer scales of 16 pass it. What differs is speed: with VNNI the int8 matmul is two
// to three times as fast.
#include "runtime/onednn/blocks.h"

#include "runtime/onednn/slices.h"

namespace llmc::onednn {
namespace {

class BlockShare {
 public:
  BlockShare(const Product& product, const LlmcContext& c, uint32_t thread, uint8_t* dnnl_scratchpad)
      : product_(product),
        step_(product.step),
        c_(c),
        thread_(thread),
        dnnl_scratchpad_(dnnl_scratchpad),
        rows_(product.step.one_row ? 1 : c.rows),
        ints_(product.factors == Factors::I8),
        x_(At(step_.x)),
        stream_(Engine()) {
    const DnnlScratch sizes = DnnlScratchBytes(step_);
    uint8_t* at = At(step_.scratch);
    codes_ = reinterpret_cast<float*>(at);
    w_ = at += sizes.x;
    d_ = reinterpret_cast<float*>(at += sizes.w);
    const uint64_t scales = sizes.scales / DnnlScaleArrays(step_);
    m_ = reinterpret_cast<float*>(at + scales);
    mins_ = DnnlScaleArrays(step_) > 2 ? reinterpret_cast<int32_t*>(at + 2 * scales) : nullptr;
    dots_ = at += sizes.scales;
    sums_[0] = reinterpret_cast<float*>(at += sizes.dots);
    sums_[1] = reinterpret_cast<float*>(at + sizes.sums / 2);
    if (!ints_) WidenA8(x_, rows_, step_.k, codes_);
  }

  void RunSlice(size_t p, uint64_t column, uint64_t width) {
    const DnnlStep::Part& part = step_.parts[p];
    const uint64_t stride = kPlanTile * TilesOf(width);
    float* out = FloatsAt(part.out) + column;
    if (IsGated(step_)) {
      for (size_t m = 0; m < 2; ++m) Sum(product_.matrices[m], column, width, sums_[m]);
      FinishGated(ActivationOf(step_), sums_[0], sums_[1], stride, BiasOf(0, column), BiasOf(1, column), rows_, width,
                  part.n, out);
      return;
    }
    Sum(product_.matrices[p], column, width, sums_[0]);
    const float* residual = step_.residual ? FloatsAt(*step_.residual) + column : nullptr;
    FinishSums(sums_[0], stride, BiasOf(p, column), residual, rows_, width, part.n, out);
  }

 private:
  uint8_t* At(const PlanPlace& place) const {
    return PlaceOf(&c_, thread_, static_cast<uint32_t>(place.space), place.offset);
  }
  float* FloatsAt(const PlanPlace& place) const { return reinterpret_cast<float*>(At(place)); }
  const float* BiasOf(size_t matrix, uint64_t column) const {
    if (!step_.bias) return nullptr;
    return reinterpret_cast<const float*>(c_.weights + product_.matrices[matrix].bias) + column;
  }

  void Sum(const Factor& factor, uint64_t column, uint64_t width, float* sums) {
    const uint64_t tiles = TilesOf(width), stride = kPlanTile * tiles, blocks = step_.k / kPlanBlock;
    const uint8_t* w = c_.weights + factor.w + column / kPlanTile * factor.tile_stride;
    if (ints_) {
      UnpackCodes(step_.w_type, w, factor.tile_stride, tiles, step_.k, reinterpret_cast<int8_t*>(w_));
    } else {
      UnpackCodes(step_.w_type, w, factor.tile_stride, tiles, step_.k, reinterpret_cast<float*>(w_));
    }
    const BlockMinima minima = UnpackScales(step_.w_type, w, factor.tile_stride, tiles, step_.k, d_, m_, mins_);
    const Matmul& matmul = width == SliceColumns(step_) ? *factor.full : *factor.last;
    if (!call_ || call_->matmul() != &matmul) call_.emplace(matmul, static_cast<int64_t>(rows_), dnnl_scratchpad_);
    const uint64_t together = static_cast<uint64_t>(matmul.shape().batch), element = ints_ ? 1 : sizeof(float);
    for (uint64_t b = 0; b < blocks; b += together) {
      const uint8_t* x = ints_ ? x_ : reinterpret_cast<const uint8_t*>(codes_);
      call_->Run(stream_, x + b * kPlanBlock * element, w_ + b * kPlanBlock * stride * element, nullptr, dots_);
      AddBlocks({dots_, ints_, static_cast<uint64_t>(matmul.shape().batch_stride), b, together, rows_, stride, x_,
                 step_.k, minima, d_, m_, mins_, sums});
    }
  }

  const Product& product_;
  const DnnlStep& step_;
  const LlmcContext& c_;
  const uint32_t thread_;
  uint8_t* dnnl_scratchpad_;
  const uint64_t rows_;
  const bool ints_;
  const uint8_t* x_;
  dnnl::stream stream_;
  float* codes_;        // of x, unless ints_
  uint8_t *w_, *dots_;  // codes of the slice, f32 or i8; dots, f32 or i32
  float *d_, *m_;       // scales of the slice
  int32_t* mins_;
  float* sums_[2];  // gated: gate's, up's
  std::optional<MatmulCall> call_;
};

}  // namespace

bool Int8IsExact(const Matmul& matmul) {
  const MatmulShape& shape = matmul.shape();
  const int64_t rows = shape.batch == 1 ? 5 : std::min(int64_t{5}, shape.batch_stride / shape.out_stride);
  const int64_t depth = shape.batch * shape.k;
  const int64_t sums_count = (shape.batch - 1) * shape.batch_stride + rows * shape.out_stride;
  AlignedBytes x(static_cast<size_t>(rows * shape.x_stride + depth)), w(static_cast<size_t>(depth * shape.w_stride));
  AlignedBytes out(sizeof(int32_t) * static_cast<size_t>(sums_count)), scratchpad(matmul.scratchpad_bytes());
  auto* codes = reinterpret_cast<int8_t*>(x.data());
  auto* weights = reinterpret_cast<int8_t*>(w.data());
  // Every code; the first row and column give the largest sums.
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < depth; ++k)
      codes[r * shape.x_stride + k] = static_cast<int8_t>(r == 0 ? 127 : (r * depth + k) * 89 % 255 - 127);
  }
  for (int64_t i = 0; i < depth * shape.w_stride; ++i)
    weights[i] = static_cast<int8_t>(i % shape.w_stride == 0 ? -128 : i * 101 % 256 - 128);
  MatmulCall(matmul, rows, scratchpad.data()).Run(dnnl::stream(Engine()), codes, weights, nullptr, out.data());
  const auto* sums = reinterpret_cast<const int32_t*>(out.data());
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = 0; n < shape.width; ++n) {
        int32_t sum = 0;
        for (int64_t k = b * shape.k; k < (b + 1) * shape.k; ++k)
          sum += int32_t{codes[r * shape.x_stride + k]} * weights[k * shape.w_stride + n];
        if (sums[b * shape.batch_stride + r * shape.out_stride + n] != sum) return false;
      }
    }
  }
  return true;
}

MatmulShape BlockShape(const DnnlStep& step, Factors factors, uint64_t width) {
  MatmulShape shape;
  shape.batch = static_cast<int64_t>(DnnlDotBlocks(step));
  shape.k = static_cast<int64_t>(kPlanBlock);
  shape.width = shape.w_stride = shape.out_stride = static_cast<int64_t>(kPlanTile * TilesOf(width));
  shape.x_stride = static_cast<int64_t>(factors == Factors::I8 ? A8Stride(step.k) : step.k);
  shape.batch_stride = static_cast<int64_t>(step.max_rows) * shape.width;
  shape.factors = factors;
  return shape;
}

void RunBlocks(const Product& product, const LlmcContext& c, uint32_t thread, uint64_t begin, uint64_t end,
               uint8_t* dnnl_scratchpad) {
  if (begin == end) return;
  BlockShare share(product, c, thread, dnnl_scratchpad);
  ForSlices(product.step, begin, end,
            [&](size_t part, uint64_t column, uint64_t width) { share.RunSlice(part, column, width); });
}

}  // namespace llmc::onednn
