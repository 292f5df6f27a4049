// Weights out of a plan's weight section.
#include "tools/workbench/plan_weights.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "ir/diag.h"
#include "ir/round_up.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace llmc {
namespace {

class PlanWeights : public WeightSource {
 public:
  explicit PlanWeights(const PlanFile& plan)
      : plan_(plan),
        section_(plan.Find(SectionKind::Weights)),
        begin_(plan.file_offset() + (section_ == nullptr ? 0 : section_->offset)) {}

  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    const int64_t row = StoredRowBytes(weight.type);
    // Packed tiles hold padding rows up to 16; rows are read by whole tiles or up to the end.
    const int64_t last = weight.type.layout == Layout::Tiles16 ? RoundUp(end, 16) : end;
    const auto size = static_cast<uint64_t>((last - begin) * row);
    const uint64_t at = static_cast<uint64_t>(*weight.offset + begin * row);
    if (section_ == nullptr || at > section_->size || size > section_->size - at)
      Fail(DiagKind::FileError, {plan_.name(), ""}, fmt::format("${} lies outside the weights", ToText(weight.name)));
    for (uint64_t done = 0; done < size;) {
      const ssize_t n = pread(plan_.fd(), out + done, size - done, static_cast<off_t>(begin_ + at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) Fail(DiagKind::FileError, {plan_.name(), ""}, n < 0 ? std::strerror(errno) : "the file ends early");
      done += static_cast<uint64_t>(n);
    }
  }

 private:
  const PlanFile& plan_;
  const PlanSection* section_;
  uint64_t begin_;  // in the file, which may hold a loader in front of the plan
};

}  // namespace

Module ModuleOf(const PlanFile& plan) {
  Module module = Parse(plan.Read(SectionKind::FinalIr), plan.name());
  Verify(module, plan.name());
  for (Global& global : module.globals) {
    if (global.kind == GlobalKind::State || !global.offset) continue;
    global.kind = GlobalKind::Weight;
    global.recipe = {};
  }
  return module;
}

std::unique_ptr<WeightSource> WeightsOf(const PlanFile& plan) { return std::make_unique<PlanWeights>(plan); }

}  // namespace llmc
