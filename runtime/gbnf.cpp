// A parser by recursive descent, straight into the builder.
#include "runtime/gbnf.h"

#include <algorithm>
#include <map>

#include "runtime/plan_unicode.h"

namespace llmc {
namespace {

constexpr size_t kMostDepth = 200;
constexpr uint32_t kMostRepetitions = 65536;

class Parser {
 public:
  using Part = GrammarBuilder::Part;
  Parser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Grammar Parse() {
    for (size_t at = 0; at < text_.size(); ++at) {
      if (text_[at] == '\n') lines_.push_back(at + 1);
    }
    for (size_t at = 0; at < text_.size();) {
      const CodePoint c = DecodeUtf8(text_, at);
      if (!c.valid || c.value == 0) Fault(at, "not text in UTF-8");
      at += c.bytes;
    }
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte-order mark
    try {
      Blanks(true);
      while (at_ < text_.size()) Rule();
      const auto root = rules_.find("root");
      if (root == rules_.end()) Fault(0, "no rule is named root");
      return builder_.Build(root->second.number);
    } catch (const PlanError& error) {  // names a rule by its place, or is about the whole
      const std::string message = error.what();
      throw PlanError(message.starts_with(where_) ? message : std::string(where_) + ": " + message);
    }
  }

 private:
  struct Known {
    uint32_t number;
    bool defined = false;
  };

  [[noreturn]] void Fault(size_t at, const std::string& message) const { throw PlanError(Place(at) + message); }
  std::string Place(size_t at) const {
    const auto line = std::upper_bound(lines_.begin(), lines_.end(), at);
    const size_t column = at - *(line - 1) + 1;
    return Joined({where_, ":", std::to_string(line - lines_.begin()), ":", std::to_string(column), ": "});
  }

  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '-'; }

  // Blanks and comments; line ends too where a rule may go on.
  void Blanks(bool lines) {
    while (at_ < text_.size()) {
      const char c = Peek();
      if (c == '#') {
        while (at_ < text_.size() && Peek() != '\n' && Peek() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string Name() {
    const size_t begin = at_;
    while (IsWord(Peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Known& RuleNamed(const std::string& name, size_t at) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_.emplace(name, Known{builder_.AddRule(Place(at) + "the rule " + name)}).first->second;
  }

  void Rule() {
    const size_t begin = at_;
    if (!IsWord(Peek())) Fault(at_, "a rule's name is missing: letters, digits and -");
    const std::string name = Name();
    Blanks(false);
    if (!text_.substr(at_).starts_with("::=")) Fault(at_, "::= is missing behind " + name);
    at_ += 3;
    Blanks(true);
    Known& known = RuleNamed(name, begin);
    if (known.defined) Fault(begin, "the rule " + name + " is there twice");
    known.defined = true;
    builder_.Define(known.number, Alternatives(0));
    if (at_ < text_.size() && Peek() != '\n' && Peek() != '\r')
      Fault(at_, std::string("\"") + Shown() + "\" can't stand here");
    Blanks(true);
  }

  // The character that stands here.
  std::string Shown() const { return std::string(text_.substr(at_, DecodeUtf8(text_, at_).bytes)); }

  Part Alternatives(size_t depth) {
    if (depth > kMostDepth) Fault(at_, "nested over " + std::to_string(kMostDepth) + " levels deep");
    std::vector<Part> parts = {Items(depth)};
    while (Peek() == '|') {
      ++at_;
      Blanks(true);
      parts.push_back(Items(depth));
    }
    return parts.size() == 1 ? parts[0] : builder_.Choice(parts);
  }

  Part Items(size_t depth) {
    Part all = builder_.Empty();
    while (at_ < text_.size()) {
      const char c = Peek();
      const size_t begin = at_;
      Part item{};
      if (c == '"') {
        item = Text();
      } else if (c == '[') {
        item = Class();
      } else if (c == '.') {
        ++at_;
        const CodePointRange any[] = {{0, kMaxCodePoint}};
        item = builder_.Characters(any);
      } else if (c == '(') {
        ++at_;
        Blanks(true);
        item = Alternatives(depth + 1);
        if (Peek() != ')') Fault(at_, "the group from " + Where(begin) + " has no end");
        ++at_;
      } else if (IsWord(c)) {
        const std::string name = Name();
        item = builder_.Call(RuleNamed(name, begin).number);
      } else if (c == '<' || c == '!') {
        Fault(at_, "terminals that are tokens aren't supported: characters alone are");
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        Fault(at_, std::string("nothing stands before ") + c);
      } else {
        return all;
      }
      Blanks(depth > 0);
      item = Repeated(item, depth);
      all = builder_.Sequence(all, item);
    }
    return all;
  }

  std::string Where(size_t at) const {
    const std::string place = Place(at).substr(where_.size() + 1);
    return place.substr(0, place.size() - 2);
  }

  Part Repeated(Part item, size_t depth) {
    for (;;) {
      const char c = Peek();
      if (c == '*' || c == '+' || c == '?') {
        ++at_;
        item = c == '?' ? builder_.Optional(item) : builder_.Repeat(item, c == '+' ? 1 : 0, std::nullopt);
      } else if (c == '{') {
        item = Counted(item, depth);
      } else {
        return item;
      }
      Blanks(depth > 0);
    }
  }

  uint32_t Count() {
    const size_t begin = at_;
    uint32_t count = 0;
    for (; IsDigit(Peek()); ++at_) {
      count = count * 10 + static_cast<uint32_t>(Peek() - '0');
      if (count > kMostRepetitions) Fault(begin, "repeated over " + std::to_string(kMostRepetitions) + " times");
    }
    if (at_ == begin) Fault(at_, "a number is missing");
    Blanks(false);
    return count;
  }

  Part Counted(Part item, size_t depth) {
    const size_t begin = at_++;
    Blanks(depth > 0);
    const uint32_t least = Count();
    std::optional<uint32_t> most = least;
    if (Peek() == ',') {
      ++at_;
      Blanks(depth > 0);
      most = Peek() == '}' ? std::nullopt : std::optional(Count());
    }
    if (Peek() != '}') Fault(at_, "the repetition from " + Where(begin) + " has no end");
    ++at_;
    if (most && *most < least)
      Fault(begin, "at least " + std::to_string(least) + " times, at most " + std::to_string(*most));
    return builder_.Repeat(item, least, most);
  }

  uint32_t Hex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = Peek();
      const char lower = static_cast<char>(c | 0x20);
      if (!IsDigit(c) && (lower < 'a' || lower > 'f')) Fault(at_, std::to_string(digits) + " hex digits are missing");
      value = value << 4 | static_cast<uint32_t>(IsDigit(c) ? c - '0' : lower - 'a' + 10);
    }
    return value;
  }

  // A character of a text or a class, or its escape.
  uint32_t Character() {
    const size_t begin = at_;
    const CodePoint c = DecodeUtf8(text_, at_);
    at_ += c.bytes;
    if (c.value != '\\') return c.value;
    const char escape = Peek();
    ++at_;
    switch (escape) {
      case 't': return '\t';
      case 'r': return '\r';
      case 'n': return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-': return static_cast<uint32_t>(escape);
      case 'x':
      case 'u':
      case 'U': {
        const uint32_t value = Hex(escape == 'x' ? 2 : escape == 'u' ? 4 : 8);
        if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF)) Fault(begin, "no character of Unicode");
        return value;
      }
      default: Fault(begin, "an escape that GBNF doesn't have");
    }
  }

  Part Text() {
    const size_t begin = at_++;
    std::string bytes;
    while (Peek() != '"') {
      if (at_ >= text_.size()) Fault(begin, "the text has no end");
      AppendUtf8(bytes, Character());
    }
    ++at_;
    return builder_.Literal(bytes);
  }

  Part Class() {
    const size_t begin = at_++;
    const bool negated = Peek() == '^';
    if (negated) ++at_;
    std::vector<CodePointRange> ranges;
    while (Peek() != ']') {
      if (at_ >= text_.size()) Fault(begin, "the class has no end");
      const size_t first = at_;
      const uint32_t low = Character();
      uint32_t high = low;
      if (Peek() == '-' && Peek(1) != ']') {
        ++at_;
        if (at_ >= text_.size()) Fault(begin, "the class has no end");
        high = Character();
      }
      if (high < low) Fault(first, "a range that goes down");
      ranges.push_back({low, high});
    }
    ++at_;
    if (ranges.empty()) Fault(begin, "a class without characters");
    if (negated) ranges = Complement(std::move(ranges));
    return builder_.Characters(ranges);
  }

  std::string_view text_, where_;
  size_t at_ = 0;
  std::vector<size_t> lines_ = {0};  // where lines begin
  GrammarBuilder builder_;
  std::map<std::string, Known> rules_;
};

}  // namespace

Grammar ParseGbnf(std::string_view text, std::string_view where) { return Parser(text, where).Parse(); }

}  // namespace llmc
