// Checks constants by their names in kernels.def, which mean the same in every kernel: ranges first, then what single
// kernels need so that no division is by zero and no block is cut.
#include "runtime/onednn/kernel_check.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "backends/kernels/thens.h"
#include "runtime/plan_error.h"
#include "runtime/plan_words.h"

namespace llmc::onednn {
namespace {

static_assert(static_cast<int64_t>(PlanSpace::Weights) == kernels::kWeights &&
              static_cast<int64_t>(PlanSpace::Shared) == kernels::kShared &&
              static_cast<int64_t>(PlanSpace::Private) == kernels::kPrivate &&
              static_cast<int64_t>(PlanSpace::States) == kernels::kStates &&
              static_cast<int64_t>(PlanSpace::Logits) == kernels::kLogits &&
              static_cast<int64_t>(PlanSpace::Tokens) == kernels::kTokens &&
              static_cast<int64_t>(PlanSpace::Types) == kernels::kTypes &&
              static_cast<int64_t>(PlanSpace::Hidden) == kernels::kHidden && kLastPlanSpace == kernels::kLastSpace);

using Values = std::map<std::string_view, int64_t>;

using kernels::kMostThen, kernels::kQueries;
constexpr int64_t kMost = int64_t{1} << 31;
struct Bounds {
  const char* name;
  int64_t low, high;
};
constexpr Bounds kBounds[] = {
#define CONSTANT(name, low, high) {#name, low, high},
#include "backends/kernels/constants.def"
#undef CONSTANT
};

using kernels::IsBlock;
using kernels::IsFloat;

// Divisions by their names in kernels.def.
struct Division {
  std::string_view name;
  int64_t over;
};
constexpr Division kDivisions[] = {{"rows", kernels::kRows},
                                   {"tiles", kernels::kTiles},
                                   {"heads", kernels::kHeads},
                                   {"keys", kernels::kKeys},
                                   {"queries", kernels::kQueries}};

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

class Checker {
 public:
  Checker(const NativeKernel& kernel, const Values& values, const std::string& where)
      : name_(kernel.name), divisions_(Words(kernel.divisions)), values_(values), where_(where) {}

  void Check() const {
    for (const auto& [name, value] : values_) CheckRange(name, value);
    CheckDivision(Value("over"));
    if (Has("claimed") && Value("claimed") != 0)
      Fail("claimed, in a list of steps");  // nobody says between which barriers
    if (Has("k_split") && (Value("k") / Unit()) % Value("k_split") != 0)
      Fail("k " + Text("k") + " isn't k_split " + Text("k_split") + " whole parts");
    if (Has("k") && Value("k") % Unit() != 0) Fail("k " + Text("k") + " isn't a multiple of " + std::to_string(Unit()));
    if (Has("n1") && Value("interleave") == 1 && (Value("n1") != Value("n0") || Value("n2") != 0))
      Fail("interleaved, of " + Text("n0") + ", " + Text("n1") + " and " + Text("n2") + " columns");
    if (Has("kv_heads") && Value("q_heads") % Value("kv_heads") != 0)
      Fail(Text("q_heads") + " q heads aren't a multiple of " + Text("kv_heads") + " kv heads");
    if (Has("v_row") && Value("v_dim") > Value("v_row"))
      Fail("v_dim " + Text("v_dim") + " is above v_row " + Text("v_row"));
    if (Has("x_dim") && Value("x_dim") >= Value("dim"))
      Fail("x_dim " + Text("x_dim") + " isn't below dim " + Text("dim"));
    if (Has("tail_heads") && Value("tail_heads") != 1 && Value("tail_heads") != Value("heads"))
      Fail("tail_heads " + Text("tail_heads") + " is neither 1 nor heads " + Text("heads"));
    if (Has("heads") && Has("n0") && Value("n0") % 16 != 0) Fail("n0 " + Text("n0") + " isn't a multiple of 16");
    if (Has("rotary") && (Value("rotary") > Value("dim") || Value("rotary") % 2 != 0))
      Fail("rotary " + Text("rotary") + " isn't an even number up to dim " + Text("dim"));
    if (Has("then0") && Has("pair")) CheckResults();
    for (const char* type : {"state_type", "k_type"}) {  // q8_0: rows of whole blocks
      if (!Has(type) || Value(type) != kernels::kQ8_0) continue;
      for (const char* width : {"dim", "v_row", "v_dim"})
        if (Has(width) && Value(width) % 32 != 0)
          Fail(std::string(width) + " " + Text(width) + " isn't a multiple of 32, in a cache of q8_0");
    }
    if (Has("each") && Value("pair") == 1 && Value("interleave") == 0) Fail("a pair that isn't interleaved");
    if (Has("each") && Value("n0") % 16 != 0) Fail("n0 " + Text("n0") + " isn't a multiple of 16");
    if (Has("keep")) CheckGroups();
    const bool quantizes = Has("out_type") && Value("out_type") == kernels::kA8;
    const char* columns = Has("v_dim") ? "v_dim" : Has("dim") ? "dim" : "n0";
    if (quantizes && Value(columns) % 32 != 0)
      Fail(std::string(columns) + " " + Text(columns) + " isn't a multiple of 32");
    if (quantizes && Has("record") && Value("record") % 32 != 0)
      Fail("record " + Text("record") + " isn't a multiple of 32");
    if (quantizes && Has("v_dim") && Value("record") != Value("v_dim") &&
        Value("record") != Value("q_heads") * Value("v_dim"))
      Fail("record " + Text("record") + " is neither a head nor all of them");
    if (quantizes && Value("over") == kernels::kTiles && Value("grain") % 2 != 0)
      Fail("grain " + Text("grain") + " cuts blocks of two tiles");
  }

 private:
  // A gate, steps and a8 are for one result.
  void CheckResults() const {
    if (Value("pair") == 1 && Value("interleave") == 0) Fail("a pair that isn't interleaved");
    const bool goes_on = Value("then0") != kernels::kThenNothing || Value("out_type") == kernels::kA8;
    if (goes_on && Value("pair") == 0 && Value("n1") != 0) Fail("steps behind more than one result");
  }
  void CheckGroups() const {
    const int64_t least = Value("groups") == 1 ? 1 : 1 + Value("by");
    const bool whole = Value("columns") % Value("groups") == 0 && Value("columns") / Value("groups") >= least;
    if (!whole || Value("keep") > Value("groups") || Value("used") > Value("columns") / Value("groups") * Value("keep"))
      Fail(Text("used") + " of " + Text("columns") + " experts in " + Text("groups") + " groups, of which " +
           Text("keep") + " are kept");
  }
  void CheckThen(std::string_view name, int64_t value) const {
    const int64_t then = value & 255, parameter = value >> 8;
    const bool known = then < kernels::kThens && (then != kernels::kThenAct || parameter < math::kActivations);
    if (!known) Fail(std::string(name) + " " + std::to_string(value) + " isn't a step that the kernel knows");
  }
  bool Has(std::string_view name) const { return values_.count(name) != 0; }
  int64_t Value(std::string_view name) const { return values_.at(name); }
  std::string Text(std::string_view name) const { return std::to_string(Value(name)); }
  // K of a step of a tile.
  int64_t Unit() const {
    return EndsWith(name_, "_a8") || (Has("weight_type") && IsBlock(Value("weight_type"))) ? 32 : 1;
  }

  void CheckRange(std::string_view name, int64_t value) const {
    if (EndsWith(name, "_space")) {
      Between(name, value, kernels::kWeights, kernels::kLastSpace);
      const bool written = name.substr(0, 3) == "out" || name.substr(0, 3) == "sum";
      const bool writable = value == kernels::kShared || value == kernels::kPrivate || value == kernels::kLogits;
      if (written && !writable) Fail(std::string(name) + " " + std::to_string(value) + " can't be written");
      return;
    }
    if (EndsWith(name, "type")) {
      if (!TypeIsKnown(name, value))
        Fail(std::string(name) + " " + std::to_string(value) + (PlanTypeName(AsType(value)).empty() ? "" : " (") +
             std::string(PlanTypeName(AsType(value))) + (PlanTypeName(AsType(value)).empty() ? "" : ")") +
             " isn't one that the kernel knows");
      return;
    }
    if (EndsWith(name, "layout")) {
      const bool known = name == "table_layout" ? value == kernels::kLayoutRows || value == kernels::kTiles16
                                                : value == kernels::kLayoutRows || value == kernels::kLayoutHeads ||
                                                      (value == kernels::kKeys16 && name != "v_layout");
      if (!known) Fail(std::string(name) + " " + std::to_string(value) + " isn't one that the kernel knows");
      return;
    }
    for (const Bounds& b : kBounds) {
      if (name != b.name) continue;
      Between(name, value, b.low, b.high);
      return name.substr(0, 4) == "then" ? CheckThen(name, value) : void();
    }
    Fail("nothing is known of its constant " + std::string(name));
  }
  static uint32_t AsType(int64_t value) { return value < 0 || value > 255 ? 255 : static_cast<uint32_t>(value); }
  bool TypeIsKnown(std::string_view name, int64_t value) const {
    if (name == "out_type") return value == kernels::kF32 || value == kernels::kA8;
    if (EndsWith(name_, "_a8")) return IsBlock(value);
    if (name == "weight_type" || name == "table_type") return IsFloat(value) || IsBlock(value);
    return value == kernels::kF32 || value == kernels::kF16 || value == kernels::kQ8_0;  // of a cache
  }
  void CheckDivision(int64_t over) const {
    bool known = over == kernels::kAll || over == kernels::kOne;
    for (const Division& d : kDivisions)
      known = known || (over == d.over && std::find(divisions_.begin(), divisions_.end(), d.name) != divisions_.end());
    if (!known) Fail("over " + std::to_string(over) + " isn't a division that the kernel knows");
  }
  void Between(std::string_view name, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high)
      Fail(std::string(name) + " " + std::to_string(value) + " isn't in " + std::to_string(low) + ".." +
           std::to_string(high));
  }
  [[noreturn]] void Fail(const std::string& rule) const {
    throw PlanError(where_ + ": kernel " + std::string(name_) + ": " + rule);
  }

  std::string_view name_;
  std::vector<std::string_view> divisions_;
  const Values& values_;
  const std::string& where_;
};

}  // namespace

const NativeKernel& CheckKernel(const KernelStep& step, const std::string& where) {
  const NativeKernel* kernel = NativeKernels();
  while (kernel->name != nullptr && step.kernel != kernel->name) ++kernel;
  if (kernel->name == nullptr) throw PlanError(where + ": there is no kernel " + step.kernel);
  const auto count = [&](size_t have, size_t need, const char* what) {
    if (have != need)
      throw PlanError(where + ": kernel " + step.kernel + " takes " + std::to_string(need) + " " + what +
                      ", the step has " + std::to_string(have));
  };
  const std::vector<std::string_view> names = Words(kernel->constants);
  count(step.constants.size(), names.size(), "constants");
  count(step.words.size(), Words(kernel->record).size(), "words");
  Values values;
  for (size_t i = 0; i < names.size(); ++i) values[names[i]] = step.constants[i];
  Checker(*kernel, values, where).Check();
  return *kernel;
}

}  // namespace llmc::onednn
