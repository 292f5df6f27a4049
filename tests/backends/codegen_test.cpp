// Code generation on kernels of its own: what runs, what is refused, and that nothing but the program decides the
// bytes.
#include "backends/llvm/codegen.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "ir/diag.h"
#include "runtime/context.h"

namespace llmc {
namespace {

constexpr int64_t kWidth = 1024;

std::string Bitcode(const std::string& name) {
  std::ifstream file(LLMC_TEST_BITCODE + name + ".bc", std::ios::binary);
  EXPECT_TRUE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

// x = iota + add; then `layers` times x = x + weights[layer]; logits = x.
Program MakeProgram(int layers, int64_t add) {
  Program program;
  for (const char* name : {"decode", "prefill"}) {
    const bool one = program.phases.empty();
    Phase phase{name, {}};
    phase.calls.push_back({"iota", {kWidth, add}, {64}, one, false});
    for (int i = 0; i < layers; ++i) {
      const uint64_t weights = static_cast<uint64_t>(i) * kWidth * sizeof(float);
      phase.calls.push_back({"add", {kWidth}, {64, weights, 64}, one, true});
      phase.calls.push_back({"add", {kWidth}, {64, weights, 64}, one, false});
    }
    phase.calls.push_back({"emit", {kWidth}, {64}, one, true});
    program.phases.push_back(std::move(phase));
  }
  return program;
}

struct Outcome {
  uint32_t status = 0;
  uint32_t barriers = 0;
  std::vector<float> logits;
};

Outcome Call(LlmcPhaseFn entry, int layers, uint32_t rows, uint32_t abort_request = 0) {
  std::vector<float> weights(static_cast<size_t>(layers + 1) * kWidth), shared(16 + rows * kWidth + 16);
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t layer = i / kWidth;
    weights[i] = static_cast<float>(layer + 1);
  }
  Outcome run;
  run.logits.resize(rows * kWidth);
  alignas(64) LlmcBarrier barrier{};
  // Vector loads want aligned rows.
  const auto align = [](std::vector<float>& values) {
    void* begin = values.data();
    size_t space = values.size() * sizeof(float);
    return static_cast<uint8_t*>(std::align(32, 1, begin, space));
  };
  uint8_t* aligned = align(shared);
  std::vector<float> aligned_weights(weights.size() + 16);
  uint8_t* w = align(aligned_weights);
  std::memcpy(w, weights.data(), weights.size() * sizeof(float));
  LlmcContext context{};
  context.weights = w;
  context.shared = aligned - 64 + 32;
  context.logits = run.logits.data();
  context.rows = rows;
  context.abi = LLMC_ABI_VERSION;
  context.barrier = &barrier;
  context.abort_request = &abort_request;
  run.status = entry(&context, 0, 1);
  run.barriers = barrier.epoch;
  return run;
}

class Mapped {
 public:
  explicit Mapped(const CodeBlob& blob)
      : size_(blob.bytes.size()),
        at_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        blob_(blob) {
    std::memcpy(at_, blob.bytes.data(), size_);
    mprotect(at_, size_, PROT_READ | PROT_EXEC);
  }
  ~Mapped() { munmap(at_, size_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  LlmcPhaseFn Entry(const std::string& phase) const {
    return reinterpret_cast<LlmcPhaseFn>(static_cast<uint8_t*>(at_) + blob_.entries.at(phase));
  }

 private:
  size_t size_;
  void* at_;
  const CodeBlob& blob_;
};

std::string ErrorOf(const std::string& bitcode, const Program& program, const Target& target) {
  try {
    LinkObject(CompileObjectFrom(bitcode, program, target, 1));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(Codegen, LinkedAndJitCodeAgree) {
  const int layers = 5;
  const std::string object =
      CompileObjectFrom(Bitcode("kernels"), MakeProgram(layers, 3), TargetFromName("x86-64-v3"), 1);
  const CodeBlob blob = LinkObject(object);
  EXPECT_EQ(blob.bytes.size() % 4096, 0u);
  EXPECT_EQ(blob.entries.size(), 2u);
  EXPECT_TRUE(blob.symbols.contains("add.0"));
  EXPECT_GT(blob.symbols.at("add.0").second, 0u);
  const Mapped mapped(blob);
  const Jit jit(object);
  for (const uint32_t rows : {1u, 3u}) {
    const std::string phase = rows == 1 ? "decode" : "prefill";
    const Outcome linked = Call(mapped.Entry(phase), layers, rows);
    const Outcome jitted = Call(reinterpret_cast<LlmcPhaseFn>(jit.PhaseEntry(phase)), layers, rows);
    EXPECT_EQ(linked.status, 0u);
    EXPECT_EQ(linked.barriers, 6u);
    EXPECT_EQ(jitted.barriers, 6u);
    EXPECT_EQ(linked.logits, jitted.logits);
    for (size_t i = 0; i < rows * kWidth; ++i)
      ASSERT_EQ(linked.logits[i], static_cast<float>(i % kWidth + 3 + 2 * (1 + 2 + 3 + 4 + 5))) << i;
  }
}

TEST(Codegen, AbortLeavesAtTheNextBarrier) {
  const CodeBlob blob =
      LinkObject(CompileObjectFrom(Bitcode("kernels"), MakeProgram(4, 0), TargetFromName("x86-64-v3"), 1));
  const Mapped mapped(blob);
  const Outcome run = Call(mapped.Entry("decode"), 4, 1, 1);
  EXPECT_EQ(run.status, 1u);
  EXPECT_EQ(run.barriers, 1u);
}

TEST(Codegen, JobsDoNotReachTheBytes) {
  Program program = MakeProgram(2, 0);
  for (int64_t i = 1; i < 30; ++i) program.phases[0].calls.push_back({"iota", {8, i}, {64}, true, false});
  program.phases[0].calls.push_back({"emit", {kWidth}, {64}, true, true});
  const std::string bitcode = Bitcode("kernels");
  const std::string one = CompileObjectFrom(bitcode, program, TargetFromName("x86-64-v3"), 1);
  EXPECT_EQ(one, CompileObjectFrom(bitcode, program, TargetFromName("x86-64-v3"), 3));
  const CodeBlob blob = LinkObject(one);
  EXPECT_TRUE(blob.symbols.contains("iota.29"));
  EXPECT_EQ(blob.bytes, LinkObject(one).bytes);
}

TEST(Codegen, LayersBecomeALoop) {
  const std::string bitcode = Bitcode("kernels");
  const auto size = [&](int layers) {
    return LinkObject(CompileObjectFrom(bitcode, MakeProgram(layers, 0), TargetFromName("x86-64-v3"), 1))
        .symbols.at("llmc_decode")
        .second;
  };
  EXPECT_EQ(size(8), size(40));
}

TEST(Codegen, RefusesWhatALoaderCouldNotRun) {
  const Program program{{{"decode", {{"iota", {1, 2}, {}, true, true}}}}};
  const Target v3 = TargetFromName("x86-64-v3");
  EXPECT_NE(ErrorOf(Bitcode("broken_call"), program, v3).find("undefined function 'expf'"), std::string::npos);
  EXPECT_NE(ErrorOf(Bitcode("broken_builtin"), program, v3).find("undefined symbol: __truncsfbf2"), std::string::npos);
  EXPECT_NE(ErrorOf(Bitcode("broken_table"), program, v3), "");
  EXPECT_NE(ErrorOf("no bitcode", program, v3).find("kernels' bitcode"), std::string::npos);
  // A failed link leaves LLD usable.
  EXPECT_EQ(ErrorOf(Bitcode("kernels"), program, v3), "");
}

TEST(Codegen, RefusesBadTargetsAndCalls) {
  const std::string bitcode = Bitcode("kernels");
  const Program program{{{"decode", {{"iota", {1, 2}, {}, true, true}}}}};
  Target bad = TargetFromName("x86-64-v3");
  bad.llvm_cpu = "z80";
  EXPECT_NE(ErrorOf(bitcode, program, bad).find("knows no CPU 'z80'"), std::string::npos);
  bad.llvm_cpu = "x86-64";
  EXPECT_NE(ErrorOf(bitcode, program, bad).find("lacks +avx"), std::string::npos);
  const Target v3 = TargetFromName("x86-64-v3");
  EXPECT_NE(ErrorOf(bitcode, {{{"decode", {{"nothing", {}, {}, true, true}}}}}, v3).find("no kernel 'nothing'"),
            std::string::npos);
  EXPECT_NE(ErrorOf(bitcode, {{{"decode", {{"iota", {1}, {}, true, true}}}}}, v3).find("1 constants"),
            std::string::npos);
  EXPECT_THROW(TargetFromName("pdp11"), UsageError);
}

TEST(Codegen, DamagedObjectsAreRefused) {
  const std::string shared =
      LinkShared(CompileObjectFrom(Bitcode("kernels"), MakeProgram(1, 0), TargetFromName("x86-64-v3"), 1));
  for (const size_t keep : {size_t{0}, size_t{10}, size_t{64}, shared.size() / 2})
    EXPECT_THROW(Flatten(shared.substr(0, keep)), InternalError) << keep;
}

}  // namespace
}  // namespace llmc
