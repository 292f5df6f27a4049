// Dots of blocks of 32 codes as a batch of products with k = 32. f32 is exact too: no partial sum passes 32 * 128 * 128
// < 2^24. What differs is speed: with VNNI the int8 matmul is two to three times as fast.
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
    m_ = reinterpret_cast<float*>(at + sizes.scales / 2);
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
      FinishGated(sums_[0], sums_[1], stride, BiasOf(0, column), BiasOf(1, column), rows_, width, part.n, out);
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
    const bool has_min = UnpackScales(step_.w_type, w, factor.tile_stride, tiles, step_.k, d_, m_);
    const Matmul& matmul = width == SliceColumns(step_) ? *factor.full : *factor.last;
    if (!call_ || call_->matmul() != &matmul) call_.emplace(matmul, static_cast<int64_t>(rows_), dnnl_scratchpad_);
    const uint64_t together = static_cast<uint64_t>(matmul.shape().batch), element = ints_ ? 1 : sizeof(float);
    for (uint64_t b = 0; b < blocks; b += together) {
      const uint8_t* x = ints_ ? x_ : reinterpret_cast<const uint8_t*>(codes_);
      call_->Run(stream_, x + b * kPlanBlock * element, w_ + b * kPlanBlock * stride * element, nullptr, dots_);
      AddBlocks({dots_, ints_, static_cast<uint64_t>(matmul.shape().batch_stride), b, together, rows_, stride, x_,
                 step_.k, d_, has_min ? m_ : nullptr, sums});
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
  float* sums_[2];      // gated: gate's, up's
  std::optional<MatmulCall> call_;
};

bool TestInt8() {
  constexpr int64_t kRows = 5, kWidth = 48, kK = 32;
  MatmulShape shape;
  shape.k = shape.x_stride = kK;
  shape.width = shape.w_stride = shape.out_stride = kWidth;
  shape.factors = Factors::I8;
  const std::optional<Matmul> matmul = Matmul::Make(shape);
  if (!matmul) return false;
  // Every code, and in the first row and column the largest sums.
  alignas(64) int8_t x[kRows * kK], w[kK * kWidth];
  for (int64_t i = 0; i < kRows * kK; ++i) x[i] = static_cast<int8_t>(i < kK ? 127 : i * 89 % 255 - 127);
  for (int64_t i = 0; i < kK * kWidth; ++i) w[i] = static_cast<int8_t>(i % kWidth == 0 ? -128 : i * 101 % 256 - 128);
  alignas(64) int32_t out[kRows * kWidth];
  std::vector<uint8_t> scratchpad(matmul->scratchpad_bytes() + 64);
  uint8_t* aligned = scratchpad.data() + (64 - reinterpret_cast<uintptr_t>(scratchpad.data()) % 64);
  MatmulCall(*matmul, kRows, aligned).Run(dnnl::stream(Engine()), x, w, nullptr, out);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t n = 0; n < kWidth; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < kK; ++k) sum += int32_t{x[r * kK + k]} * w[k * kWidth + n];
      if (out[r * kWidth + n] != sum) return false;
    }
  }
  return true;
}

}  // namespace

bool Int8IsExact() {
  static const bool exact = TestInt8();
  return exact;
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
