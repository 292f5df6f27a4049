// What a NaN or an infinity does (ir/README.md, Numerics): put into any operand of any op, it makes the results that
// depend on it non-finite, and has no influence on any other. What depends on an element is found by changing it to
// another finite number; the interpreter is held against that, the compiled backends against the interpreter.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include <gtest/gtest.h>

#include "backends/pack_weights.h"
#include "ir/layout.h"
#include "ir/math.h"
#include "tests/e2e/op_cases.h"
#include "tests/support/from_memory.h"
#include "tests/support/temp_dir.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

// A number of a weight's: element `index` of a row, or of a block type the scale of block `index`, or its minimum.
struct Place {
  Name weight;
  int64_t row = 0, index = 0;
  bool minimum = false;
};

// Changes a stored number.
using Change = std::function<float(float)>;

// Another source's weights, with one number changed.
class Planted : public WeightSource {
 public:
  Planted(const WeightSource& source, Place place, Change change)
      : source_(source), place_(std::move(place)), change_(std::move(change)) {}
  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    source_.Read(weight, begin, end, out);
    if (weight.name != place_.weight || place_.row < begin || place_.row >= end) return;
    std::byte* row = out + (place_.row - begin) * StoredRowBytes(weight.type);
    const DType dtype = weight.type.dtype;
    if (dtype == DType::F32) {
      float value = 0;
      std::memcpy(&value, row + 4 * place_.index, 4);
      value = change_(value);
      std::memcpy(row + 4 * place_.index, &value, 4);
      return;
    }
    const bool block = InfoOf(dtype).cls == DTypeClass::BLOCK;
    std::byte* at = row + place_.index * InfoOf(dtype).block_bytes + (block && place_.minimum ? 2 : 0);
    uint16_t half = 0;
    std::memcpy(&half, at, 2);
    half = dtype == DType::BF16 ? math::FloatToBfloat(change_(math::BfloatToFloat(half)))
                                : math::FloatToHalf(change_(math::HalfToFloat(half)));
    std::memcpy(at, &half, 2);
  }

 private:
  const WeightSource& source_;
  const Place place_;
  const Change change_;
};

// Places in the first, the last and a middle row of each weight, which one op reads as one of its operands; what the
// embedding holds of a token is an element of %x in that token's row.
std::vector<Place> PlacesIn(const Module& module, const std::vector<int32_t>& tokens) {
  std::vector<Place> places;
  for (const Global& global : module.globals) {
    if (global.kind != GlobalKind::Weight) continue;
    const Type& type = global.type;
    const bool block = InfoOf(type.dtype).cls == DTypeClass::BLOCK;
    const int64_t rows = RowCount(type), count = type.dims.back().value / (block ? InfoOf(type.dtype).block : 1);
    std::vector<int64_t> chosen = {0, rows - 1, rows / 2};
    if (global.name.base == "embed" || global.name.base == "table")
      chosen = {tokens.front(), tokens[tokens.size() / 2], tokens.back()};
    for (size_t i = 0; i < chosen.size(); ++i) {
      const int64_t index = (static_cast<int64_t>(i) * 37 + 5) % count;
      places.push_back({global.name, chosen[i], index, false});
      if (type.dtype == DType::Q4_1 || type.dtype == DType::Q5_1)
        places.push_back({global.name, chosen[i], index, true});
    }
  }
  return places;
}

bool Same(float a, float b) { return math::ToBits(a) == math::ToBits(b); }

// One backend's plan, whose weights come from any source.
class Compiled {
 public:
  Compiled(Module module, const std::string& backend, const WeightSource& weights, bool fused)
      : module_(std::move(module)) {
    PipelineOptions options;
    for (const PassInfo& pass : AllPasses())
      if (pass.optional && !fused) options.disabled.emplace(pass.name);
    RunPipeline(module_, ContextFor(backend), options);
    PlanRequest request;
    request.module = &module_;
    request.weights = &weights;
    request.backend = backend;
    executable_ = FromMemory(std::make_shared<MemoryPlan>(request));
    bytes_.reset(static_cast<uint8_t*>(::operator new(executable_.weights_size + 64, std::align_val_t{64})));
    executable_.weights = bytes_.get();
  }
  std::vector<float> Run(const WeightSource& weights, const std::vector<int32_t>& tokens, uint32_t threads) {
    std::memset(bytes_.get(), 0, executable_.weights_size);
    FillWeights(module_, weights, 1, bytes_.get(), {});
    return RunAll(executable_, tokens, threads);
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  Module module_;
  Executable executable_;
  std::unique_ptr<uint8_t, Free> bytes_;
};

class NonFinite : public testing::TestWithParam<OpCase> {};
class NonFiniteUnfused : public testing::TestWithParam<OpCase> {};

// On every backend; without fusions on llvm alone, whose kernels then are others.
void ExpectReach(const OpCase& c, bool fused) {
  const std::unique_ptr<WeightSource> weights = RandomWeights(11);
  std::vector<int32_t> tokens;  // each id once
  for (int32_t i = 0; i < 27; ++i) tokens.push_back((i * 31 + 7) % 50);
  const Module module = ImportOp(c);
  const std::vector<float> base = OracleRows(module, *weights, tokens);
  const size_t width = base.size() / tokens.size();
  struct Backend {
    std::string name;
    Compiled plan;
  };
  std::vector<Backend> backends;
  for (const std::string& backend : CompiledBackends())
    if (fused || backend == "llvm") backends.push_back({backend, Compiled(module, backend, *weights, fused)});

  // A factor of zero hides a finite change and not an infinite one, as does the softmax of a row that sees one key: its
  // query, where that has weights of its own, can be anything finite.
  const bool zeros = c.name.find("relu") != std::string::npos || c.name.starts_with("latent_");
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::array<float, 3> values = {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf};
  size_t spread = 0;
  const std::vector<Place> places = PlacesIn(module, tokens);
  for (size_t p = 0; p < places.size(); ++p) {
    const Place& place = places[p];
    // A small change, and large ones, which quantised activations don't swallow.
    std::vector<bool> depends(base.size());
    std::vector<bool> row_depends(tokens.size());
    for (const float factor : {-3.0F, -3000.0F, 3000.0F}) {
      const Planted other(*weights, place, [&](float v) { return v * factor + std::copysign(1.0F, factor); });
      const std::vector<float> changed = OracleRows(module, other, tokens);
      for (size_t i = 0; i < base.size(); ++i) {
        if (Same(changed[i], base[i])) continue;
        depends[i] = true;
        row_depends[i / width] = true;
      }
    }
    const size_t v = p % 3;
    SCOPED_TRACE("$" + ToText(place.weight) + " row " + std::to_string(place.row) + " " + std::to_string(place.index) +
                 (place.minimum ? " minimum" : "") + " = " + std::to_string(values[v]));
    const Planted planted(*weights, place, [&](float) { return values[v]; });
    const std::vector<float> got = OracleRows(module, planted, tokens);
    for (size_t i = 0; i < got.size(); ++i) {
      if (depends[i]) {
        ASSERT_FALSE(std::isfinite(got[i])) << "row " << i / width << " column " << i % width;
        ++spread;
      } else if (!row_depends[i / width] && !zeros) {
        ASSERT_TRUE(Same(got[i], base[i])) << "row " << i / width << " column " << i % width;
      }
    }
    const std::vector<float> expected = AsRunAll(got, tokens.size());
    for (Backend& backend : backends) {
      const bool exact = backend.name == "llvm" || c.activations == "q8";
      const std::vector<float> rows = backend.plan.Run(planted, tokens, static_cast<uint32_t>((p + v) % 3 + 1));
      ASSERT_EQ(rows.size(), expected.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(std::isfinite(rows[i]), std::isfinite(expected[i]))
            << backend.name << ", row " << i / width << " of RunAll, column " << i % width << ": " << rows[i];
        if (exact && std::isfinite(rows[i])) {
          ASSERT_TRUE(Same(rows[i], expected[i])) << backend.name;
        }
      }
    }
  }
  EXPECT_GT(spread, 0U);
}

TEST_P(NonFinite, ReachesWhatDependsOnItAndNothingElse) { ExpectReach(GetParam(), true); }
TEST_P(NonFiniteUnfused, ReachesWhatDependsOnItAndNothingElse) { ExpectReach(GetParam(), false); }

// A linear alone and one with a bias are parts of `residual` and `gated`, but for the types of the next two.
std::vector<OpCase> NonFiniteCases() {
  std::vector<OpCase> cases;
  for (OpCase& c : OpCases()) {
    const bool plain = c.name.starts_with("linear_") || c.name.starts_with("odd_bias_");
    if (!plain || c.name.ends_with("_f32_f32") || c.name.ends_with("_q4_1_q8")) cases.push_back(std::move(c));
  }
  return cases;
}

std::string NameOf(const testing::TestParamInfo<OpCase>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(, NonFinite, testing::ValuesIn(NonFiniteCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sample, NonFiniteUnfused, testing::ValuesIn(SampleOf(NonFiniteCases())), NameOf);
INSTANTIATE_TEST_SUITE_P(Every, NonFiniteUnfused, testing::ValuesIn(NonFiniteCases()), NameOf);  // tools/check

// A finite row whose squares overflow: r would be 0, and the row all zeros.
TEST(NonFiniteNorm, RowsOfSquaresThatOverflow) {
  const OpCase c = {"overflow", "weight $gain : f32[64]\n", "%y = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n"};
  const std::unique_ptr<WeightSource> weights = RandomWeights(11);
  const std::vector<int32_t> tokens = {7, 8, 9, 10, 11};
  const Planted planted(*weights, {Name("embed"), 9, 5, false}, [](float) { return 2e19F; });
  const Module module = ImportOp(c);
  const std::vector<float> rows = OracleRows(module, planted, tokens);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(std::isfinite(rows[i]), i / 64 != 2) << i;
  for (const std::string& backend : CompiledBackends()) {
    const std::vector<float> got = Compiled(module, backend, *weights, true).Run(planted, tokens, 2);
    const std::vector<float> expected = AsRunAll(rows, tokens.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::isfinite(got[i]), std::isfinite(expected[i])) << backend << i;
  }
}

// A plan whose self-test gives no numbers isn't written, unless that is allowed: then it has no self-test.
TEST(NonFiniteSelfTest, FailsTheCompile) {
  const test::TempDir folder;
  const std::unique_ptr<WeightSource> weights = RandomWeights(11);
  const Planted planted(*weights, {Name("gain"), 0, 5, false}, [](float) { return NAN; });
  const OpCase c = {"gain", "weight $gain : f32[64]\n", "%y = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n"};
  for (const std::string& backend : CompiledBackends()) {
    Module module = ImportOp(c);
    RunPipeline(module, ContextFor(backend), {});
    PlanRequest request;
    request.module = &module;
    request.weights = &planted;
    request.backend = backend;
    const std::string path = folder / (backend + ".plan");
    try {
      WritePlan(request, path);
      ADD_FAILURE() << backend;
    } catch (const InputError& error) {
      EXPECT_EQ(error.diag().kind, DiagKind::BadValue);
      EXPECT_NE(std::string(error.what()).find("the logit of id 0 is NaN"), std::string::npos) << error.what();
    }
    EXPECT_EQ(folder.Count(), 0U);
    request.allow_nonfinite = true;
    WritePlan(request, path);
    EXPECT_TRUE(PlanFile(path).manifest().self_test.ids.empty());
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace llmc
