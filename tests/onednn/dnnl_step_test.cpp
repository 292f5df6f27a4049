// dnnl steps of every form against sums in double precision over the dequantised values: the products differ from them
// by f32 rounding alone. Those of a8 activations are the scalar reference's to the bit (ir/README.md, Numerics). The
// bits don't depend on the number of threads, nothing outside the outputs and the scratch is written, no primitive is
// oneDNN's reference code, and no thread is started.
#include <cmath>
#include <random>

#include <dirent.h>

#include "tests/kernels/reference.h"
#include "tests/onednn/steps.h"

namespace llmc::onednn_test {
namespace {

using namespace llmc::kernels_test;
using kernels::IsBlock;
using kernels::Type;

struct Form {
  Type type = kernels::kF32;
  bool a8 = false, bf16 = false;
  int64_t k = 64;
  std::vector<int64_t> n = {48};
  bool interleave = false, gated = false, bias = false, residual = false, in_place = false;
  uint32_t slice_tiles = 1, rows = 1, max_rows = 0;  // 0: rows
  bool one_row = false;
  float x_scale = 1;
  Extreme extreme = Extreme::None;

  std::string Text() const {
    std::string text = std::string(PlanTypeName(static_cast<uint32_t>(type))) + (a8 ? " a8" : "") +
                       (bf16 ? " bf16" : "") + " k " + std::to_string(k) + " n";
    for (int64_t columns : n) text += " " + std::to_string(columns);
    return text + (interleave ? " interleaved" : "") + (gated ? " gated" : "") + (bias ? " bias" : "") +
           (residual ? in_place ? " residual in place" : " residual" : "") + " slices of " +
           std::to_string(slice_tiles) + ", rows " + std::to_string(rows) + (one_row ? " fixed" : "");
  }
};

double Nmse(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, power = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    error += d * d;
    power += want[i] * want[i];
  }
  return error == 0 ? 0 : error / power;
}

float ToBf16Value(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  bits &= 0xffff0000;
  std::memcpy(&v, &bits, 4);
  return v;
}

class Example {
 public:
  explicit Example(const Form& form) : form_(form), random_(static_cast<unsigned>(form.k * 31 + form.n[0])) {
    MakeX();
    MakeWeights();
    MakeStep();
    MakeExpected();
  }

  void Check() {
    TestProgram program;
    program.Add(step_);
    ASSERT_EQ(program.Create(), "") << form_.Text();
    for (const std::string& text : program.Descriptions()) ASSERT_EQ(text.find("ref"), std::string::npos) << text;
    std::vector<std::vector<float>> first;
    for (uint32_t threads = 1; threads <= 4; ++threads) {
      weights_.Reset();
      shared_.Reset();
      private_.Reset(threads);
      LlmcContext c{};
      c.weights = weights_.data();
      c.shared = shared_.data();
      c.scratch = private_.data();
      c.scratch_stride = private_.stride();
      c.rows = form_.one_row ? 7 : form_.rows;  // a step of one row doesn't look
      ASSERT_NO_FATAL_FAILURE(program.Run(0, c, threads)) << form_.Text();
      std::vector<uint64_t> written;
      written.reserve(step_.parts.size());
      for (const DnnlStep::Part& part : step_.parts) written.push_back(part.out.offset);
      const std::string what = form_.Text() + ", threads " + std::to_string(threads);
      weights_.CheckGuards({}, what + ", weights");
      shared_.CheckGuards(written, what + ", shared");
      private_.CheckGuards({}, what + ", private");
      for (size_t p = 0; p < step_.parts.size(); ++p) {
        std::vector<float> got = shared_.Read<float>(step_.parts[p].out.offset, expected_[p].size());
        if (threads == 1) {
          ASSERT_LE(Nmse(got, expected_[p]), 1e-9) << what << ", part " << p;
          ASSERT_TRUE(!form_.a8 || std::memcmp(got.data(), exact_[p].data(), got.size() * sizeof(float)) == 0)
              << what << ", part " << p << ": not the bits of the reference";
          first.push_back(std::move(got));
        } else {
          ASSERT_EQ(std::memcmp(got.data(), first[p].data(), got.size() * sizeof(float)), 0) << what;
        }
      }
    }
  }
  const DnnlStep& step() const { return step_; }

 private:
  void MakeX() {
    std::vector<float> x = RandomFloats(static_cast<size_t>(form_.rows * form_.k), random_, form_.x_scale);
    if (form_.bf16) {
      for (float& v : x) v = ToBf16Value(v);
    }
    std::vector<uint8_t> bytes(reinterpret_cast<const uint8_t*>(x.data()),
                               reinterpret_cast<const uint8_t*>(x.data() + x.size()));
    if (form_.a8) {
      bytes.clear();
      for (size_t r = 0; r < form_.rows; ++r) {
        const size_t k = static_cast<size_t>(form_.k);
        const Quantized q = Quantize(x.data() + r * k, form_.k);
        bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
        for (size_t i = 0; i < k; ++i) x[r * k + i] = static_cast<float>(q.codes[i]) * q.d[i / 32];
        quantized_.push_back(q);
      }
    }
    x_ = x;
    step_.x = {PlanSpace::Shared, shared_.Put(bytes, 4)};
  }

  void MakeWeights() {
    const size_t count = form_.gated ? 2 : form_.n.size();
    std::vector<uint8_t> tiles;
    for (size_t m = 0; m < count; ++m)
      matrices_.push_back(RandomMatrix(form_.type, form_.n[form_.gated ? 0 : m], form_.k, random_, form_.extreme));
    const size_t tile = PlanTileBytes(static_cast<uint32_t>(form_.type), static_cast<uint64_t>(form_.k));
    if (form_.interleave) {
      for (size_t t = 0; t * tile < matrices_[0].tiles.size(); ++t) {
        for (const Matrix& m : matrices_)
          tiles.insert(tiles.end(), m.tiles.begin() + static_cast<std::ptrdiff_t>(t * tile),
                       m.tiles.begin() + static_cast<std::ptrdiff_t>((t + 1) * tile));
      }
    } else {
      for (const Matrix& m : matrices_) tiles.insert(tiles.end(), m.tiles.begin(), m.tiles.end());
    }
    step_.w = weights_.Put(tiles, 32);
    if (form_.bias) {
      size_t columns = 0;
      for (const Matrix& m : matrices_) columns += static_cast<size_t>(m.n);
      bias_ = RandomFloats(columns, random_);
      step_.bias = weights_.Put(bias_, 4);
    }
  }

  void MakeStep() {
    step_.compute = form_.bf16 ? DnnlCompute::Bf16 : form_.a8 ? DnnlCompute::Blocks : DnnlCompute::F32;
    step_.one_row = form_.one_row;
    step_.max_rows = form_.max_rows != 0 ? form_.max_rows : form_.rows;
    step_.x_type = static_cast<uint32_t>(form_.a8 ? kernels::kA8 : kernels::kF32);
    step_.w_type = static_cast<uint32_t>(form_.type);
    step_.k = static_cast<uint64_t>(form_.k);
    step_.interleave = form_.interleave;
    step_.gate = form_.gated ? DnnlGate::Silu : DnnlGate::None;
    step_.slice_tiles = form_.slice_tiles;
    for (int64_t n : form_.n) {
      const size_t count = static_cast<size_t>(n) * form_.rows;
      uint64_t out = 0;
      if (form_.residual) {
        residual_ = RandomFloats(count, random_);
        out = shared_.Put(residual_, 4);
        step_.residual = PlanPlace{PlanSpace::Shared, out};
      }
      if (!form_.in_place) out = shared_.Reserve(count * sizeof(float), 4);
      step_.parts.push_back({static_cast<uint64_t>(n), {PlanSpace::Shared, out}});
    }
    step_.scratch_bytes = DnnlScratchBytes(step_).total();
    step_.scratch = {PlanSpace::Private, private_.Reserve(step_.scratch_bytes)};
  }

  double Product(size_t m, size_t row, size_t column, size_t bias) const {
    const size_t k = static_cast<size_t>(form_.k);
    double sum = 0;
    for (size_t i = 0; i < k; ++i)
      sum += static_cast<double>(x_[row * k + i]) * static_cast<double>(matrices_[m].values[column * k + i]);
    return sum + (form_.bias ? static_cast<double>(bias_[bias + column]) : 0);
  }
  float ExactProduct(size_t m, size_t row, size_t column, size_t bias) const {
    const float sum = LinearA8(quantized_[row], matrices_[m], static_cast<int64_t>(column), 1);
    return form_.bias ? sum + bias_[bias + column] : sum;
  }
  void MakeExpected() {
    size_t bias = 0;
    for (size_t p = 0; p < form_.n.size(); ++p) {
      const size_t n = static_cast<size_t>(form_.n[p]);
      std::vector<double> out;
      std::vector<float> exact;
      for (size_t r = 0; r < form_.rows; ++r) {
        for (size_t c = 0; c < n; ++c) {
          double v = Product(p, r, c, bias);
          if (form_.gated) v = v / (1 + std::exp(-v)) * Product(1, r, c, n);
          if (form_.residual) v += static_cast<double>(residual_[r * n + c]);
          out.push_back(v);
          if (!form_.a8) continue;
          float e = ExactProduct(p, r, c, bias);
          if (form_.gated) e = Silu(e) * ExactProduct(1, r, c, n);
          if (form_.residual) e = residual_[r * n + c] + e;
          exact.push_back(e);
        }
      }
      expected_.push_back(std::move(out));
      exact_.push_back(std::move(exact));
      bias += n;
    }
  }

  Form form_;
  std::mt19937 random_;
  Space weights_, shared_, private_;
  DnnlStep step_;
  std::vector<float> x_, bias_, residual_;
  std::vector<Matrix> matrices_;
  std::vector<Quantized> quantized_;  // rows of x when it is a8
  std::vector<std::vector<double>> expected_;
  std::vector<std::vector<float>> exact_;  // for a8
};

void Check(const Form& form) { ASSERT_NO_FATAL_FAILURE(Example(form).Check()); }

constexpr Type kWeightTypes[] = {kernels::kF32,  kernels::kF16,  kernels::kBF16, kernels::kQ4_0,
                                 kernels::kQ4_1, kernels::kQ5_0, kernels::kQ5_1, kernels::kQ8_0};
constexpr Type kOtherTypes[] = {kernels::kQ2_K,   kernels::kQ3_K,   kernels::kQ4_K,  kernels::kQ5_K,  kernels::kQ6_K,
                                kernels::kIQ4_NL, kernels::kIQ4_XS, kernels::kMXFP4, kernels::kTQ1_0, kernels::kTQ2_0};

TEST(DnnlStep, OtherBlockTypes) {
  for (Type type : kOtherTypes) {
    for (bool a8 : {false, true}) {
      for (uint32_t rows : {1u, 17u}) {
        ASSERT_NO_FATAL_FAILURE(Check({.type = type, .a8 = a8, .k = 512, .n = {74}, .slice_tiles = 3, .rows = rows}));
      }
    }
  }
}

TEST(DnnlStep, EveryTypeOfWeights) {
  for (Type type : kWeightTypes) {
    for (bool a8 : {false, true}) {
      if (a8 && !IsBlock(type)) continue;
      for (uint32_t rows : {1u, 2u, 17u}) {
        for (uint32_t slice_tiles : {1u, 2u, 3u, 5u})
          ASSERT_NO_FATAL_FAILURE(
              Check({.type = type, .a8 = a8, .k = 96, .n = {74}, .slice_tiles = slice_tiles, .rows = rows}));
        ASSERT_NO_FATAL_FAILURE(Check({.type = type, .a8 = a8, .k = 96, .n = {10}, .bias = true, .rows = rows}));
      }
    }
  }
}

TEST(DnnlStep, OddK) {
  for (Type type : {kernels::kF32, kernels::kF16, kernels::kBF16}) {
    for (uint32_t slice_tiles : {1u, 2u}) {
      for (bool bf16 : {false, true}) {
        if (bf16 && type != kernels::kBF16) continue;
        ASSERT_NO_FATAL_FAILURE(
            Check({.type = type, .bf16 = bf16, .k = 37, .n = {40}, .slice_tiles = slice_tiles, .rows = 5}));
        ASSERT_NO_FATAL_FAILURE(
            Check({.type = type, .bf16 = bf16, .k = 1, .n = {40}, .slice_tiles = slice_tiles, .rows = 3}));
      }
    }
  }
}

TEST(DnnlStep, PartsBiasAndInterleaving) {
  for (Type type : {kernels::kF32, kernels::kQ4_1, kernels::kBF16}) {
    for (bool bias : {false, true}) {
      for (uint32_t slice_tiles : {1u, 2u, 4u}) {
        const Form form{.type = type, .k = 64, .bias = bias, .slice_tiles = slice_tiles, .rows = 6};
        Form two = form, three = form, woven = form;
        two.n = {36, 20};
        three.n = {80, 16, 7};
        woven.n = {72, 72};
        woven.interleave = true;
        ASSERT_NO_FATAL_FAILURE(Check(two));
        ASSERT_NO_FATAL_FAILURE(Check(three));
        ASSERT_NO_FATAL_FAILURE(Check(woven));
      }
    }
  }
}

TEST(DnnlStep, Residual) {
  for (Type type : {kernels::kF32, kernels::kQ8_0, kernels::kBF16}) {
    for (bool bias : {false, true}) {
      for (bool in_place : {false, true}) {
        for (bool bf16 : {false, true}) {
          if (bf16 && type != kernels::kBF16) continue;
          Form form{.type = type, .bf16 = bf16, .k = 64, .n = {58}, .bias = bias, .residual = true};
          form.in_place = in_place;
          for (uint32_t rows : {1u, 17u}) {
            form.rows = rows;
            form.one_row = rows == 1;
            form.slice_tiles = 1 + rows % 3;
            ASSERT_NO_FATAL_FAILURE(Check(form));
          }
        }
      }
    }
  }
}

TEST(DnnlStep, Gated) {
  for (Type type : {kernels::kF32, kernels::kQ4_0, kernels::kBF16}) {
    for (bool bias : {false, true}) {
      for (bool interleave : {false, true}) {
        for (bool bf16 : {false, true}) {
          if (bf16 && type != kernels::kBF16) continue;
          for (uint32_t slice_tiles : {1u, 3u}) {
            Form form{.type = type, .bf16 = bf16, .k = 64, .n = {90}, .interleave = interleave, .gated = true};
            form.bias = bias;
            form.slice_tiles = slice_tiles;
            form.rows = 17;
            form.max_rows = 32;
            ASSERT_NO_FATAL_FAILURE(Check(form));
            form.rows = form.max_rows = 1;
            form.one_row = true;
            ASSERT_NO_FATAL_FAILURE(Check(form));
          }
        }
      }
    }
  }
}

TEST(DnnlStep, BlocksInEveryForm) {
  for (Type type : {kernels::kQ4_0, kernels::kQ5_1, kernels::kQ8_0}) {
    for (Extreme extreme : {Extreme::None, Extreme::Codes}) {
      for (bool bias : {false, true}) {
        for (uint32_t rows : {1u, 5u, 40u}) {
          Form form{.type = type, .a8 = true, .k = 160, .n = {70}, .bias = bias, .slice_tiles = 2, .rows = rows};
          form.one_row = rows == 1;
          form.extreme = extreme;
          Form gated = form, woven = form, three = form, residual = form;
          gated.gated = true;
          gated.interleave = bias;
          woven.n = {70, 70};
          woven.interleave = true;
          three.n = {64, 16, 7};
          residual.residual = true;
          residual.in_place = bias;
          for (const Form& f : {form, gated, woven, three, residual}) ASSERT_NO_FATAL_FAILURE(Check(f));
        }
      }
    }
  }
}

// Gates far out, where e^-x overflows or vanishes.
TEST(DnnlStep, LargeGates) {
  Check({.type = kernels::kF32, .k = 32, .n = {48}, .gated = true, .slice_tiles = 3, .rows = 20, .x_scale = 1000});
}

TEST(DnnlStep, ManyRowsAndOneRow) {
  for (Type type : {kernels::kF32, kernels::kQ4_1, kernels::kBF16}) {
    for (bool a8 : {false, true}) {
      if (a8 && !IsBlock(type)) continue;
      Form form{.type = type, .a8 = a8, .k = 576, .n = {112}, .slice_tiles = 6, .rows = 200, .max_rows = 512};
      ASSERT_NO_FATAL_FAILURE(Check(form));
      form.rows = form.max_rows = 1;
      form.one_row = true;
      ASSERT_NO_FATAL_FAILURE(Check(form));
    }
  }
}

TEST(DnnlStep, Bf16Products) {
  Form form{.type = kernels::kBF16, .bf16 = true, .k = 576, .n = {112}, .bias = true};
  for (uint32_t rows : {1u, 2u, 17u, 200u}) {
    for (uint32_t slice_tiles : {1u, 2u, 6u, 7u, 9u}) {
      form.rows = rows;
      form.slice_tiles = slice_tiles;
      ASSERT_NO_FATAL_FAILURE(Check(form));
    }
  }
}

// On a CPU without bf16 products the same step is computed in f32, and says so.
TEST(DnnlStep, Bf16ProductsSayHowTheyAreMade) {
  Form form{.type = kernels::kBF16, .bf16 = true, .k = 64, .n = {32}, .slice_tiles = 2, .rows = 4};
  TestProgram program;
  program.Add(Example(form).step());
  ASSERT_EQ(program.Create(), "");
  ASSERT_EQ(program.Descriptions().size(), 1u);
  const std::string text = program.Descriptions()[0];
  std::printf("%s, scratchpad %llu bytes\n", text.c_str(),
              static_cast<unsigned long long>(llmc_onednn_library()->scratchpad_bytes(program.get())));
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (isa != nullptr && std::string_view(isa) == "AVX2") {
    ASSERT_EQ(text.substr(0, 11), "bf16 as f32");
  } else {
    ASSERT_EQ(text.substr(0, 4), "bf16");
    if (__builtin_cpu_supports("avx512bf16")) {
      ASSERT_EQ(text.substr(0, 6), "bf16 [");
    }
  }
}

// Of interleaved parts a thread computes the same columns: the IR's rules let an op that is divided like them read its
// own in the same step.
TEST(DnnlStep, InterleavedPartsAreSharedOutInPairs) {
  for (const bool a8 : {false, true}) {
    constexpr uint64_t kN = 72, kMine = 32;  // thread 0 of 2: the first two of five slices
    DnnlStep step;
    step.compute = a8 ? DnnlCompute::Blocks : DnnlCompute::F32;
    step.x_type = static_cast<uint32_t>(a8 ? kernels::kA8 : kernels::kF32);
    step.w_type = static_cast<uint32_t>(kernels::kQ8_0);
    step.k = 32;
    step.interleave = true;
    Space weights, shared, scratch;
    step.x = {PlanSpace::Shared, shared.Put(std::vector<uint8_t>(step.k * sizeof(float)))};
    step.w = weights.Put(std::vector<uint8_t>(10 * PlanTileBytes(step.w_type, step.k)));
    for (int p = 0; p < 2; ++p) step.parts.push_back({kN, {PlanSpace::Shared, shared.Put(std::vector<float>(kN, 1))}});
    step.scratch_bytes = DnnlScratchBytes(step).total();
    step.scratch = {PlanSpace::Private, scratch.Reserve(step.scratch_bytes)};
    TestProgram program;
    program.Add(step);
    ASSERT_EQ(program.Create(), "");
    weights.Reset();
    shared.Reset();
    scratch.Reset();
    LlmcContext c{};
    c.weights = weights.data();
    c.shared = shared.data();
    c.scratch = scratch.data();
    c.rows = 1;
    std::vector<uint8_t> scratchpad(llmc_onednn_library()->scratchpad_bytes(program.get()) + 64);
    uint8_t* aligned = scratchpad.data() + (64 - reinterpret_cast<uintptr_t>(scratchpad.data()) % 64) % 64;
    ASSERT_EQ(llmc_onednn_library()->run(program.get(), 0, &c, 0, 2, aligned), 0u);
    for (const DnnlStep::Part& part : step.parts) {
      const std::vector<float> out = shared.Read<float>(part.out.offset, kN);
      for (uint64_t i = 0; i < kN; ++i) ASSERT_EQ(out[i], i < kMine ? 0 : 1) << i;
    }
  }
}

// One primitive for each distinct product, whatever the number of steps.
TEST(DnnlStep, EqualProductsShareAPrimitive) {
  Form form{.type = kernels::kQ4_1, .k = 64, .n = {96}, .bias = true, .slice_tiles = 3, .rows = 4};
  TestProgram program;
  for (int i = 0; i < 3; ++i) program.Add(Example(form).step());
  form.type = kernels::kF16;  // another way to unpack, the same matmul
  program.Add(Example(form).step());
  form.n = {100};  // rows of another length, and a last slice of 4 columns
  program.Add(Example(form).step());
  ASSERT_EQ(program.Create(), "");
  const std::vector<std::string> texts = program.Descriptions();
  ASSERT_EQ(texts.size(), 3u);
  for (const std::string& text : texts) {
    const bool known =
        text.find("f32 [*, 64] x [64, 48] + bias: ") == 0 || text.find("f32 [*, 64] x [64, 4] + bias: ") == 0;
    EXPECT_TRUE(known) << text;
  }
}

int CountThreads() {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return -1;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

TEST(DnnlStep, StartsNoThreads) {
  const int before = CountThreads();
  ASSERT_GT(before, 0);
  for (uint32_t rows : {1u, 200u})
    ASSERT_NO_FATAL_FAILURE(Check({.type = kernels::kQ4_1, .k = 576, .n = {576}, .slice_tiles = 6, .rows = rows}));
  ASSERT_EQ(CountThreads(), before);
}

TEST(DnnlStep, MoreRowsThanTheStepIsMadeForFail) {
  const Form form{.type = kernels::kQ4_1, .k = 64, .n = {32}, .rows = 4};
  TestProgram program;
  program.Add(Example(form).step());
  ASSERT_EQ(program.Create(), "");
  LlmcContext c{};
  c.rows = 5;
  EXPECT_EQ(llmc_onednn_library()->run(program.get(), 0, &c, 0, 1, nullptr), 1u);
  EXPECT_EQ(llmc_onednn_library()->run(program.get(), 1, &c, 0, 1, nullptr), 1u);  // no such step
}

}  // namespace
}  // namespace llmc::onednn_test
