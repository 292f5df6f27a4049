// Frequencies of rotary embeddings and the table of their cosines and sines. Everything is double until the one
// rounding to f32.
#include "ir/rope_table.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/diag.h"
#include "ir/math_f64.h"
#include "ir/recipe.h"

namespace llmc {
namespace {

// Beyond it the reduction of angles loses bits.
constexpr double kLargestAngle = 0x1p24;

double FloatOf(const Recipe& recipe, std::string_view name) {
  return static_cast<double>(std::get<float>(AttrOf(recipe, name)));
}

void Require(bool condition, const std::string& rule) {
  if (!condition) Fail(DiagKind::BadAttribute, {}, "rope_table: " + rule);
}

// llama3: long wavelengths are stretched by `factor`, short ones stay, those between go over smoothly.
void ScaleLlama3(const Recipe& recipe, double factor, double original, std::vector<double>& frequencies) {
  const double low = FloatOf(recipe, "low");
  const double high = FloatOf(recipe, "high");
  Require(low > 0 && high > low, "low and high must be positive and low < high");
  for (double& frequency : frequencies) {
    const double wavelength = 2 * math::kPi / frequency;
    if (wavelength < original / high) continue;
    if (wavelength > original / low) {
      frequency = frequency / factor;
      continue;
    }
    const double smooth = (original / wavelength - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
}

// yarn: pairs that turn more than beta_fast times within `original` positions stay, those that turn less than beta_slow
// times are stretched by `factor`, with a linear ramp over the pairs between.
void ScaleYarn(const Recipe& recipe, double factor, double original, int64_t dim, std::vector<double>& frequencies) {
  const double fast = FloatOf(recipe, "beta_fast");
  const double slow = FloatOf(recipe, "beta_slow");
  const double theta = FloatOf(recipe, "theta");
  Require(fast > 0 && slow > 0, "beta_fast and beta_slow must be positive");
  Require(theta > 1, "yarn needs theta above 1");
  // The pair that turns `turns` times within the original length, as a real number.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(dim) * math::Ln(original / (turns * 2 * math::kPi)) / (2 * math::Ln(theta));
  };
  const bool whole = std::get<bool>(AttrOf(recipe, "truncate"));
  const double first = pair_of(fast);
  const double last = pair_of(slow);
  const double begin = std::max(whole ? std::floor(first) : first, 0.0);
  double end = std::min(whole ? std::ceil(last) : last, static_cast<double>(dim - 1));
  if (begin == end) end += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - begin) / (end - begin), 0.0, 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1 - ramp);
  }
}

}  // namespace

std::vector<double> RopeFrequencies(const Recipe& recipe, int64_t dim) {
  const double theta = FloatOf(recipe, "theta");
  Require(std::isfinite(theta) && theta >= 1, "theta must be finite and at least 1");
  const double step = math::Log2(theta) * 2 / static_cast<double>(dim);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) frequencies.push_back(math::Exp2(-step * static_cast<double>(i)));
  const int64_t turning = std::get<int64_t>(AttrOf(recipe, "turning"));
  Require(turning >= 0 && turning <= dim / 2, "turning must be 0, or a number of pairs");
  if (turning > 0) std::fill(frequencies.begin() + turning, frequencies.end(), 0.0);
  const std::string kind = std::get<std::string>(AttrOf(recipe, "kind"));
  if (kind == "none") return frequencies;
  const double factor = FloatOf(recipe, "factor");
  Require(std::isfinite(factor) && factor > 0, "factor must be finite and positive");
  if (kind == "linear") {
    for (double& frequency : frequencies) frequency = frequency / factor;
    return frequencies;
  }
  const auto original = static_cast<double>(std::get<int64_t>(AttrOf(recipe, "original")));
  Require(original >= 1, "original must be at least 1");
  if (kind == "llama3") {
    ScaleLlama3(recipe, factor, original, frequencies);
  } else {
    ScaleYarn(recipe, factor, original, dim, frequencies);
  }
  return frequencies;
}

std::vector<double> RopeFrequencies(const Recipe& recipe, std::span<const float> divisors) {
  std::vector<double> frequencies = RopeFrequencies(recipe, 2 * static_cast<int64_t>(divisors.size()));
  for (size_t i = 0; i < divisors.size(); ++i) {
    Require(std::isfinite(divisors[i]) && divisors[i] > 0, "divisors must be finite and positive");
    frequencies[i] = frequencies[i] / static_cast<double>(divisors[i]);
  }
  return frequencies;
}

void RopeTableRows(const Recipe& recipe, int64_t dim, int64_t begin, int64_t end, float* out) {
  RopeTableRows(recipe, RopeFrequencies(recipe, dim), begin, end, out);
}

void RopeTableRows(const Recipe& recipe, std::span<const double> frequencies, int64_t begin, int64_t end, float* out) {
  const double attention_factor = FloatOf(recipe, "attention_factor");
  const double growth = FloatOf(recipe, "growth");
  const int64_t original = std::get<int64_t>(AttrOf(recipe, "growth_original"));
  const auto half = static_cast<int64_t>(frequencies.size());
  for (int64_t position = begin; position < end; ++position, out += 2 * half) {
    double factor = attention_factor;
    const int64_t times = position / original;  // whole ones
    if (growth != 0) factor *= 1 + growth * math::Ln(static_cast<double>(1 + times));
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
      if (angle > kLargestAngle) Require(false, "position " + std::to_string(position) + " has an angle above 2^24");
      const math::SinCos turned = math::SinCosOf(angle);
      out[i] = static_cast<float>(turned.cos * factor);
      out[half + i] = static_cast<float>(turned.sin * factor);
    }
  }
}

}  // namespace llmc
