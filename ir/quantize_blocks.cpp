// Quantisation with searched scales: for each group of codes some scales near the obvious one are tried, each with the
// factor (and minimum) of least squares for the codes that it gives, and the one of least weighted error is taken. All
// in f32 with written roundings, so that a file's bytes don't depend on the machine.
#include "ir/quantize_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ir/block_format.h"
#include "ir/diag.h"
#include "ir/math.h"

namespace llmc {
namespace {

constexpr int kSuper = 256;

// Nearest integer, ties to even, within [low, high]; NaN gives low.
int Nearest(float v, int low, int high) {
  if (!(v > static_cast<float>(low))) return low;
  if (!(v < static_cast<float>(high))) return high;
  return static_cast<int>(math::Rint(v));
}

void StoreHalf(std::byte* p, float v) {
  const uint16_t half = math::FloatToHalf(v);
  std::memcpy(p, &half, sizeof half);
}
float StoredHalf(float v) { return math::HalfToFloat(math::FloatToHalf(v)); }
float Inverse(float d) { return d != 0.0F ? 1.0F / d : 0.0F; }

// The element of largest magnitude, with its sign.
float Extreme(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

// Of the scales that make codes of x, the best by squared errors weighted by x^2: 0 when all of x is.
class ScaleSearch {
 public:
  ScaleSearch(const float* x, int n) : x_(x), n_(n) {}
  // value(i): what d is multiplied with where x[i] has the code that is tried.
  template <typename F>
  void Try(F value) {
    float xq = 0;
    float qq = 0;
    for (int i = 0; i < n_; ++i) {
      const float q = value(i);
      const float wq = x_[i] * x_[i] * q;
      xq = xq + wq * x_[i];
      qq = qq + wq * q;
    }
    // The error of the best d = xq / qq is a constant less xq^2 / qq.
    if (qq > 0 && xq * xq > best_gain_ * qq) {
      best_ = xq / qq;
      best_gain_ = xq * best_;
    }
  }
  float best() const { return best_; }

 private:
  const float* x_;
  int n_;
  float best_ = 0;
  float best_gain_ = -1;
};

// d of x ~ d * code, codes in [low, high]: the extreme element falls near `low`, which reaches farther than `high`. The
// weight of an element's squared error is x^2.
float FitScale(const float* x, int n, int low, int high) {
  const float extreme = Extreme(x, n);
  if (extreme == 0.0F) return 0;
  ScaleSearch search(x, n);
  for (int step = -9; step <= 9; ++step) {
    const float inverse = (static_cast<float>(low) + 0.1F * static_cast<float>(step)) / extreme;
    search.Try([&](int i) { return static_cast<float>(Nearest(x[i] * inverse, low, high)); });
  }
  return search.best();
}

// d and m of x ~ d * code - m, codes in [0, top], m >= 0. `weight`: of each element's squared error.
struct ScaleAndMin {
  float d = 0, m = 0;
};
ScaleAndMin FitScaleAndMin(const float* x, const float* weight, int n, int top) {
  float low = 0;
  float high = x[0];
  float sum_w = 0;
  float sum_x = 0;
  for (int i = 0; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    sum_w = sum_w + weight[i];
    sum_x = sum_x + weight[i] * x[i];
  }
  if (!(high > low)) return {0, -low};
  ScaleAndMin best{(high - low) / static_cast<float>(top), -low};
  float best_error = -1;
  for (int step = -11; step <= 11; ++step) {
    const float inverse = (static_cast<float>(top) + 0.1F * static_cast<float>(step)) / (high - low);
    std::array<float, 32> code;
    float q1 = 0;
    float q2 = 0;
    float xq = 0;
    for (int i = 0; i < n; ++i) {
      const auto q = static_cast<float>(Nearest((x[i] - low) * inverse, 0, top));
      code[static_cast<size_t>(i)] = q;
      const float wq = weight[i] * q;
      q1 = q1 + wq;
      q2 = q2 + wq * q;
      xq = xq + wq * x[i];
    }
    const float det = sum_w * q2 - q1 * q1;
    if (!(det > 0)) continue;
    ScaleAndMin fit{(sum_w * xq - sum_x * q1) / det, (q1 * xq - q2 * sum_x) / det};
    if (fit.m < 0) fit = {xq / q2, 0};
    float error = 0;
    for (int i = 0; i < n; ++i) {
      const float off = fit.d * code[static_cast<size_t>(i)] - fit.m - x[i];
      error = error + weight[i] * off * off;
    }
    if (best_error < 0 || error < best_error) {
      best = fit;
      best_error = error;
    }
  }
  return best;
}

// q2_k, q4_k, q5_k: scales and minima of `n` codes as multiples of two f16 numbers.
struct MinType {
  int n, top, scale_top;  // codes to a scale, largest code, largest multiple
  bool mean_weight;       // the weight of an error is the root mean square of the elements plus |x|, else |x|
};
struct MinScales {
  float d = 0, m = 0;
  std::array<uint8_t, 16> scale{}, min{};
};
MinScales QuantizeWithMins(const MinType& type, const float* x, uint8_t* raw) {
  const int groups = kSuper / type.n;
  std::array<ScaleAndMin, 16> fits;
  ScaleAndMin most;
  for (int g = 0; g < groups; ++g) {
    const float* from = x + g * type.n;
    std::array<float, 32> weight;
    float squares = 0;
    for (int i = 0; i < type.n; ++i) squares = squares + from[i] * from[i];
    const float mean = type.mean_weight ? std::sqrt(squares / static_cast<float>(type.n)) : 0.0F;
    for (int i = 0; i < type.n; ++i) weight[static_cast<size_t>(i)] = mean + std::fabs(from[i]);
    const ScaleAndMin fit = FitScaleAndMin(from, weight.data(), type.n, type.top);
    fits[static_cast<size_t>(g)] = fit;
    most = {std::max(most.d, fit.d), std::max(most.m, fit.m)};
  }
  MinScales out;
  const auto top = static_cast<float>(type.scale_top);
  out.d = StoredHalf(most.d / top);
  out.m = StoredHalf(most.m / top);
  const ScaleAndMin inverse{Inverse(most.d / top), Inverse(most.m / top)};
  for (int g = 0; g < groups; ++g) {
    const auto at = static_cast<size_t>(g);
    out.scale[at] = static_cast<uint8_t>(Nearest(fits[at].d * inverse.d, 0, type.scale_top));
    out.min[at] = static_cast<uint8_t>(Nearest(fits[at].m * inverse.m, 0, type.scale_top));
    const float own = Inverse(out.d * static_cast<float>(out.scale[at]));
    const float m = out.m * static_cast<float>(out.min[at]);
    for (int i = g * type.n; i < (g + 1) * type.n; ++i)
      raw[i] = static_cast<uint8_t>(Nearest((x[i] + m) * own, 0, type.top));
  }
  return out;
}

// q3_k, q6_k: scales of 16 codes as signed multiples of one f16 number, the largest at `scale_low`.
struct SymmetricType {
  int low, high, scale_low, scale_high;
};
struct SymmetricScales {
  float d = 0;
  std::array<int, 16> scale{};
};
SymmetricScales QuantizeSymmetric(const SymmetricType& type, const float* x, uint8_t* raw) {
  constexpr int kGroup = 16;
  std::array<float, 16> fits;
  for (size_t g = 0; g < fits.size(); ++g) fits[g] = FitScale(x + g * kGroup, kGroup, type.low, type.high);
  const float unit = Extreme(fits.data(), static_cast<int>(fits.size())) / static_cast<float>(type.scale_low);
  SymmetricScales out;
  out.d = StoredHalf(unit);
  for (size_t g = 0; g < fits.size(); ++g) {
    out.scale[g] = Nearest(fits[g] * Inverse(unit), type.scale_low, type.scale_high);
    const float inverse = Inverse(out.d * static_cast<float>(out.scale[g]));
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      raw[i] = static_cast<uint8_t>(Nearest(x[i] * inverse, type.low, type.high) - type.low);
    }
  }
  return out;
}

// The code (of 16, whose values `dtype` gives) nearest to v, the lower of two.
uint8_t NearestOfTable(DType dtype, float v) {
  uint8_t best = 0;
  float least = std::fabs(v - static_cast<float>(SignedCode(dtype, 0)));
  for (uint8_t code = 1; code < 16; ++code) {
    const float off = std::fabs(v - static_cast<float>(SignedCode(dtype, code)));
    if (off < least) {
      best = code;
      least = off;
    }
  }
  return best;
}

// d of x ~ d * value(code), 32 elements, squared errors weighted by x^2: the extreme element falls near either end of
// the table.
float FitTable(DType dtype, const float* x) {
  const float extreme = Extreme(x, kCodes);
  if (extreme == 0.0F) return 0;
  ScaleSearch search(x, kCodes);
  for (const uint8_t end : {uint8_t{0}, uint8_t{15}}) {
    for (int step = -7; step <= 7; ++step) {
      const float inverse = (static_cast<float>(SignedCode(dtype, end)) + static_cast<float>(step)) / extreme;
      search.Try([&](int i) { return static_cast<float>(SignedCode(dtype, NearestOfTable(dtype, x[i] * inverse))); });
    }
  }
  return search.best();
}

void WriteAll(DType dtype, const uint8_t* raw, std::byte* block) {
  for (int j = 0; j < InfoOf(dtype).block / kCodes; ++j) WriteCodes(dtype, raw + j * kCodes, j, block);
}

void QuantizeQ2K(const float* in, uint8_t* raw, std::byte* block) {
  const MinScales s = QuantizeWithMins({16, 3, 15, false}, in, raw);
  for (size_t g = 0; g < 16; ++g) block[g] = static_cast<std::byte>(s.scale[g] | (s.min[g] << 4));
  StoreHalf(block + 80, s.d);
  StoreHalf(block + 82, s.m);
}

// The 12 bytes of six-bit scales and minima: ReadScales takes them apart.
void QuantizeQ45K(DType dtype, const float* in, uint8_t* raw, std::byte* block) {
  const MinScales s = QuantizeWithMins({32, dtype == DType::Q4_K ? 15 : 31, 63, true}, in, raw);
  StoreHalf(block, s.d);
  StoreHalf(block + 2, s.m);
  std::byte* bytes = block + 4;
  for (size_t j = 0; j < 4; ++j) {
    const int scale = s.scale[j + 4];
    const int min = s.min[j + 4];
    bytes[j] = static_cast<std::byte>(s.scale[j] | ((scale >> 4) << 6));
    bytes[j + 4] = static_cast<std::byte>(s.min[j] | ((min >> 4) << 6));
    bytes[j + 8] = static_cast<std::byte>((scale & 15) | ((min & 15) << 4));
  }
}

void QuantizeQ3K(const float* in, uint8_t* raw, std::byte* block) {
  const SymmetricScales s = QuantizeSymmetric({-4, 3, -32, 31}, in, raw);
  StoreHalf(block + 108, s.d);
  std::byte* bytes = block + 96;
  for (size_t i = 0; i < 16; ++i) {
    const int scale = s.scale[i] + 32;
    bytes[i % 8] |= static_cast<std::byte>((scale & 15) << (i < 8 ? 0 : 4));
    bytes[8 + i % 4] |= static_cast<std::byte>((scale >> 4) << (2 * (i / 4)));
  }
}

void QuantizeQ6K(const float* in, uint8_t* raw, std::byte* block) {
  const SymmetricScales s = QuantizeSymmetric({-32, 31, -128, 127}, in, raw);
  StoreHalf(block + 208, s.d);
  for (size_t i = 0; i < 16; ++i) block[192 + i] = static_cast<std::byte>(s.scale[i]);
}

void QuantizeIq4Xs(const float* in, uint8_t* raw, std::byte* block) {
  constexpr auto kType = DType::IQ4_XS;
  std::array<float, 8> fits;
  for (size_t j = 0; j < fits.size(); ++j) fits[j] = FitTable(kType, in + j * kCodes);
  const float unit = Extreme(fits.data(), static_cast<int>(fits.size())) / -32.0F;
  const float d = StoredHalf(unit);
  StoreHalf(block, d);
  for (size_t j = 0; j < fits.size(); ++j) {
    const int scale = Nearest(fits[j] * Inverse(unit), -32, 31);
    const auto bits = static_cast<unsigned>(scale + 32);
    block[2 + j / 4] |= static_cast<std::byte>((bits >> 4) << (2 * (j % 4)));
    block[4 + j / 2] |= static_cast<std::byte>((bits & 15U) << (4 * (j % 2)));
    const float inverse = Inverse(d * static_cast<float>(scale));
    for (size_t k = j * kCodes; k < (j + 1) * kCodes; ++k) raw[k] = NearestOfTable(kType, in[k] * inverse);
  }
}

void QuantizeIq4Nl(const float* in, uint8_t* raw, std::byte* block) {
  const float d = StoredHalf(FitTable(DType::IQ4_NL, in));
  StoreHalf(block, d);
  for (int k = 0; k < kCodes; ++k) raw[k] = NearestOfTable(DType::IQ4_NL, in[k] * Inverse(d));
}

// The largest magnitude's power of two becomes 4, the table's last binade.
void QuantizeMxfp4(const float* in, uint8_t* raw, std::byte* block) {
  const int exponent = static_cast<int>(math::ToBits(std::fabs(Extreme(in, kCodes))) >> 23);
  block[0] = static_cast<std::byte>(std::max(exponent - 2, 0));
  const float inverse = 1.0F / ReadScales(DType::MXFP4, block, 0).d;
  for (int k = 0; k < kCodes; ++k) raw[k] = NearestOfTable(DType::MXFP4, in[k] * inverse);
}

void QuantizeTrits(DType dtype, const float* in, uint8_t* raw, std::byte* block) {
  const float d = StoredHalf(std::fabs(Extreme(in, kSuper)));
  StoreHalf(block + (dtype == DType::TQ1_0 ? 52 : 64), d);
  for (int k = 0; k < kSuper; ++k) raw[k] = static_cast<uint8_t>(Nearest(in[k] * Inverse(d), -1, 1) + 1);
}

}  // namespace

void QuantizeBlock(DType dtype, const float* in, std::byte* block) {
  std::memset(block, 0, static_cast<size_t>(InfoOf(dtype).block_bytes));
  std::array<uint8_t, kSuper> raw{};
  switch (dtype) {
    case DType::Q2_K: QuantizeQ2K(in, raw.data(), block); break;
    case DType::Q3_K: QuantizeQ3K(in, raw.data(), block); break;
    case DType::Q4_K:
    case DType::Q5_K: QuantizeQ45K(dtype, in, raw.data(), block); break;
    case DType::Q6_K: QuantizeQ6K(in, raw.data(), block); break;
    case DType::IQ4_NL: QuantizeIq4Nl(in, raw.data(), block); break;
    case DType::IQ4_XS: QuantizeIq4Xs(in, raw.data(), block); break;
    case DType::MXFP4: QuantizeMxfp4(in, raw.data(), block); break;
    case DType::TQ1_0:
    case DType::TQ2_0: QuantizeTrits(dtype, in, raw.data(), block); break;
    default: LLMC_CHECK(false, "no searched scales for " + std::string(InfoOf(dtype).text));
  }
  WriteAll(dtype, raw.data(), block);
}

}  // namespace llmc
