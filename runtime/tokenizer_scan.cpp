// The pre-tokenizers' patterns as scanners. A family's pattern is an ordered choice of alternatives, tried at each
// place:
//
//   contraction     ' and one of s t m d re ve ll; gpt2: lower case only, others: any case, long s (U+017F) included as
//   it folds to s letters         a run of letters; before it gpt2 takes one ' ', others any one character but \r, \n,
//   letters and numbers numbers         gpt2: a run with one ' ' before it; llama3: up to 3; qwen2: one other a run of
//   what is neither space, letter nor number, with one ' ' before it; all but gpt2 take the \r and \n after it line
//   ends       all but gpt2: whitespace up to the last \r or \n of the run blanks          whitespace at the end of the
//   text; before anything else, all of the run but its last character, if there are two or more one blank
//
// Every character is in one of them, so the pieces cover the text.
#include "runtime/tokenizer_scan.h"

namespace llmc {
namespace {

struct Rules {
  bool any_case = false;
  bool any_before_letters = false;
  size_t most_numbers = SIZE_MAX;
  bool space_before_numbers = false;
  bool line_ends = false;
};
constexpr Rules kGpt2 = {.space_before_numbers = true};
constexpr Rules kLlama3 = {.any_case = true, .any_before_letters = true, .most_numbers = 3, .line_ends = true};
constexpr Rules kQwen2 = {.any_case = true, .any_before_letters = true, .most_numbers = 1, .line_ends = true};

class Scanner {
 public:
  Scanner(const UnicodeTables& unicode, std::string_view text, uint64_t& steps)
      : unicode_(unicode), text_(text), steps_(steps) {}

  size_t PatternEnd(const Rules& rules, size_t begin) {
    if (const size_t end = Contraction(rules.any_case, begin); end != begin) return end;
    const Char first = At(begin);
    const size_t second = begin + first.bytes;
    const bool space = first.value == ' ';
    const bool plain = (first.type & (kClassLetter | kClassNumber)) == 0;
    const bool line_end = first.value == '\r' || first.value == '\n';

    if ((first.type & kClassLetter) != 0) return Run(second, kClassLetter);
    if ((space || (rules.any_before_letters && plain && !line_end)) && Is(second, kClassLetter))
      return Run(second, kClassLetter);
    if ((first.type & kClassNumber) != 0) return Run(second, kClassNumber, rules.most_numbers - 1);
    if (space && rules.space_before_numbers && Is(second, kClassNumber)) return Run(second, kClassNumber);
    if ((first.type & kClassSpace) == 0 || (space && IsOther(second))) {
      size_t end = second;
      while (IsOther(end)) end += At(end).bytes;
      while (rules.line_ends && end < text_.size() && (text_[end] == '\r' || text_[end] == '\n')) ++end;
      return end;
    }
    return Blanks(rules.line_ends, begin);
  }

  size_t DigitEnd(bool runs, size_t begin) {
    const Char first = At(begin);
    size_t end = begin + first.bytes;
    if ((first.type & kClassNumber) != 0) return runs ? Run(end, kClassNumber) : end;
    while (end < text_.size()) {
      const Char c = At(end);
      if ((c.type & kClassNumber) != 0) break;
      end += c.bytes;
    }
    return end;
  }

 private:
  struct Char {
    uint32_t value, bytes;
    uint8_t type;
  };
  Char At(size_t at) {
    ++steps_;
    const CodePoint c = DecodeUtf8(text_, at);
    return {c.value, c.bytes, unicode_.Class(c.value)};
  }
  bool Is(size_t at, uint8_t type) { return at < text_.size() && (At(at).type & type) != 0; }
  bool IsOther(size_t at) {
    return at < text_.size() && (At(at).type & (kClassLetter | kClassNumber | kClassSpace)) == 0;
  }
  size_t Run(size_t at, uint8_t type, size_t most = SIZE_MAX) {
    while (most > 0 && at < text_.size()) {
      const Char c = At(at);
      if ((c.type & type) == 0) break;
      at += c.bytes;
      --most;
    }
    return at;
  }

  size_t Contraction(bool any_case, size_t begin) {
    if (text_[begin] != '\'') return begin;
    auto letter = [&](size_t at) -> char {
      if (at >= text_.size()) return '\0';
      const char c = text_[at];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char a = letter(begin + 1);
    const char b = letter(begin + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return begin + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return begin + 3;
    if (any_case && text_.substr(begin + 1, 2) == "\xC5\xBF") return begin + 3;
    return begin;
  }

  size_t Blanks(bool line_ends, size_t begin) {
    size_t end = begin;
    size_t last = begin;  // of the run's characters
    size_t after_line_end = begin;
    while (end < text_.size()) {
      const Char c = At(end);
      if ((c.type & kClassSpace) == 0) break;
      last = end;
      end += c.bytes;
      if (c.value == '\r' || c.value == '\n') after_line_end = end;
    }
    if (line_ends && after_line_end != begin) return after_line_end;
    return end == text_.size() || last == begin ? end : last;
  }

  const UnicodeTables& unicode_;
  std::string_view text_;
  uint64_t& steps_;
};

}  // namespace

size_t PieceEnd(StepKind kind, const UnicodeTables& unicode, std::string_view text, size_t begin, uint64_t& steps) {
  Scanner scanner(unicode, text, steps);
  switch (kind) {
    case StepKind::Digit: return scanner.DigitEnd(false, begin);
    case StepKind::Digits: return scanner.DigitEnd(true, begin);
    case StepKind::Gpt2: return scanner.PatternEnd(kGpt2, begin);
    case StepKind::Llama3: return scanner.PatternEnd(kLlama3, begin);
    case StepKind::Qwen2: return scanner.PatternEnd(kQwen2, begin);
    case StepKind::Whole: break;
  }
  return text.size();
}

}  // namespace llmc
