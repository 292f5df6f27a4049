// The parser: a pattern as a tree of sets, sequences, choices, repeats and conditions. Case folding and negation are
// resolved here, so the tree knows nothing but sets of characters.
#include "frontend/pattern.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace llmc {
namespace {

using Kind = PatternNode::Kind;

constexpr int kMaxNesting = 100;
constexpr uint32_t kNoCharacter = UINT32_MAX;

CodeSet Named(std::string_view name) { return *FindProperty(name); }
CodeSet WordSet() { return Named("Alphabetic") | Named("M") | Named("Nd") | Named("Pc"); }
// Outside brackets Oniguruma asks its table of ISO 8859-1 about the first 256 characters, for which superscripts and
// fractions are word characters.
CodeSet BareWordSet() { return WordSet() | CodeSet(std::vector<CodeRange>{{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}); }
CodeSet Ranges(std::initializer_list<CodeRange> ranges) { return CodeSet(std::vector<CodeRange>(ranges)); }

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {
    if (!IsUtf8(pattern)) Fail("is not UTF-8");
  }

  PatternNode Run() {
    PatternNode node = Alternatives(0);
    if (!AtEnd()) Fail("has a ) without (");
    return node;
  }

 private:
  [[noreturn]] void Fail(const std::string& why) const { throw PatternError{why}; }
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  uint32_t Character() {
    const CodePoint c = DecodeUtf8(text_, at_);
    at_ += c.bytes;
    return c.value;
  }

  PatternNode Alternatives(int depth) {
    if (depth > kMaxNesting) Fail("nests deeper than 100");
    const bool outer_case = any_case_;
    PatternNode choice{.kind = Kind::Choice};
    do {
      choice.parts.push_back(Sequence(depth));
    } while (Take("|"));
    any_case_ = outer_case;
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : choice;
  }

  PatternNode Sequence(int depth) {
    PatternNode sequence{.kind = Kind::Sequence};
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (Take("(?i)")) {
        any_case_ = true;
        continue;
      }
      if (Take("(?-i)")) {
        any_case_ = false;
        continue;
      }
      PatternNode atom = Atom(depth);
      for (PatternNode repeated; Quantifier(atom, repeated);) atom = std::move(repeated);
      sequence.parts.push_back(std::move(atom));
    }
    return sequence;
  }

  PatternNode OfSet(CodeSet set) const {
    PatternNode node{.kind = Kind::Set};
    node.set = any_case_ ? CaseClosure(set) : std::move(set);
    return node;
  }
  static PatternNode Condition(CodeSet set, bool at_end) {
    PatternNode node{.kind = Kind::Condition};
    node.set = std::move(set);
    node.at_end = at_end;
    return node;
  }

  PatternNode Atom(int depth) {
    if (Peek() == '(') return Group(depth);
    if (Take("[")) return OfSet(Class(depth));
    if (Take(".")) return OfSet(~CodeSet::Of('\n'));
    if (Take("$")) return Condition(CodeSet::Of('\n'), true);
    if (Peek() == '^') Fail("has the anchor ^");
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') Fail("has a quantifier with nothing before it");
    if (Take("\\")) {
      if (Take("z")) return Condition(CodeSet(), true);
      uint32_t character = kNoCharacter;
      return OfSet(Escape(character, false));
    }
    return OfSet(CodeSet::Of(Character()));
  }

  PatternNode Group(int depth) {
    ++at_;
    const bool outer_case = any_case_;
    bool look = false, negative = false;
    if (Take("?")) {
      if (Take("=")) {
        look = true;
      } else if (Take("!")) {
        look = negative = true;
      } else if (Take("i:")) {
        any_case_ = true;
      } else if (Take("-i:")) {
        any_case_ = false;
      } else if (Peek() == '<') {
        Fail(text_.substr(at_, 2) == "<=" || text_.substr(at_, 2) == "<!" ? "has a lookbehind" : "has a named group");
      } else if (!Take(":")) {
        Fail(fmt::format("has a group (?{}", text_.substr(at_, 1)));
      }
    }
    PatternNode inside = Alternatives(depth + 1);
    if (!Take(")")) Fail("has a ( without )");
    any_case_ = outer_case;
    if (!look) return inside;
    const std::optional<PatternNode> next = OneCharacter(inside);
    if (!next) Fail("looks ahead at more than one character");
    return negative ? Condition(~next->set, !next->at_end) : Condition(next->set, next->at_end);
  }

  // A condition equal to a lookahead of node, if it looks at one character.
  static std::optional<PatternNode> OneCharacter(const PatternNode& node) {
    if (node.kind == Kind::Set) return Condition(node.set, false);
    if (node.kind == Kind::Condition) return node;
    if (node.kind == Kind::Sequence && node.parts.size() == 1) return OneCharacter(node.parts[0]);
    if (node.kind != Kind::Choice) return std::nullopt;
    PatternNode all = Condition(CodeSet(), false);
    for (const PatternNode& part : node.parts) {
      const std::optional<PatternNode> one = OneCharacter(part);
      if (!one) return std::nullopt;
      all.set = all.set | one->set;
      all.at_end = all.at_end || one->at_end;
    }
    return all;
  }

  std::optional<uint32_t> Number() {
    if (Peek() < '0' || Peek() > '9') return std::nullopt;
    uint32_t value = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      value = std::min(value * 10 + static_cast<uint32_t>(Peek() - '0'), kMostRepeats + 1);
      ++at_;
    }
    if (value > kMostRepeats) Fail("repeats more than 1,000 times");
    return value;
  }

  // {n}, {n,}, {n,m}, {,m}; anything else is the text "{...".
  bool Interval(uint32_t& min, uint32_t& max) {
    const size_t begin = at_;
    if (!Take("{")) return false;
    const std::optional<uint32_t> low = Number();
    max = kUnlimited;
    if (Take(",")) {
      const std::optional<uint32_t> high = Number();
      if (low || high) {
        min = low.value_or(0);
        max = high.value_or(kUnlimited);
        if (Take("}")) return true;
      }
    } else if (low) {
      min = max = *low;
      if (Take("}")) return true;
    }
    at_ = begin;
    return false;
  }

  bool Quantifier(const PatternNode& atom, PatternNode& out) {
    uint32_t min = 0, max = kUnlimited;
    bool interval = false;
    if (Take("*")) {
    } else if (Take("+")) {
      min = 1;
    } else if (Take("?")) {
      max = 1;
    } else if (Interval(min, max)) {
      interval = true;
      if (min > max) Fail(fmt::format("repeats {{{},{}}} times", min, max));
      if (min == max && Peek() == '?') Fail("has {n}?, which engines read differently");
    } else {
      if (Peek() == '{') Fail("has a { that begins no interval");
      return false;
    }
    if (atom.kind == Kind::Condition) Fail("repeats a lookahead");
    PatternNode repeat{.kind = Kind::Repeat};
    repeat.parts = {atom};
    repeat.min = min;
    repeat.max = max;
    repeat.lazy = Take("?");
    if (!repeat.lazy && !interval && Take("+")) {
      // Possessive: of one character that is as good as "and no more of them follows".
      const std::optional<PatternNode> one = OneCharacter(atom);
      if (!one || atom.kind == Kind::Condition) Fail("repeats more than one character possessively");
      if (max == 1) {
        out = PatternNode{.kind = Kind::Choice};
        out.parts = {atom, Condition(~one->set, true)};
      } else {
        out = PatternNode{.kind = Kind::Sequence};
        out.parts = {std::move(repeat), Condition(~one->set, true)};
      }
      return true;
    }
    out = std::move(repeat);
    return true;
  }

  uint32_t Hex(size_t least, size_t most) {
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < most; ++digits, ++at_) {
      const char c = Peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (digits < least || value > kMaxCodePoint) Fail("has a bad hexadecimal escape");
    return value;
  }

  CodeSet Property() {
    if (!Take("{")) Fail("has \\p without {");
    const size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) Fail("has \\p{ without }");
    std::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    const bool negative = name.starts_with('^');
    if (negative) name.remove_prefix(1);
    const CodeSet* set = FindProperty(name);
    if (set == nullptr || name.find('=') != std::string_view::npos)
      Fail(fmt::format("has the property \\p{{{}}}, which isn't known", name));
    return negative ? ~*set : *set;
  }

  // Behind a backslash. `character` is the one character meant, if it is one.
  CodeSet Escape(uint32_t& character, bool in_brackets) {
    if (AtEnd()) Fail("ends in a backslash");
    const uint32_t c = Character();
    switch (c) {
      case 'd': return Named("Nd");
      case 'D': return ~Named("Nd");
      case 'w': return in_brackets ? WordSet() : BareWordSet();
      case 'W': return in_brackets ? ~WordSet() : ~BareWordSet();
      case 's': return Named("White_Space");
      case 'S': return ~Named("White_Space");
      case 'h': return Ranges({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
      case 'H': return ~Ranges({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
      case 'p': return Property();
      case 'P': return ~Property();
      case 't': character = '\t'; break;
      case 'n': character = '\n'; break;
      case 'r': character = '\r'; break;
      case 'f': character = '\f'; break;
      case 'v': character = '\v'; break;
      case 'a': character = '\a'; break;
      case 'e': character = 0x1B; break;
      case 'u': character = Hex(4, 4); break;
      case 'x':
        if (Take("{")) {
          character = Hex(1, 8);
          if (!Take("}")) Fail("has \\x{ without }");
        } else {
          character = Hex(1, 2);
          if (character > 0x7F) Fail("has a \\x of more than 7F, which is a byte and no character");
        }
        break;
      default:
        if (c < 0x80 && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
          Fail(fmt::format("has \\{}", static_cast<char>(c)));
        character = c;
    }
    return CodeSet::Of(character);
  }

  CodeSet PosixBracket() {
    const bool negative = Take("^");
    const std::array<std::pair<std::string_view, CodeSet>, 6> known = {{{"alpha", Named("Alphabetic")},
                                                                        {"digit", Named("Nd")},
                                                                        {"alnum", Named("Alphabetic") | Named("Nd")},
                                                                        {"space", Named("White_Space")},
                                                                        {"cntrl", Named("Cc")},
                                                                        {"word", WordSet()}}};
    for (const auto& [name, set] : known) {
      if (Take(std::string(name) + ":]")) return negative ? ~set : set;
    }
    Fail(fmt::format("has the bracket [:{}", text_.substr(at_, 6)));
  }

  // Behind [, up to and with ].
  CodeSet Class(int depth) {
    if (depth > kMaxNesting) Fail("nests deeper than 100");
    const bool negative = Take("^");
    std::optional<CodeSet> left;  // of &&
    CodeSet set;
    for (bool first = true;; first = false) {
      if (AtEnd()) Fail("has a [ without ]");
      if (!first && Take("]")) break;
      if (first && Peek() == ']') Fail("has an empty class or one that begins with ]");
      if (Take("&&")) {
        left = left ? *left & set : set;
        set = CodeSet();
        continue;
      }
      uint32_t character = kNoCharacter;
      CodeSet item = ClassItem(depth, character);
      if (character != kNoCharacter && Peek() == '-' && text_.substr(at_, 2) != "-]") {
        ++at_;
        uint32_t last = kNoCharacter;
        ClassItem(depth, last);
        if (last == kNoCharacter || last < character) Fail("has a range whose ends aren't two ascending characters");
        item = Ranges({{character, last}});
      }
      set = set | item;
    }
    if (left) set = *left & set;
    if (any_case_) set = CaseClosure(set);
    return negative ? ~set : set;
  }

  CodeSet ClassItem(int depth, uint32_t& character) {
    if (AtEnd()) Fail("has a [ without ]");
    if (Take("[:")) return PosixBracket();
    if (Take("[")) return Class(depth + 1);
    if (Take("\\")) return Escape(character, true);
    character = Character();
    return CodeSet::Of(character);
  }

  std::string_view text_;
  size_t at_ = 0;
  bool any_case_ = false;
};

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}
constexpr std::array<uint32_t, 256> MakeAlphabet() {
  std::array<uint32_t, 256> alphabet{};
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) alphabet[byte] = StandsForItself(byte) ? byte : next++;
  return alphabet;
}
constexpr std::array<uint32_t, 256> kAlphabet = MakeAlphabet();
constexpr uint32_t kAlphabetEnd = 0x100 + 68;
constexpr std::array<int16_t, kAlphabetEnd> MakeBytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (int16_t& b : bytes) b = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr std::array<int16_t, kAlphabetEnd> kBytes = MakeBytes();

}  // namespace

PatternNode ParsePattern(std::string_view pattern) { return Parser(pattern).Run(); }

PatternNode SetPattern(const CodeSet& set) {
  PatternNode node{.kind = Kind::Set};
  node.set = set;
  return node;
}

PatternNode TextPattern(std::string_view text) {
  PatternNode node{.kind = Kind::Sequence};
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    node.parts.push_back(SetPattern(CodeSet::Of(c.value)));
    at += c.bytes;
  }
  return node;
}

uint32_t LetterOfByte(uint8_t byte) { return kAlphabet[byte]; }
int ByteOfLetter(uint32_t code_point) { return code_point < kAlphabetEnd ? kBytes[code_point] : -1; }

}  // namespace llmc
