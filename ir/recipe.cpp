// The table of recipe records, and the rules that tie a const's type to its recipe.
#include "ir/recipe.h"

#include <iterator>
#include <string>

#include "ir/diag.h"
#include "ir/round_up.h"

namespace llmc {
namespace {

constexpr size_t kManyInputs = 65536;

AttrDef Required(std::string_view name, AttrType type) { return {name, type, true, std::nullopt}; }
AttrDef Optional(std::string_view name, AttrType type, AttrValue otherwise) { return {name, type, false, otherwise}; }

const RecipeDef kRows = {1,
                         1,
                         {Required("begin", AttrType::Int), Required("count", AttrType::Int),
                          Optional("every", AttrType::Int, int64_t{0}), Optional("times", AttrType::Int, int64_t{1})}};
const RecipeDef kAdd = {1, 1, {Required("value", AttrType::F32)}};
const RecipeDef kCast = {1, 1, {}};
const RecipeDef kQuantize = {1, 1, {}};
const RecipeDef kLora = {3, 3, {Required("scale", AttrType::F32)}};
const RecipeDef kRopeTable = {
    0,
    1,
    {
        Required("theta", AttrType::F32),
        {"kind", AttrType::Ident, false, std::string("none"), {"none", "linear", "llama3", "yarn"}},
        Optional("factor", AttrType::F32, 1.0F),
        Optional("original", AttrType::Int, int64_t{0}),
        Optional("low", AttrType::F32, 1.0F),
        Optional("high", AttrType::F32, 4.0F),
        Optional("beta_fast", AttrType::F32, 32.0F),
        Optional("beta_slow", AttrType::F32, 1.0F),
        Optional("attention_factor", AttrType::F32, 1.0F),
        Optional("truncate", AttrType::Bool, true),
        Optional("turning", AttrType::Int, int64_t{0}),
        Optional("growth", AttrType::F32, 0.0F),
        Optional("growth_original", AttrType::Int, int64_t{1}),
    }};
const RecipeDef kStack = {1, kManyInputs, {}};
const RecipeDef kTranspose = {1, 1, {Optional("times", AttrType::Int, int64_t{1})}};
const RecipeDef kRepeat = {1, 1, {Required("times", AttrType::Int)}};
const RecipeDef kNegExp = {1, 1, {}};
const RecipeDef kXielu = {4, 4, {}};
const RecipeDef kPack = {1, kManyInputs, {Optional("interleave", AttrType::Bool, false)}};

constexpr const RecipeDef* kDefs[] = {
#define RECIPE(name, text) &k##name,
#include "ir/recipes.def"
#undef RECIPE
};

class Checker {
 public:
  Checker(const Module& module, const Global& global) : module_(module), global_(global), recipe_(global.recipe) {}

  void Check() const {
    const RecipeDef& def = DefOf(recipe_.kind);
    const size_t n = recipe_.inputs.size();
    if (n < def.min_inputs || n > def.max_inputs) {
      FailAs(DiagKind::TypeMismatch, "takes " + std::to_string(def.min_inputs) +
                                         (def.max_inputs > def.min_inputs ? " or more" : "") + " inputs, has " +
                                         std::to_string(n));
    }
    if (std::optional<AttrFault> fault = FindAttrFault(def.attrs, recipe_.attrs)) FailAs(fault->kind, fault->message);
    switch (recipe_.kind) {
      case RecipeKind::Rows: return CheckRows();
      case RecipeKind::Add: return CheckFloats("R3");
      case RecipeKind::Cast: return CheckConversion(DTypeClass::FLOAT, "R4");
      case RecipeKind::Quantize: return CheckConversion(DTypeClass::BLOCK, "R5");
      case RecipeKind::Lora: return CheckLora();
      case RecipeKind::RopeTable: return CheckRopeTable();
      case RecipeKind::Stack: return CheckStack();
      case RecipeKind::Pack: return CheckPack();
      case RecipeKind::Transpose: return CheckTranspose();
      case RecipeKind::Repeat: return CheckRepeat();
      case RecipeKind::NegExp: return CheckFloats("R15");
      case RecipeKind::Xielu: return CheckXielu();
    }
  }

 private:
  [[noreturn]] void FailAs(DiagKind kind, const std::string& message) const {
    Fail(kind, {"", global_.line > 0 ? std::to_string(global_.line) : ""},
         "$" + ToText(global_.name) + ": " + std::string(RecipeText(recipe_.kind)) + ": " + message);
  }
  void Require(bool condition, std::string_view label, const std::string& message) const {
    if (!condition) FailAs(DiagKind::ConstraintViolated, message + " (" + std::string(label) + ")");
  }
  const Type& input(size_t i) const { return module_.globals[static_cast<size_t>(recipe_.inputs[i])].type; }
  const Type& type() const { return global_.type; }

  void CheckRows() const {
    Require(input(0).layout == Layout::Rows && !input(0).dims.empty(), "R1", "the input must be in rows layout");
    const int64_t begin = recipe_.attrs.Int("begin");
    const int64_t count = recipe_.attrs.Int("count");
    const int64_t every = std::get<int64_t>(AttrOf(recipe_, "every"));
    const int64_t times = std::get<int64_t>(AttrOf(recipe_, "times"));
    const int64_t rows = input(0).dims[0].value;
    Require(begin >= 0 && count >= 1 && count <= rows && begin <= rows - count, "R2",
            "rows " + std::to_string(begin) + " to " + std::to_string(begin) + " + " + std::to_string(count) + " of " +
                std::to_string(rows));
    Require(times >= 1 && (times == 1 || (every >= count && times - 1 <= (rows - begin - count) / every)), "R2",
            std::to_string(times) + " times " + std::to_string(count) + " rows, every " + std::to_string(every) +
                ", of " + std::to_string(rows));
    Type expected = input(0);
    expected.dims[0] = Dim(count * times);
    Require(type() == expected, "R2", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  // f32 of the input's shape, which is of floats.
  void CheckFloats(std::string_view label) const {
    Type expected = input(0);
    expected.dtype = DType::F32;
    Require(InfoOf(input(0).dtype).cls == DTypeClass::FLOAT && input(0).layout == Layout::Rows, label,
            "the input must be floats in rows layout");
    Require(type() == expected, label, "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckConversion(DTypeClass to, std::string_view label) const {
    Type expected = input(0);
    expected.dtype = type().dtype;
    Require(InfoOf(type().dtype).cls == to, label, "the result's element type is " + ToText(type()));
    Require(InfoOf(input(0).dtype).cls != DTypeClass::INT && input(0).layout == Layout::Rows, label,
            "the input must be floats or blocks in rows layout");
    Require(type() == expected, label, "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckLora() const {
    for (size_t i = 0; i < 3; ++i) {
      Require(InfoOf(input(i).dtype).cls == DTypeClass::FLOAT && input(i).layout == Layout::Rows &&
                  input(i).dims.size() == 2,
              "R11", "the inputs must be matrices of floats in rows layout");
    }
    const std::vector<Dim>&w = input(0).dims, &a = input(1).dims, &b = input(2).dims;
    Require(a[1] == w[1] && b[0] == w[0] && a[0] == b[1], "R11",
            ToText(input(0)) + " takes [r, " + ToText(w[1]) + "] and [" + ToText(w[0]) + ", r], not " +
                ToText(input(1)) + " and " + ToText(input(2)));
    Type expected = input(0);
    expected.dtype = DType::F32;
    Require(type() == expected, "R11", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckRopeTable() const {
    Require(type().dtype == DType::F32 && type().dims.size() == 2 && type().layout == Layout::Rows &&
                type().dims[1].value % 2 == 0,
            "R6", "makes f32[positions, even], not " + ToText(type()));
    Require(std::get<int64_t>(AttrOf(recipe_, "growth_original")) >= 1, "R6", "growth_original must be positive");
    if (recipe_.inputs.empty()) return;
    Type divisors;
    divisors.dims = {Dim(type().dims[1].value / 2)};
    Require(input(0) == divisors, "R10", "divisors must be " + ToText(divisors) + ", are " + ToText(input(0)));
    Require(std::get<std::string>(AttrOf(recipe_, "kind")) == "none", "R10", "divisors go with kind none");
  }

  void CheckStack() const {
    Type expected = input(0);
    int64_t rows = 0;
    for (size_t i = 0; i < recipe_.inputs.size(); ++i) {
      Require(input(i).layout == Layout::Rows && input(i).dtype == input(0).dtype && input(i).dims.size() == 2 &&
                  input(i).dims[1] == input(0).dims[1],
              "R12", "part " + ToText(input(i)) + " is no matrix in rows that goes with " + ToText(input(0)));
      rows += input(i).dims[0].value;
    }
    expected.dims[0] = Dim(rows);
    Require(type() == expected, "R12", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckTranspose() const {
    Require(
        InfoOf(input(0).dtype).cls == DTypeClass::FLOAT && input(0).layout == Layout::Rows && input(0).dims.size() == 2,
        "R13", "the input must be a matrix of floats in rows layout");
    const int64_t times = std::get<int64_t>(AttrOf(recipe_, "times"));
    const int64_t rows = input(0).dims[0].value;
    Require(times >= 1 && rows % times == 0, "R13",
            "times is " + std::to_string(times) + ", must cut the rows of " + ToText(input(0)) + " into equal parts");
    Type expected = input(0);
    expected.dims = {Dim(input(0).dims[1].value * times), Dim(rows / times)};
    Require(type() == expected, "R13", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckRepeat() const {
    const int64_t times = recipe_.attrs.Int("times");
    Type expected = input(0);
    Require(InfoOf(expected.dtype).cls == DTypeClass::FLOAT && expected.layout == Layout::Rows &&
                expected.dims.size() == 1 && times >= 1 && times <= (int64_t{1} << 30) / expected.dims[0].value,
            "R16", std::to_string(times) + " times " + ToText(expected) + ", must be a vector of floats");
    expected.dims[0] = Dim(expected.dims[0].value * times);
    Require(type() == expected, "R16", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckXielu() const {
    for (size_t i = 0; i < 4; ++i) {
      Type one;
      one.dims = {Dim(1)};
      Require(input(i) == one, "R14", "takes four " + ToText(one) + ", not " + ToText(input(i)));
    }
    Type expected;
    expected.dims = {Dim(4)};
    Require(type() == expected, "R14", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  void CheckPack() const {
    const bool interleave = std::get<bool>(AttrOf(recipe_, "interleave"));
    const size_t rank = input(0).dims.size();
    Require(rank == 1 || rank == 2, "R7", "the inputs must be matrices or vectors");
    for (size_t i = 0; i < recipe_.inputs.size(); ++i) {
      Require(input(i).layout == Layout::Rows && input(i).dtype == input(0).dtype && input(i).dims.size() == rank &&
                  (rank == 1 || input(i).dims[1] == input(0).dims[1]),
              "R7", "part " + ToText(input(i)) + " doesn't go with " + ToText(input(0)));
    }
    Require(!interleave || (recipe_.inputs.size() == 2 && rank == 2 && input(0) == input(1)), "R8",
            "interleave takes two equal matrices");
    // Each part of a matrix starts on a tile; vectors (biases) follow one another without padding.
    int64_t rows = 0;
    for (size_t i = 0; i < recipe_.inputs.size(); ++i) {
      if (rank == 2) rows = RoundUp(rows, 16);
      rows += input(i).dims[0].value;
    }
    Type expected = input(0);
    expected.dims[0] = Dim(rows);
    if (rank == 2) expected.layout = Layout::Tiles16;
    Require(rank == 2 || input(0).dtype == DType::F32, "R7", "a vector must be f32");
    Require(type() == expected, "R9", "makes " + ToText(expected) + ", not " + ToText(type()));
  }

  const Module& module_;
  const Global& global_;
  const Recipe& recipe_;
};

}  // namespace

const RecipeDef& DefOf(RecipeKind kind) { return *kDefs[static_cast<size_t>(kind)]; }

AttrValue AttrOf(const Recipe& recipe, std::string_view name) {
  if (const AttrValue* value = recipe.attrs.Find(name)) return *value;
  const AttrDef* def = FindAttr(DefOf(recipe.kind).attrs, name);
  LLMC_CHECK(def != nullptr && def->otherwise.has_value(), "no default for attribute " + std::string(name));
  return *def->otherwise;
}

void CheckRecipe(const Module& module, size_t index) { Checker(module, module.globals[index]).Check(); }

}  // namespace llmc
