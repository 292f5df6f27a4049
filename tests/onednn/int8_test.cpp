// oneDNN's int8 matmul is used for the dots of blocks where it is exact, and nowhere else: it is compared with integers
// here, and what was found is printed. On CPUs without VNNI 2.6 sums pairs of products in 16 bits, which saturate.
#include <random>

#include "runtime/onednn/dnnl_compat.h"
#include "tests/onednn/steps.h"

namespace llmc::onednn_test {
namespace {

struct Found {
  std::string implementation;
  int wrong = 0, outputs = 0;
  int64_t largest_error = 0;
};

// x [m, k] of 8 bits times w s8[k, n], codes of the whole range.
template <class X>
Found MultiplyInt8() {
  constexpr int64_t kM = 16, kK = 576, kN = 64;
  using Type = dnnl::memory::data_type;
  const Type x_type = std::is_signed_v<X> ? Type::s8 : Type::u8;
  std::mt19937 random(11);
  std::vector<X> x(kM * kK);
  std::vector<int8_t> w(kK * kN);
  std::vector<int32_t> out(kM * kN);
  for (X& v : x) v = static_cast<X>(random() & 255);
  for (int8_t& v : w) v = static_cast<int8_t>(random() & 255);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::desc x_desc({kM, kK}, x_type, dnnl::memory::dims{kK, 1});
  const dnnl::memory::desc w_desc({kK, kN}, Type::s8, dnnl::memory::dims{kN, 1});
  const dnnl::memory::desc out_desc({kM, kN}, Type::s32, dnnl::memory::dims{kN, 1});
  const auto desc = onednn::DescribeMatmul(engine, x_desc, w_desc, nullptr, out_desc, {});
  dnnl::matmul(desc).execute(stream, {{DNNL_ARG_SRC, dnnl::memory(x_desc, engine, x.data())},
                                      {DNNL_ARG_WEIGHTS, dnnl::memory(w_desc, engine, w.data())},
                                      {DNNL_ARG_DST, dnnl::memory(out_desc, engine, out.data())}});
  stream.wait();
  Found found{desc.impl_info_str()};
  for (int64_t r = 0; r < kM; ++r) {
    for (int64_t c = 0; c < kN; ++c) {
      int64_t sum = 0;
      for (int64_t i = 0; i < kK; ++i)
        sum += int64_t{x[static_cast<size_t>(r * kK + i)]} * w[static_cast<size_t>(i * kN + c)];
      const int64_t error = std::abs(sum - out[static_cast<size_t>(r * kN + c)]);
      found.wrong += error != 0;
      found.largest_error = std::max(found.largest_error, error);
      ++found.outputs;
    }
  }
  return found;
}

void Check(const char* what, const Found& found) {
  std::printf("%s, %s: %d of %d sums wrong, largest error %lld\n", what, found.implementation.c_str(), found.wrong,
              found.outputs, static_cast<long long>(found.largest_error));
  if (found.implementation.find("vnni") != std::string::npos) {
    EXPECT_EQ(found.wrong, 0) << what;
  }
}

TEST(Int8, IsExactWithVnni) {
  const onednn::OneThread one_thread;
  std::printf("%s\n", onednn::VersionText().c_str());
  Check("s8 x s8", MultiplyInt8<int8_t>());
  Check("u8 x s8", MultiplyInt8<uint8_t>());
}

TEST(Int8, IsUsedForBlocksWhereItIsExact) {
  const onednn::OneThread one_thread;
  const Found found = MultiplyInt8<int8_t>();
  const bool exact = found.wrong == 0 && found.implementation.find("ref") == std::string::npos;
  for (const bool a8 : {false, true}) {
    for (const uint32_t w_type : {4u, 5u, 8u}) {  // q4_0, q4_1, q8_0
      DnnlStep step;
      step.compute = a8 ? DnnlCompute::Blocks : DnnlCompute::F32;
      step.max_rows = 4;
      step.x_type = a8 ? 9 : 0;
      step.w_type = w_type;
      step.k = 64;
      step.parts = {{48, {PlanSpace::Shared, 4096}}};
      step.slice_tiles = 2;
      step.scratch = {PlanSpace::Private, 0};
      step.scratch_bytes = DnnlScratchBytes(step).total();
      TestProgram program;
      program.Add(step);
      ASSERT_EQ(program.Create(), "");
      ASSERT_EQ(program.Descriptions().size(), 2u);
      for (const std::string& text : program.Descriptions())
        EXPECT_EQ(text.substr(0, text.find(' ')), a8 && exact ? "s8" : "f32") << text;
    }
  }
}

}  // namespace
}  // namespace llmc::onednn_test
