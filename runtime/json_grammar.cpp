// RFC 8259, without white space but that of the separators.
#include "runtime/json_grammar.h"

#include "runtime/plan_unicode.h"

namespace llmc {
namespace {

using Part = GrammarBuilder::Part;

// What a string has to escape: control characters, the quotation mark and the backslash.
std::vector<CodePointRange> Escaped() { return {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}; }

constexpr CodePointRange kDigits[] = {{'0', '9'}};
constexpr CodePointRange kHex[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};

constexpr size_t kMostNameLength = 1000;

}  // namespace

uint32_t JsonRules::Shared(const std::string& name, Part (JsonRules::*make)()) {
  const auto [at, fresh] = shared_.try_emplace(name);
  if (!fresh) return at->second;
  const uint32_t rule = at->second = b_.AddRule("JSON's " + name);
  b_.Define(rule, (this->*make)());
  return rule;
}

Part JsonRules::Sequence(std::initializer_list<Part> parts) {
  Part all = b_.Empty();
  for (const Part& part : parts) all = b_.Sequence(all, part);
  return all;
}

Part JsonRules::Character() {
  const auto set = [&](std::string_view characters) {
    std::vector<CodePointRange> ranges;
    for (const char c : characters) ranges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c)});
    return b_.Characters(ranges);
  };
  const auto hex = [&] { return b_.Characters(kHex); };
  // \uD800 to \uDBFF are halves that need \uDC00 to \uDFFF behind them.
  const Part plain_unit[] = {
      Sequence({set("0123456789abcefABCEF"), hex(), hex(), hex()}),
      Sequence({set("dD"), set("01234567"), hex(), hex()}),
      Sequence({set("dD"), set("89abAB"), hex(), hex(), Text("\\u"), set("dD"), set("cdefCDEF"), hex(), hex()})};
  const Part escapes[] = {set("\"\\/bfnrt"), b_.Sequence(Text("u"), b_.Choice(plain_unit))};
  const Part both[] = {b_.Characters(Complement(Escaped())), b_.Sequence(Text("\\"), b_.Choice(escapes))};
  return b_.Choice(both);
}

Part JsonRules::String(uint32_t least, std::optional<uint32_t> most) {
  return Sequence({Text("\""), b_.Repeat(Character(), least, most), Text("\"")});
}

Part JsonRules::Integer() {
  const CodePointRange from_one[] = {{'1', '9'}};
  const Part digits[] = {Text("0"),
                         b_.Sequence(b_.Characters(from_one), b_.Repeat(b_.Characters(kDigits), 0, std::nullopt))};
  return b_.Sequence(b_.Optional(Text("-")), b_.Choice(digits));
}

Part JsonRules::Number() {
  const auto some_digits = [&] { return b_.Repeat(b_.Characters(kDigits), 1, std::nullopt); };
  const CodePointRange e[] = {{'e', 'e'}, {'E', 'E'}}, sign[] = {{'+', '+'}, {'-', '-'}};
  return Sequence({Integer(), b_.Optional(b_.Sequence(Text("."), some_digits())),
                   b_.Optional(Sequence({b_.Characters(e), b_.Optional(b_.Characters(sign)), some_digits()}))});
}

Part JsonRules::Array() {
  const Part more = b_.Repeat(b_.Sequence(Text(", "), Any()), 0, std::nullopt);
  return Sequence({Text("["), b_.Optional(b_.Sequence(Any(), more)), Text("]")});
}

Part JsonRules::Object() {
  const auto member = [&] { return Sequence({Type("string"), Text(": "), Any()}); };
  const Part more = b_.Repeat(b_.Sequence(Text(", "), member()), 0, std::nullopt);
  return Sequence({Text("{"), b_.Optional(b_.Sequence(member(), more)), Text("}")});
}

Part JsonRules::TemplateValue() {
  std::vector<Part> parts;
  for (const char* type : {"null", "boolean", "number", "string", "array", "object"}) parts.push_back(Type(type));
  return b_.Choice(parts);
}

Part JsonRules::Any() { return b_.Call(Shared("value", &JsonRules::TemplateValue)); }

Part JsonRules::Type(std::string_view type) {
  if (type == "null") return Text("null");
  if (type == "boolean") {
    const Part both[] = {Text("true"), Text("false")};
    return b_.Choice(both);
  }
  if (type == "integer") return Integer();
  if (type == "number") return Number();
  if (type == "string") return b_.Call(Shared("string", &JsonRules::AnyString));
  if (type == "array") return b_.Call(Shared("array", &JsonRules::Array));
  return b_.Call(Shared("object", &JsonRules::Object));
}

// What may follow a part of a key that the names' tree has at `node`, to the end of the key.
Part JsonRules::KeyRest(const NameNode& node) {
  std::vector<CodePointRange> others = Escaped();
  std::vector<Part> ways;
  if (!node.ends) ways.push_back(Text("\""));
  for (const auto& [code_point, child] : node.children) {
    const CodePointRange only[] = {{code_point, code_point}};
    others.push_back(only[0]);
    ways.push_back(b_.Sequence(b_.Characters(only), KeyRest(child)));
  }
  const Part any = b_.Repeat(b_.Characters(Complement(Escaped())), 0, std::nullopt);
  ways.push_back(Sequence({b_.Characters(Complement(std::move(others))), any, Text("\"")}));
  return b_.Choice(ways);
}

Part JsonRules::KeyBut(std::span<const std::string> names) {
  if (names.empty()) return Type("string");
  NameNode root;
  for (const std::string& name : names) {
    NameNode* node = &root;
    size_t length = 0;
    for (size_t at = 0; at < name.size(); ++length) {
      const CodePoint c = DecodeUtf8(name, at);
      at += c.bytes;
      if (c.value < 0x20 || c.value == '"' || c.value == '\\') {  // never written without escapes
        node = nullptr;
        break;
      }
      node = &node->children[c.value];
    }
    if (length > kMostNameLength)
      throw PlanError("a property's name has over " + std::to_string(kMostNameLength) + " characters");
    if (node != nullptr) node->ends = true;
  }
  return b_.Sequence(Text("\""), KeyRest(root));
}

}  // namespace llmc
