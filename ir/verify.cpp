// The verifier. Structure first, so that inference and the later checks may rely on it.
#include "ir/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/diag.h"
#include "ir/op.h"
#include "ir/recipe.h"
#include "ir/verify_schedule.h"

namespace llmc {
namespace {

constexpr size_t kMaxRank = 4;
constexpr int64_t kMaxDim = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxElements = int64_t{1} << 48;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWord(char c) { return IsLetter(c) || (c >= '0' && c <= '9'); }

// What the parser reads back as the same identifier: words joined by '-' or '.', and no other value's spelling.
bool IsIdent(std::string_view text) {
  if (text.empty() || !IsLetter(text[0]) || !IsWord(text.back())) return false;
  for (size_t i = 1; i < text.size(); ++i) {
    const bool joint = (text[i] == '-' || text[i] == '.') && IsWord(text[i - 1]);
    if (!IsWord(text[i]) && !joint) return false;
  }
  return text != "true" && text != "false" && text != "inf" && text != "nan";
}

std::string LineOf(int line) { return line > 0 ? std::to_string(line) : ""; }

class Verifier {
 public:
  explicit Verifier(const Module& module) : module_(module) {}

  void Check() const {
    Require(IsIdent(module_.name), 0, "the module's name '" + module_.name + "' is no identifier");
    CheckAttrTexts(module_.options, 0);
    CheckDims();
    CheckGlobals();
    std::set<std::string> names;
    for (const Func& func : module_.funcs) {
      Require(IsIdent(func.name), 0, "'" + func.name + "' is no identifier");
      if (!names.insert(func.name).second) {
        Fail(DiagKind::DuplicateName, {"", ""}, "@" + func.name + " is defined twice");
      }
      CheckFunc(func);
      CheckStates(func);
      VerifySchedule(module_, func);
    }
    VerifyGlobalOffsets(module_);
  }

 private:
  static void Require(bool condition, int line, const std::string& message) {
    if (!condition) Fail(DiagKind::InvalidModule, {"", LineOf(line)}, message);
  }

  static void CheckAttrTexts(const Attrs& attrs, int line) {
    for (const auto& [name, value] : attrs.all()) {
      Require(std::all_of(name.begin(), name.end(), IsWord) && IsIdent(name), line, "'" + name + "' is no identifier");
      const std::string* ident = std::get_if<std::string>(&value);
      Require(ident == nullptr || IsIdent(*ident), line, "attribute '" + name + "' is no identifier");
      const std::vector<Dim>* list = std::get_if<std::vector<Dim>>(&value);
      if (list == nullptr) continue;
      for (const Dim& dim : *list) {
        Require(!dim.is_symbol() || IsIdent(dim.symbol), line,
                "attribute '" + name + "' has no identifier in its list");
      }
    }
  }

  const DimRange* FindDim(std::string_view symbol) const {
    for (const DimRange& dim : module_.dims) {
      if (dim.symbol == symbol) return &dim;
    }
    return nullptr;
  }

  void CheckDims() const {
    for (size_t i = 0; i < module_.dims.size(); ++i) {
      const DimRange& dim = module_.dims[i];
      Require(std::all_of(dim.symbol.begin(), dim.symbol.end(), IsWord) && !dim.symbol.empty() &&
                  dim.symbol[0] >= 'A' && dim.symbol[0] <= 'Z',
              0, "dim '" + dim.symbol + "' is no identifier with a capital");
      Require(dim.min >= 1 && dim.min <= dim.max && dim.max <= kMaxDim, 0,
              "dim " + dim.symbol + " has the range " + std::to_string(dim.min) + ".." + std::to_string(dim.max));
      Require(FindDim(dim.symbol) == &dim, 0, "dim " + dim.symbol + " is declared twice");
    }
  }

  static void CheckName(const Name& name, int line) {
    const std::optional<Name> read = NameFromText(ToText(name));
    Require(read && *read == name, line, "'" + ToText(name) + "' is not a name");
  }

  // Limits that keep sizes in 64 bits, and what a layout needs.
  void CheckType(const Type& type, bool may_have_symbols, int line, const std::string& what) const {
    const std::string text = what + " is " + ToText(type);
    Require(type.dims.size() <= kMaxRank, line, text + ": more than 4 dims");
    int64_t elements = 1;
    for (const Dim& dim : type.dims) {
      int64_t size = dim.value;
      if (dim.is_symbol()) {
        const DimRange* range = FindDim(dim.symbol);
        Require(range != nullptr, line, text + ": no dim is called " + dim.symbol);
        Require(may_have_symbols, line, text + ": its dims must be numbers");
        size = range->max;
      }
      Require(size >= 1 && size <= kMaxDim && size <= kMaxElements / elements, line, text + ": too large or empty");
      elements *= size;
    }
    const DTypeInfo& info = InfoOf(type.dtype);
    if (info.block > 1) {
      Require(!type.dims.empty() && !type.dims.back().is_symbol() && type.dims.back().value % info.block == 0, line,
              text + ": the innermost dim must be whole blocks of " + std::to_string(info.block));
    }
    const bool matrix = type.layout == Layout::Tiles16;
    const bool cache = type.layout == Layout::Keys16 || type.layout == Layout::Heads;
    Require(!matrix || (type.dims.size() == 2 && info.cls != DTypeClass::INT && info.cls != DTypeClass::ACT), line,
            text + ": tiles16 is for matrices of floats or blocks");
    Require(!cache || (type.dims.size() == 3 && (info.cls == DTypeClass::FLOAT || type.dtype == DType::Q8_0)), line,
            text + ": keys16 and heads are for caches [slots, heads, d] of floats or q8_0");
  }

  void CheckGlobals() const {
    std::set<Name> names;
    for (size_t i = 0; i < module_.globals.size(); ++i) {
      const Global& global = module_.globals[i];
      const std::string name = "$" + ToText(global.name);
      CheckName(global.name, global.line);
      if (!names.insert(global.name).second) {
        Fail(DiagKind::DuplicateName, {"", LineOf(global.line)}, name + " is declared twice");
      }
      CheckType(global.type, false, global.line, name);
      const bool is_state = global.kind == GlobalKind::State;
      Require(global.type.state == (is_state ? static_cast<int>(i) : -1), global.line,
              name + ": its type names another state");
      Require(!global.offset || *global.offset >= 0, global.line, name + ": its offset is negative");
      switch (global.kind) {
        case GlobalKind::Weight:
          Require(global.type.layout == Layout::Rows, global.line, name + ": a weight is in rows layout");
          Require(global.type.dtype != DType::A8, global.line, name + ": a weight can't be a8");
          break;
        case GlobalKind::Const:
          CheckAttrTexts(global.recipe.attrs, global.line);
          for (const int input : global.recipe.inputs) {
            Require(input >= 0 && static_cast<size_t>(input) < i, global.line,
                    name + ": an input of the recipe is not declared before it");
            Require(module_.globals[static_cast<size_t>(input)].kind != GlobalKind::State, global.line,
                    name + ": a recipe can't read a state");
          }
          CheckRecipe(module_, i);
          break;
        case GlobalKind::State: CheckState(global, name); break;
      }
    }
  }

  static void CheckState(const Global& global, const std::string& name) {
    CheckAttrTexts(global.attrs, global.line);
    static const std::vector<AttrDef> kKind = [] {
      AttrDef def{"kind", AttrType::Ident, true, std::nullopt, {}};
      for (const StateKindInfo& info : kStateKinds) def.choices.push_back(info.text);
      return std::vector<AttrDef>{def};
    }();
    Attrs kind;
    if (const AttrValue* value = global.attrs.Find("kind")) kind.Set("kind", *value);
    if (const std::optional<AttrFault> fault = FindAttrFault(kKind, kind)) {
      Fail(fault->kind, {"", LineOf(global.line)}, name + ": " + fault->message);
    }
    const StateKindInfo& info = KindOf(global);
    Require(info.rank == 0 || global.type.dims.size() == info.rank, global.line,
            name + ": a " + std::string(info.text) + " state has " + std::to_string(info.rank) + " dims");
    const bool blocks = info.holds == StateHolds::POSITIONS && global.type.dtype == DType::Q8_0;
    Require((blocks || InfoOf(global.type.dtype).cls == DTypeClass::FLOAT) && global.type.layout != Layout::Tiles16,
            global.line, name + ": a state is of floats, a cache of floats or q8_0, and not in tiles16");
    if (info.holds == StateHolds::PAST) {
      Require(global.type.dtype == DType::F32, global.line,
              name + ": a " + std::string(info.text) + " state is of f32");
      Require(global.attrs.all().size() == 1, global.line,
              name + ": a " + std::string(info.text) + " state has the attribute kind alone");
      Require(global.type.layout == Layout::Rows, global.line,
              name + ": a " + std::string(info.text) + " state is in rows layout");
      return;
    }
    const AttrValue* window = global.attrs.Find("window");
    const std::string* none = window == nullptr ? nullptr : std::get_if<std::string>(window);
    const int64_t* tokens = window == nullptr ? nullptr : std::get_if<int64_t>(window);
    if (!(none != nullptr && *none == "none") && !(tokens != nullptr && *tokens >= 1)) {
      Fail(DiagKind::BadAttribute, {"", LineOf(global.line)}, name + ": window must be none or at least 1");
    }
    Require(global.attrs.all().size() == 2, global.line,
            name + ": a " + std::string(info.text) + " state has the attributes kind and window");
  }

  void CheckFunc(const Func& func) const {
    const std::string at = "@" + func.name;
    CheckFuncDims(func, at);
    CheckSignature(func, at);
    std::vector<bool> defined(func.values.size(), false);
    std::set<Name> names;
    const auto define = [&](ValueId id, int line) {
      Require(id >= 0 && static_cast<size_t>(id) < func.values.size(), line, at + ": a value's number is out of range");
      const Value& value = func.values[static_cast<size_t>(id)];
      CheckName(value.name, line);
      Require(!defined[static_cast<size_t>(id)], line, at + ": %" + ToText(value.name) + " is defined twice");
      if (!names.insert(value.name).second) {
        Fail(DiagKind::DuplicateName, {"", LineOf(line)}, at + ": two values are called %" + ToText(value.name));
      }
      if (value.type.state < 0) {
        CheckType(value.type, true, line, "%" + ToText(value.name));
        Require(value.type.layout == Layout::Rows, line, "%" + ToText(value.name) + ": a value is in rows layout");
      }
      defined[static_cast<size_t>(id)] = true;
    };
    const auto check_read = [&](const Operand& operand, int line) {
      const size_t index = static_cast<size_t>(operand.index);
      const size_t size = operand.is_global ? module_.globals.size() : func.values.size();
      Require(operand.index >= 0 && index < size, line, at + ": an operand's number is out of range");
      Require(operand.is_global || defined[index], line, at + ": a value is read before it is defined");
    };
    for (const ValueId param : func.params) define(param, 0);
    for (const Op& op : func.ops) {
      for (const Operand& operand : op.operands) check_read(operand, op.line);
      CheckAttrTexts(op.attrs, op.line);
      const std::vector<Type> types = Infer(module_, func, op);
      if (types.size() != op.results.size()) {
        Fail(DiagKind::TypeMismatch, {"", LineOf(op.line)},
             std::string(OpText(op.kind)) + ": makes " + std::to_string(types.size()) + " results, has " +
                 std::to_string(op.results.size()));
      }
      for (size_t i = 0; i < types.size(); ++i) {
        define(op.results[i], op.line);
        CheckResult(func, op, op.results[i], types[i]);
      }
    }
    Require(std::all_of(defined.begin(), defined.end(), [](bool is) { return is; }), 0,
            at + ": a value is made by no op");
    Require(func.returns.size() == 1 && !func.returns[0].is_global, 0, at + " must return one value");
    check_read(func.returns[0], 0);
    const Type& logits = TypeOf(module_, func, func.returns[0]);
    if (logits.dtype != DType::F32 || logits.dims.size() != 2 || logits.state >= 0 || logits.dims[1].is_symbol()) {
      Fail(DiagKind::TypeMismatch, {"", ""}, at + " returns " + ToText(logits) + ", must be f32[rows, N]");
    }
  }

  void CheckFuncDims(const Func& func, const std::string& at) const {
    std::set<std::string> symbols;
    for (const DimRange& range : func.dims) {
      const DimRange* outer = FindDim(range.symbol);
      Require(outer != nullptr, 0, at + ": no dim is called " + range.symbol);
      Require(range.min <= range.max && range.min >= outer->min && range.max <= outer->max, 0,
              at + ": " + range.symbol + " = " + std::to_string(range.min) + ".." + std::to_string(range.max) +
                  " is not within " + std::to_string(outer->min) + ".." + std::to_string(outer->max));
      Require(symbols.insert(range.symbol).second, 0, at + ": " + range.symbol + " is narrowed twice");
    }
  }

  // The type that an input has in ir/entries.def; `text`, for messages.
  static bool HasInputType(const Type& type, const EntryInputInfo& info, std::string& text) {
    const std::optional<DType> dtype = [&] {
      std::string lower;
      for (const char c : info.dtype) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      return DTypeFromText(lower);
    }();
    const std::string word(InfoOf(*dtype).text);
    const bool by_row = type.dims.size() == 1 && type.dims[0] == Dim(std::string("S"));
    const bool rows = type.dims.size() == 2 && type.dims[0] == Dim(std::string("S")) && !type.dims[1].is_symbol();
    bool good = type.dtype == *dtype && type.layout == Layout::Rows && type.state < 0;
    switch (info.per) {
      case InputPer::CALL: text = word + "[]"; return good && type.dims.empty();
      case InputPer::ROW: text = word + "[S]"; return good && by_row;
      case InputPer::EITHER: text = word + "[] or " + word + "[S]"; return good && (type.dims.empty() || by_row);
      case InputPer::ROWS: text = word + "[S, D]"; return good && rows;
    }
    return false;
  }

  // Parameters are inputs of ir/entries.def, each once and of its type. A call has rows of one sort, tokens or what
  // another function made; a chunkable one knows where they stand.
  void CheckSignature(const Func& func, const std::string& at) const {
    Require(FindDim("S") != nullptr, 0, at + ": the module must declare dim S, the rows of a call");
    std::set<std::string_view> seen;
    for (const ValueId id : func.params) {
      Require(id >= 0 && static_cast<size_t>(id) < func.values.size(), 0,
              at + ": a parameter's number is out of range");
      const Value& value = func.values[static_cast<size_t>(id)];
      const std::string name = ToText(value.name);
      const EntryInputInfo* info = FindRow(kEntryInputs, std::string_view(name));
      Require(info != nullptr, 0, at + ": %" + name + " is no input of a function (ir/entries.def)");
      Require(seen.insert(info->text).second, 0, at + ": %" + name + " is there twice");
      std::string wanted;
      const bool good = HasInputType(value.type, *info, wanted) && !value.at;
      Require(good, 0, at + ": %" + name + " is " + ToText(value.type) + ", must be " + wanted);
    }
    const bool tokens = seen.contains(EntryInputText(EntryInput::Tokens)),
               hidden = seen.contains(EntryInputText(EntryInput::Hidden));
    Require(tokens != hidden, 0, at + " must take either %tokens or %hidden");
    const bool placed =
        seen.contains(EntryInputText(EntryInput::Pos)) && seen.contains(EntryInputText(EntryInput::Total));
    Require(placed || func.kind != EntryKind::Chunkable, 0, at + " is chunkable and must take %pos and %total");
  }

  void CheckResult(const Func& func, const Op& op, ValueId id, const Type& type) const {
    const Value& value = func.values[static_cast<size_t>(id)];
    if (value.type == type) return;
    const auto text = [&](const Type& t) {
      const bool is_state = t.state >= 0 && static_cast<size_t>(t.state) < module_.globals.size();
      return is_state ? "$" + ToText(module_.globals[static_cast<size_t>(t.state)].name) : ToText(t);
    };
    Fail(DiagKind::TypeMismatch, {"", LineOf(op.line)},
         std::string(OpText(op.kind)) + ": %" + ToText(value.name) + " is " + text(value.type) + ", the op makes " +
             text(type));
  }

  void CheckStates(const Func& func) const {
    std::map<int, ValueId> appended;  // state -> its value after the append
    std::set<int> moved;
    const std::vector<int> uses = CountUses(func);
    for (const Op& op : func.ops) {
      const auto fail = [&](int state, const std::string& message) {
        Fail(DiagKind::StateMisuse, {"", LineOf(op.line)},
             "$" + ToText(module_.globals[static_cast<size_t>(state)].name) + message);
      };
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Operand& operand = op.operands[i];
        const int state = TypeOf(module_, func, operand).state;
        if (state < 0) continue;
        const bool moves = i == 0 && DefOf(op.kind).moves_state;
        if ((KindOf(module_.globals[static_cast<size_t>(state)]).holds == StateHolds::PAST) != moves)
          fail(state, moves ? " holds no past, which this op moves" : " holds the past, which this op doesn't take");
        if (moves && !moved.insert(state).second) fail(state, " is moved twice");
        const auto found = appended.find(state);
        if (found == appended.end()) continue;
        if (DefOf(op.kind).appends_state) fail(state, " is appended to twice");
        if (operand != Operand::Local(found->second)) fail(state, ": its older value is read after the append");
      }
      if (!DefOf(op.kind).appends_state) continue;
      const int state = TypeOf(module_, func, op.operands[0]).state;
      if (uses[static_cast<size_t>(op.results[0])] == 0) fail(state, ": the appended value is never read");
      appended[state] = op.results[0];
    }
  }

  const Module& module_;
};

}  // namespace

void Verify(const Module& module, const std::string& file) {
  try {
    Verifier(module).Check();
  } catch (const InputError& error) {
    // Checks below this level know lines, not files.
    Diag diag = error.diag();
    if (diag.place.file.empty()) diag.place.file = file;
    throw InputError(std::move(diag));
  }
}

}  // namespace llmc
