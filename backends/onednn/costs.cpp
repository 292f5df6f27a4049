// Rates of matrix products, measured, and what they make of a phase.
#include "backends/onednn/costs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/onednn/product.h"
#include "ir/diag.h"
#include "ir/op.h"

namespace llmc {
namespace {

// Gop/s of one core, two operations a multiply-add. llvm: code for x86-64-v3, and for x86-64-v4-vnni. onednn: on a CPU
// with AVX2 alone, and on one with `feature`. Measured on an AMD EPYC (Zen 4) with oneDNN 2.6.3: kernel_bench;
// onednn_bench, under ONEDNN_MAX_CPU_ISA=AVX2 and without; x86-64-v4-vnni by its ratio to x86-64-v3 on an Intel Xeon
// (Emerald Rapids). One row is what a core streams and unpacks.
struct Rates {
  DnnlCompute compute;
  DType weights;  // of Blocks; the others take any type
  double llvm, llvm_v4_vnni, onednn_avx2, onednn_most;
  double llvm_row, onednn_row;
  const char* feature;
};
constexpr Rates kRates[] = {
    {DnnlCompute::F32, DType::F32, 110, 210, 108, 112, 18, 8.4, "avx512f"},
    {DnnlCompute::Bf16, DType::BF16, 110, 200, 109, 205, 29, 9.0, "avx512_bf16"},
    {DnnlCompute::Blocks, DType::Q4_0, 258, 590, 88, 170, 115, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q4_1, 251, 570, 84, 163, 105, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q5_0, 240, 550, 88, 170, 78, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q5_1, 241, 530, 84, 163, 80, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q8_0, 127, 560, 88, 177, 62, 10, "avx512_vnni"},
};
constexpr uint32_t kManyRows = 64;  // fewer are priced as one row
// As fast within this share: what two measurements differ by.
constexpr double kSame = 0.03;

const Rates& RatesOf(const DnnlStep& product) {
  // Types that aren't listed are priced as q4_1: how codes are unpacked matters less than which backend does it.
  const bool listed = std::any_of(std::begin(kRates), std::end(kRates), [&](const Rates& rates) {
    return rates.compute == DnnlCompute::Blocks && static_cast<uint32_t>(rates.weights) == product.w_type;
  });
  const uint32_t w_type = listed ? product.w_type : static_cast<uint32_t>(DType::Q4_1);
  for (const Rates& rates : kRates) {
    const bool type = rates.compute != DnnlCompute::Blocks || static_cast<uint32_t>(rates.weights) == w_type;
    if (rates.compute == product.compute && type) return rates;
  }
  LLMC_CHECK(false, "no rates for a product");
  return kRates[0];
}

}  // namespace

namespace {

// What a name of a target promises of a CPU, beyond AVX2.
struct TargetCpu {
  bool native, v4_vnni;
  bool Has(const char* feature) const {
    if (native) return MissingCpuFeatures(std::vector<std::string>{feature}).empty();
    return v4_vnni && std::string_view(feature) != "avx512_bf16";
  }
};
std::vector<TargetCpu> CpusOf(const std::string& targets) {
  std::vector<TargetCpu> cpus;
  for (size_t begin = 0; begin <= targets.size();) {
    const size_t end = std::min(targets.find(',', begin), targets.size());
    const std::string name = targets.substr(begin, end - begin);
    TargetCpu cpu{name == "native", name == "x86-64-v4-vnni"};
    if (cpu.native) cpu.v4_vnni = cpu.Has("avx512_vnni");
    cpus.push_back(cpu);
    begin = end + 1;
  }
  return cpus;
}

// Milliseconds; onednn on the least CPU of the target, and on the best.
struct Times {
  double llvm = 0, least = 0, most = 0;
};
Times TimesOn(const Module& module, const Func& func, const TargetCpu& cpu) {
  Times times;
  for (const Op& op : func.ops) {
    if (!IsWholeProduct(op)) continue;
    const DnnlStep product = ProductOf(module, func, op, nullptr);
    double work = 0;
    for (const DnnlStep::Part& part : product.parts)
      work += 2e-6 * static_cast<double>(part.n) * static_cast<double>(product.k) * product.max_rows;
    const Rates& rates = RatesOf(product);
    const bool many = product.max_rows >= kManyRows;
    const double best = many ? rates.onednn_most : rates.onednn_row;
    const double sure = cpu.Has(rates.feature) ? best : many ? rates.onednn_avx2 : rates.onednn_row;
    times.llvm += work / (!many ? rates.llvm_row : cpu.v4_vnni ? rates.llvm_v4_vnni : rates.llvm);
    times.least += work / sure;
    times.most += work / (cpu.native ? sure : best);
  }
  return times;
}

}  // namespace

CostEstimate EstimateCosts(const Module& module, const Func& func, const std::string& targets) {
  CostEstimate cost;
  bool never_slower = true, faster = false;
  for (const TargetCpu& cpu : CpusOf(targets)) {
    const Times times = TimesOn(module, func, cpu);
    never_slower = never_slower && times.least <= (1 + kSame) * times.llvm;
    faster = faster || times.most < (1 - kSame) * times.llvm;
    if (!cost.reason.empty() && !cpu.v4_vnni) continue;  // the same rates again
    cost.reason +=
        fmt::format("{}llvm {:.3g} ms, onednn {:.3g} ms",
                    cost.reason.empty() ? "matrices on one core: " : "; with VNNI: ", times.llvm, times.least);
    if (times.most < (1 - kSame) * times.least)
      cost.reason += fmt::format(", or {:.3g} ms where the CPU has more", times.most);
  }
  cost.onednn = never_slower && faster;
  return cost;
}

}  // namespace llmc
