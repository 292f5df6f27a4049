// The kernels' signatures, from kernels.def, and how a call is filled by them.
#include "backends/call_builder.h"

#include <algorithm>

#include "ir/diag.h"
#include "runtime/plan_words.h"

namespace llmc {
namespace {

const KernelSignature& SignatureOf(std::string_view kernel) {
  static const std::vector<KernelSignature> all = {
#define KERNEL_DEF(name, words, constants) {#name, Words(words), Words(constants)},
#include "backends/kernels/kernels.def"
#undef KERNEL_DEF
  };
  for (const KernelSignature& signature : all) {
    if (signature.name == kernel) return signature;
  }
  LLMC_CHECK(false, "lower: no kernel is called " + std::string(kernel));
  return all.front();
}

}  // namespace

CallBuilder::CallBuilder(std::string_view kernel) : signature_(SignatureOf(kernel)) {
  call_.kernel = kernel;
  call_.record.resize(signature_.words.size());
  call_.constants.resize(signature_.constants.size());
  missing_ = signature_.constants;
}

void CallBuilder::Word(std::string_view name, int64_t value) {
  call_.record[At(call_, signature_.words, name)] = static_cast<uint64_t>(value);
}

void CallBuilder::Constant(std::string_view name, int64_t value) {
  call_.constants[At(call_, signature_.constants, name)] = value;
  std::erase(missing_, name);
}

bool CallBuilder::HasConstant(std::string_view name) const {
  return std::find(signature_.constants.begin(), signature_.constants.end(), name) != signature_.constants.end();
}

KernelCall CallBuilder::Finish(bool one_row, bool open) {
  LLMC_CHECK(missing_.empty(), call_.kernel + ": constant " + std::string(missing_[0]) + " is not set");
  call_.one_row = one_row;
  // Phases differ in where values live and how threads divide them, matrices in their columns, attention in its last
  // layer in whether it quantises. Over many rows reading that costs nothing, and one function serves them all: half
  // the code of a model.
  for (size_t i = 0; open && !one_row && i < call_.constants.size(); ++i) {
    const std::string_view name = signature_.constants[i];
    const bool differs = name.ends_with("_space") || name == "over" || name == "grain" || name == "n0" ||
                         name == "n1" || name == "n2" || (name == "out_type" && call_.kernel == "attention");
    if (!differs) continue;
    call_.record.push_back(static_cast<uint64_t>(*call_.constants[i]));
    call_.constants[i].reset();
  }
  return std::move(call_);
}

size_t CallBuilder::At(const KernelCall& call, const std::vector<std::string_view>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  LLMC_CHECK(found != names.end(), call.kernel + " has no parameter " + std::string(name));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace llmc
