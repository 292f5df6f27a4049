// One kernel call, filled by the names of kernels.def.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/program.h"

namespace llmc {

// A kernel's parameters, as kernels.def lists them.
struct KernelSignature {
  std::string_view name;
  std::vector<std::string_view> words;
  std::vector<std::string_view> constants;
};

class CallBuilder {
 public:
  explicit CallBuilder(std::string_view kernel);
  void Word(std::string_view name, int64_t value);
  void Constant(std::string_view name, int64_t value);
  bool HasConstant(std::string_view name) const;
  // open: constants that differ from call to call are left to the record, where that costs nothing.
  KernelCall Finish(bool one_row, bool open);

 private:
  static size_t At(const KernelCall& call, const std::vector<std::string_view>& names, std::string_view name);
  const KernelSignature& signature_;
  KernelCall call_;
  std::vector<std::string_view> missing_;
};

}  // namespace llmc
