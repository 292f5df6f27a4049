// The parser: recursive descent over the grammar of ir/README.md, straight into a module. A repeat is parsed once per
// iteration, so nothing but the module itself takes memory; what repeats may expand to is bounded.
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/lexer.h"
#include "ir/op.h"
#include "ir/recipe.h"
#include "ir/schedule_text.h"
#include "ir/text.h"

namespace llmc {
namespace {

constexpr size_t kMaxStatements = 65536;
// What a text may stand for, repeats expanded, so that it takes little memory and time whatever it says.
constexpr size_t kMaxTokens = size_t{1} << 20;
constexpr size_t kMaxResults = 4096;                   // of one statement
constexpr size_t kMaxAttrs = 256;                      // of one op, recipe or module
constexpr size_t kMaxExpandedBytes = size_t{8} << 20;  // of repeats, comments and space included
constexpr size_t kMaxRank = 4;
constexpr int64_t kMaxDim = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxOffset = int64_t{1} << 56;

std::string Quote(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the text";
  constexpr size_t kShown = 40;
  return "'" + std::string(token.text.substr(0, kShown)) + (token.text.size() > kShown ? "...'" : "'");
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : lexer_(text, file) { Advance(); }

  Module Run() {
    Keyword("module");
    Punct("@");
    module_.name = ExtendedIdent("the module's name");
    if (IsPunct("{")) module_.options = ParseAttrs(nullptr, nullptr);
    while (IsKeyword("dim")) module_.dims.push_back(ParseDim());
    while (!IsKeyword("func") && token_.kind != TokenKind::End) ParseItem([&] { ParseGlobal(); });
    while (token_.kind != TokenKind::End) ParseFunc();
    return std::move(module_);
  }

 private:
  // Tokens.
  void Advance() {
    token_ = lexer_.Next();
    if (++tokens_ > kMaxTokens) {
      lexer_.FailAt(token_, DiagKind::TooLarge, "more than " + std::to_string(kMaxTokens) + " tokens");
    }
  }
  bool IsPunct(std::string_view text) const { return token_.kind == TokenKind::Punct && token_.text == text; }
  bool IsKeyword(std::string_view text) const { return token_.kind == TokenKind::Ident && token_.text == text; }
  [[noreturn]] void Expected(const std::string& what) const {
    lexer_.FailAt(token_, DiagKind::SyntaxError, "expected " + what + ", found " + Quote(token_));
  }
  void Punct(std::string_view text) {
    if (!IsPunct(text)) Expected("'" + std::string(text) + "'");
    Advance();
  }
  bool Accept(std::string_view punct) {
    if (!IsPunct(punct)) return false;
    Advance();
    return true;
  }
  void Keyword(std::string_view text) {
    if (!IsKeyword(text)) Expected("'" + std::string(text) + "'");
    Advance();
  }
  std::string Ident(const std::string& what) {
    if (token_.kind != TokenKind::Ident) Expected(what);
    std::string text(token_.text);
    Advance();
    return text;
  }
  std::string ExtendedIdent(const std::string& what) {
    if (token_.kind == TokenKind::Ident) token_ = lexer_.Extend(token_);
    return Ident(what);
  }
  int64_t Int(const std::string& what, int64_t min, int64_t max) {
    if (token_.kind != TokenKind::Int) Expected(what);
    if (token_.number < min || token_.number > max) {
      lexer_.FailAt(token_, DiagKind::SyntaxError,
                    what + " is " + std::to_string(token_.number) + ", must be " + std::to_string(min) + " to " +
                        std::to_string(max));
    }
    const int64_t value = token_.number;
    Advance();
    return value;
  }

  // Parts.
  DimRange ParseRange() {
    DimRange range;
    if (token_.kind != TokenKind::Ident || token_.text[0] < 'A' || token_.text[0] > 'Z') {
      Expected("a symbol, which starts with a capital");
    }
    range.symbol = token_.text;
    Advance();
    Punct("=");
    range.min = Int("the least value", 1, kMaxDim);
    Punct("..");
    range.max = Int("the largest value", range.min, kMaxDim);
    return range;
  }

  DimRange ParseDim() {
    Advance();
    const Token at = token_;
    DimRange range = ParseRange();
    if (HasSymbol(range.symbol))
      lexer_.FailAt(at, DiagKind::DuplicateName, "dim " + range.symbol + " is declared twice");
    return range;
  }

  bool HasSymbol(std::string_view symbol) const {
    for (const DimRange& dim : module_.dims) {
      if (dim.symbol == symbol) return true;
    }
    return false;
  }

  Type ParseType() {
    Type type;
    if (token_.kind != TokenKind::Ident) Expected("a type");
    const std::optional<DType> dtype = DTypeFromText(token_.text);
    if (!dtype) lexer_.FailAt(token_, DiagKind::UnknownName, "no element type is called " + Quote(token_));
    type.dtype = *dtype;
    Advance();
    Punct("[");
    while (!IsPunct("]")) {
      if (!type.dims.empty()) Punct(",");
      if (type.dims.size() == kMaxRank) lexer_.FailAt(token_, DiagKind::SyntaxError, "a type has at most 4 dims");
      if (token_.kind == TokenKind::Ident) {
        if (!HasSymbol(token_.text)) lexer_.FailAt(token_, DiagKind::UnknownName, "no dim is called " + Quote(token_));
        type.dims.emplace_back(std::string(token_.text));
        Advance();
      } else {
        type.dims.emplace_back(Int("a dim", 1, kMaxDim));
      }
    }
    Advance();
    if (token_.kind == TokenKind::Ident) {
      if (const std::optional<Layout> layout = LayoutFromText(token_.text)) {
        type.layout = *layout;
        Advance();
      }
    }
    return type;
  }

  float ParseF32() {
    float value = 0;
    const std::string text(token_.text);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) {
      lexer_.FailAt(token_, DiagKind::BadAttribute, Quote(token_) + " is not an f32");
    }
    return value;
  }

  AttrValue ParseAttrValue(const AttrDef* def) {
    if (Accept("[")) {
      std::vector<Dim> list;
      while (!IsPunct("]")) {
        if (!list.empty()) Punct(",");
        if (token_.kind == TokenKind::Ident) {
          list.emplace_back(ExtendedIdent("a list entry"));
        } else {
          list.emplace_back(Int("a list entry", INT64_MIN, INT64_MAX));
        }
      }
      Advance();
      return list;
    }
    AttrValue value;
    if (token_.kind == TokenKind::Int) {
      const bool as_float = def != nullptr && def->type == AttrType::F32;
      value = as_float ? AttrValue(static_cast<float>(token_.number)) : AttrValue(token_.number);
    } else if (token_.kind == TokenKind::Float || IsKeyword("inf") || IsKeyword("nan")) {
      value = ParseF32();
    } else if (IsKeyword("true") || IsKeyword("false")) {
      value = IsKeyword("true");
    } else if (token_.kind == TokenKind::Ident) {
      token_ = lexer_.Extend(token_);
      value = std::string(token_.text);
    } else {
      Expected("an attribute's value");
    }
    Advance();
    return value;
  }

  // With definitions, names and types must be theirs (presence and choices are the verifier's business); `schedule`:
  // the reserved attributes of an op.
  Attrs ParseAttrs(const std::vector<AttrDef>* defs, std::optional<Schedule>* schedule) {
    Attrs attrs;
    ScheduleAttrs reserved;
    const Token begin = token_;
    Punct("{");
    while (!IsPunct("}")) {
      if (!attrs.all().empty() || !reserved.empty()) Punct(",");
      const Token at = token_;
      if (attrs.all().size() == kMaxAttrs) {
        lexer_.FailAt(at, DiagKind::TooLarge, "more than " + std::to_string(kMaxAttrs) + " attributes");
      }
      const std::string name = Ident("an attribute's name");
      Punct("=");
      const Token value_at = token_;
      if (attrs.Find(name) != nullptr || reserved.contains(name)) {
        lexer_.FailAt(at, DiagKind::DuplicateName, "attribute '" + name + "' is given twice");
      }
      if (schedule != nullptr && IsScheduleAttr(name)) {
        reserved.emplace(name, ParseAttrValue(nullptr));
        continue;
      }
      const AttrDef* def = defs == nullptr ? nullptr : FindAttr(*defs, name);
      if (defs != nullptr && def == nullptr) {
        lexer_.FailAt(at, DiagKind::UnknownAttribute, "unknown attribute '" + name + "'");
      }
      AttrValue value = ParseAttrValue(def);
      if (def != nullptr && !HasType(value, def->type)) {
        lexer_.FailAt(value_at, DiagKind::BadAttribute,
                      "attribute '" + name + "' must be " + std::string(AttrTypeText(def->type)));
      }
      attrs.Set(name, std::move(value));
    }
    Advance();
    if (!reserved.empty()) {
      *schedule = ScheduleOf(
          reserved, [&](const std::string& message) { lexer_.FailAt(begin, DiagKind::BadAttribute, message); });
    }
    return attrs;
  }

  // Repeats.
  template <class Item>
  void ParseItem(const Item& item) {
    if (!IsKeyword("repeat")) {
      Count();
      item();
      return;
    }
    const Token at = token_;
    if (lexer_.in_repeat()) lexer_.FailAt(at, DiagKind::SyntaxError, "repeats do not nest");
    Advance();
    Keyword("i");
    Punct("=");
    const int64_t begin = Int("the first layer", 0, kMaxDim);
    Punct("..");
    const int64_t end = Int("the end of the layers", begin + 1, kMaxDim);
    int64_t by = 1;
    if (IsKeyword("by")) {
      Advance();
      by = Int("the period", 1, kMaxDim);
    }
    if (!IsPunct("{")) Expected("'{'");
    const Lexer::Mark body = lexer_.mark();
    for (int64_t i = begin; i < end; i += by) {
      lexer_.Rewind(body);
      lexer_.SetIteration(i);
      Advance();
      do {
        Count();
        if (IsKeyword("repeat")) lexer_.FailAt(token_, DiagKind::SyntaxError, "repeats do not nest");
        item();
      } while (!IsPunct("}"));
      const size_t bytes = lexer_.mark().offset - body.offset;
      if (bytes > kMaxExpandedBytes - expanded_bytes_) {
        lexer_.FailAt(at, DiagKind::TooLarge,
                      "repeats stand for more than " + std::to_string(kMaxExpandedBytes) + " bytes of text");
      }
      expanded_bytes_ += bytes;
    }
    lexer_.SetIteration(std::nullopt);
    Advance();
  }

  void Count() {
    if (++statements_ > kMaxStatements) {
      lexer_.FailAt(token_, DiagKind::TooLarge,
                    "more than " + std::to_string(kMaxStatements) + " globals and statements");
    }
  }

  // Globals.
  int FindGlobal() {
    if (token_.kind != TokenKind::Global) Expected("a global ($name)");
    const auto found = globals_.find(token_.name);
    if (found == globals_.end()) lexer_.FailAt(token_, DiagKind::UnknownName, "no global is called " + Quote(token_));
    Advance();
    return found->second;
  }

  void ParseGlobal() {
    Global global;
    if (IsKeyword("weight")) {
      global.kind = GlobalKind::Weight;
    } else if (IsKeyword("const")) {
      global.kind = GlobalKind::Const;
    } else if (IsKeyword("state")) {
      global.kind = GlobalKind::State;
    } else {
      Expected("'weight', 'const', 'state', 'repeat' or 'func'");
    }
    global.line = token_.line;
    Advance();
    if (token_.kind != TokenKind::Global) Expected("a global's name ($name)");
    global.name = token_.name;
    const int index = static_cast<int>(module_.globals.size());
    const bool is_new = globals_.emplace(token_.name, index).second;
    if (!is_new) lexer_.FailAt(token_, DiagKind::DuplicateName, Quote(token_) + " is declared twice");
    Advance();
    Punct(":");
    global.type = ParseType();
    if (Accept("@")) global.offset = Int("an offset", 0, kMaxOffset);
    if (global.kind == GlobalKind::State) {
      global.type.state = index;
      if (IsPunct("{")) global.attrs = ParseAttrs(nullptr, nullptr);
    } else if (global.kind == GlobalKind::Const) {
      Punct("=");
      ParseRecipe(global);
    }
    module_.globals.push_back(std::move(global));
  }

  void ParseRecipe(Global& global) {
    if (token_.kind != TokenKind::Ident) Expected("a recipe");
    const std::optional<RecipeKind> kind = RecipeFromText(token_.text);
    if (!kind) lexer_.FailAt(token_, DiagKind::UnknownOp, "no recipe is called " + Quote(token_));
    global.recipe.kind = *kind;
    Advance();
    if (token_.kind == TokenKind::Global) {
      do {
        const Token at = token_;
        const int input = FindGlobal();
        // Its own name is known already; a const can't be made of itself.
        if (static_cast<size_t>(input) >= module_.globals.size()) {
          lexer_.FailAt(at, DiagKind::UnknownName, Quote(at) + " is not declared before this");
        }
        global.recipe.inputs.push_back(input);
      } while (Accept(","));
    }
    if (IsPunct("{")) global.recipe.attrs = ParseAttrs(&DefOf(*kind).attrs, nullptr);
  }

  // Functions.
  void ParseFunc() {
    Func func;
    values_.clear();
    Keyword("func");
    Count();
    const Token at = token_;
    Punct("@");
    func.name = ExtendedIdent("the function's name");
    if (module_.FindFunc(func.name) != nullptr) {
      lexer_.FailAt(at, DiagKind::DuplicateName, "@" + func.name + " is defined twice");
    }
    Punct("(");
    while (!IsPunct(")")) {
      if (!func.params.empty()) Punct(",");
      if (token_.kind != TokenKind::Local) Expected("a parameter (%name)");
      const ValueId id = Define(func, token_);
      Advance();
      func.params.push_back(id);
      Punct(":");
      func.values[static_cast<size_t>(id)].type = ParseType();
    }
    Advance();
    for (; token_.kind == TokenKind::Ident && !IsKeyword("where"); Advance()) {
      const auto* output = FindRow(kEntryOutputs, std::string_view(token_.text));
      const auto* kind = FindRow(kEntryKinds, std::string_view(token_.text));
      if (output == nullptr && kind == nullptr)
        Expected("an output or kind of functions (ir/entries.def), 'where' or '{'");
      if (output != nullptr) func.output = output->value;
      if (kind != nullptr) func.kind = kind->value;
    }
    if (IsKeyword("where")) {
      do {
        Advance();
        const Token symbol = token_;
        DimRange range = ParseRange();
        if (!HasSymbol(range.symbol)) {
          lexer_.FailAt(symbol, DiagKind::UnknownName, "no dim is called '" + range.symbol + "'");
        }
        func.dims.push_back(std::move(range));
      } while (IsPunct(","));
    }
    Punct("{");
    while (!IsKeyword("return")) ParseItem([&] { ParseStatement(func); });
    Advance();
    do {
      func.returns.push_back(ParseOperand());
    } while (Accept(","));
    Punct("}");
    module_.funcs.push_back(std::move(func));
  }

  ValueId Define(Func& func, const Token& name) {
    const ValueId id = static_cast<ValueId>(func.values.size());
    const bool is_new = values_.emplace(name.name, id).second;
    if (!is_new) lexer_.FailAt(name, DiagKind::DuplicateName, Quote(name) + " is defined twice");
    func.values.push_back({name.name, {}, std::nullopt});
    return id;
  }

  Operand ParseOperand() {
    if (token_.kind == TokenKind::Global) return Operand::OfGlobal(FindGlobal());
    if (token_.kind != TokenKind::Local) Expected("an operand (%value or $global)");
    const auto found = values_.find(token_.name);
    if (found == values_.end()) {
      lexer_.FailAt(token_, DiagKind::UnknownName, "no value before this is called " + Quote(token_));
    }
    Advance();
    return Operand::Local(found->second);
  }

  void ParseStatement(Func& func) {
    Op op;
    op.line = token_.line;
    // Results are visible from the next statement on.
    std::vector<Token> results;
    do {
      if (token_.kind != TokenKind::Local) Expected("a statement, 'repeat' or 'return'");
      if (results.size() == kMaxResults) {
        lexer_.FailAt(token_, DiagKind::TooLarge, "more than " + std::to_string(kMaxResults) + " results");
      }
      results.push_back(token_);
      Advance();
    } while (Accept(","));
    Punct("=");
    if (token_.kind != TokenKind::Ident) Expected("an op");
    const std::optional<OpKind> kind = OpFromText(token_.text);
    if (!kind) lexer_.FailAt(token_, DiagKind::UnknownOp, "no op is called " + Quote(token_));
    op.kind = *kind;
    Advance();
    if (token_.kind == TokenKind::Local || token_.kind == TokenKind::Global) {
      do {
        op.operands.push_back(ParseOperand());
      } while (Accept(","));
    }
    if (IsPunct("{")) op.attrs = ParseAttrs(&DefOf(*kind).attrs, &op.schedule);
    Punct(":");
    for (size_t i = 0; i < results.size(); ++i) {
      if (i > 0) Punct(",");
      const ValueId id = Define(func, results[i]);
      op.results.push_back(id);
      ParseResult(func.values[static_cast<size_t>(id)]);
    }
    func.ops.push_back(std::move(op));
  }

  void ParseResult(Value& value) {
    if (token_.kind == TokenKind::Global) {
      const Token at = token_;
      value.type = module_.globals[static_cast<size_t>(FindGlobal())].type;
      if (value.type.state < 0) lexer_.FailAt(at, DiagKind::TypeMismatch, Quote(at) + " is not a state");
    } else {
      value.type = ParseType();
    }
    if (IsKeyword("none")) {
      value.at = Placement{Space::None, -1};
    } else if (IsKeyword("shared") || IsKeyword("private")) {
      value.at = Placement{IsKeyword("shared") ? Space::Shared : Space::Private, -1};
    } else {
      return;
    }
    const bool may_have_offset = value.at->space != Space::None;
    Advance();
    if (may_have_offset && Accept("+")) value.at->offset = Int("an offset", 0, kMaxOffset);
  }

  Lexer lexer_;
  Token token_;
  Module module_;
  std::map<Name, int> globals_;
  std::map<Name, ValueId> values_;
  size_t statements_ = 0;
  size_t expanded_bytes_ = 0;
  size_t tokens_ = 0;
};

}  // namespace

Module Parse(std::string_view text, const std::string& file) { return Parser(text, file).Run(); }

}  // namespace llmc
