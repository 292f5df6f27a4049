// Compiled patterns: against a backtracking matcher, on the patterns that tokenizers publish, and by hand.
#include "frontend/pattern.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/tokenizer_families.h"
#include "frontend/tokenizer_steps.h"
#include "runtime/plan_automaton.h"
#include "runtime/plan_tokenizer_steps.h"
#include "tests/tokenizer/backtrack.h"

namespace llmc {
namespace {

using Texts = std::vector<std::string>;

// The pieces that steps cut a text into.
Texts Cut(const std::vector<TokenizerStep>& steps, const std::string& text, uint64_t* work = nullptr) {
  Texts pieces = {text};
  uint64_t all = 0;
  for (const TokenizerStep& step : steps) {
    const StepRecord record = {step.kind, step.flags, {0, step.table.size()}, {step.table.size(), step.text.size()}};
    const std::string data = step.table + step.text;
    const TextStep opened(record, data);
    Texts next;
    for (const std::string& piece : pieces) {
      if (step.kind == StepKind::Split) {
        opened.Cut(piece, all, [&](size_t begin, size_t end) { next.push_back(piece.substr(begin, end - begin)); });
        continue;
      }
      std::string out;
      SourceSpans spans;
      next.push_back(opened.Change({piece}, false, out, spans, all) ? out : piece);
    }
    pieces = next;
  }
  if (work != nullptr) *work = all;
  return pieces;
}
Texts Family(const std::string& pre, const std::string& text, uint64_t* work = nullptr) {
  GgufFamily family;
  EXPECT_TRUE(FindGgufFamily(pre, family)) << pre;
  return Cut(family.cuts, text, work);
}

TEST(Pattern, CutsByFamily) {
  EXPECT_EQ(Family("gpt-2", "is 3333+777?"), Texts({"is", " 3333", "+", "777", "?"}));
  EXPECT_EQ(Family("llama-bpe", "is 3333+777?"), Texts({"is", " ", "333", "3", "+", "777", "?"}));
  EXPECT_EQ(Family("qwen2", "is 33+7?"), Texts({"is", " ", "3", "3", "+", "7", "?"}));
  EXPECT_EQ(Family("smollm", "is  33+7 x"), Texts({"is", "  ", "3", "3", "+", "7", " x"}));

  EXPECT_EQ(Family("gpt-2", "HE'ST he'll"), Texts({"HE", "'", "ST", " he", "'ll"}));
  EXPECT_EQ(Family("llama-bpe", "HE'ST I'VE"), Texts({"HE", "'S", "T", " I", "'VE"}));
  EXPECT_EQ(Family("llama-bpe", "x'\xC5\xBFy"), Texts({"x", "'\xC5\xBF", "y"}));
  EXPECT_EQ(Family("gpt-2", "'r 'l'"), Texts({"'", "r", " '", "l", "'"}));

  EXPECT_EQ(Family("gpt-2", "a\r\n\n b  c"), Texts({"a", "\r\n\n", " b", " ", " c"}));
  EXPECT_EQ(Family("llama-bpe", "a\r\n\n b  c"), Texts({"a", "\r\n\n", " b", " ", " c"}));
  EXPECT_EQ(Family("llama-bpe", "   \n  x"), Texts({"   \n", " ", " x"}));
  EXPECT_EQ(Family("gpt-2", "   \n  x"), Texts({"   \n ", " x"}));
  EXPECT_EQ(Family("llama-bpe", "+=\r\n\nx"), Texts({"+=\r\n\n", "x"}));
  EXPECT_EQ(Family("llama-bpe", "\tfoo(bar"), Texts({"\tfoo", "(bar"}));
  EXPECT_EQ(Family("gpt-2", "\tfoo(bar"), Texts({"\t", "foo", "(", "bar"}));
  EXPECT_EQ(Family("qwen2", "a   "), Texts({"a", "   "}));
  EXPECT_EQ(Family("gpt-4o", "HTTPServer don't 你A"), Texts({"HTTPServer", " don't", " 你", "A"}));
  EXPECT_EQ(Family("kimi-k2", "A你好b"), Texts({"A", "你好", "b"}));
  EXPECT_EQ(Family("deepseek-v3", "x12345你好y;foo"), Texts({"x", "123", "45", "你好", "y", ";foo"}));
}

TEST(Pattern, Behaviors) {
  auto cut = [](SplitBehavior behavior, bool invert = false) {
    return Cut({SplitStep(CompilePattern("-"), behavior, invert)}, "-ab--c-");
  };
  EXPECT_EQ(cut(SplitBehavior::Isolated), Texts({"-", "ab", "-", "-", "c", "-"}));
  EXPECT_EQ(cut(SplitBehavior::Removed), Texts({"ab", "c"}));
  EXPECT_EQ(cut(SplitBehavior::Removed, true), Texts({"-", "-", "-", "-"}));
  EXPECT_EQ(cut(SplitBehavior::MergedWithPrevious), Texts({"-", "ab-", "-", "c-"}));
  EXPECT_EQ(cut(SplitBehavior::MergedWithNext), Texts({"-ab", "-", "-c", "-"}));
  EXPECT_EQ(cut(SplitBehavior::Contiguous), Texts({"-", "ab", "--", "c", "-"}));
}

// First alternative, not the longest; one of each construct.
TEST(Pattern, Meaning) {
  auto match = [](const std::string& pattern, const std::string& text) {
    const std::string table = CompilePattern(pattern);
    const Automaton automaton(table);
    uint64_t steps = 0;
    const size_t end = Matcher(automaton, text, steps).End(0);
    return end == 0 ? std::string("-") : text.substr(0, end);
  };
  EXPECT_EQ(match("a|ab", "ab"), "a");
  EXPECT_EQ(match("(?:a|ab)c", "abc"), "abc");
  EXPECT_EQ(match("a*?b|a", "aab"), "aab");
  EXPECT_EQ(match("a+?", "aaa"), "a");
  EXPECT_EQ(match("a{2,3}", "aaaa"), "aaa");
  EXPECT_EQ(match("a{2}", "aaaa"), "aa");
  EXPECT_EQ(match("a{,2}b", "aab"), "aab");
  EXPECT_EQ(match("a{1,2}+", "aaaaa"), "aaaaa");  // Ruby syntax: a repeat of a repeat
  EXPECT_EQ(match("a++b|a", "aab"), "aab");
  EXPECT_EQ(match("a++a|b", "aa"), "-");
  EXPECT_EQ(match("a?+a", "a"), "-");
  EXPECT_EQ(match("[a-c]*+d", "abcd"), "abcd");
  EXPECT_EQ(match(R"(\s+(?!\S)|\s+)", "   x"), "  ");
  EXPECT_EQ(match(R"(\s+(?!\S)|\s+)", " x"), " ");
  EXPECT_EQ(match(R"(\s+$)", "  "), "  ");
  EXPECT_EQ(match("a+$", "aa\nb"), "aa");
  EXPECT_EQ(match(R"(a+\z)", "aa\nb"), "-");
  EXPECT_EQ(match("a(?=b|$)", "ab"), "a");
  EXPECT_EQ(match("a(?=b|$)", "a"), "a");
  EXPECT_EQ(match("a(?=b|$)", "ac"), "-");
  EXPECT_EQ(match("(?i:straSSe)", "STRAsse"), "STRAsse");
  EXPECT_EQ(match("(?i)k|x", "\xE2\x84\xAA"), "\xE2\x84\xAA");  // Kelvin sign
  EXPECT_EQ(match("(?i:a)b", "AB"), "-");
  EXPECT_EQ(match(R"([\p{L}&&[^a-m]]+)",
                  "zyx\xC3\xA9"
                  "a"),
            "zyx\xC3\xA9");
  EXPECT_EQ(match(R"([^\p{L}\d]+)", "+-a"), "+-");
  EXPECT_EQ(match(R"(\P{L}+)", "12a"), "12");
  EXPECT_EQ(match(R"(\p{^L}+)", "12a"), "12");
  // Superscripts and fractions of the first 256 characters: word characters to Oniguruma, but not in brackets.
  EXPECT_EQ(match(R"(\w+)", "a\xC2\xB2\xC2\xBD\xE2\x85\x93"), "a\xC2\xB2\xC2\xBD");
  EXPECT_EQ(match(R"([\w]+)", "a\xC2\xB2"), "a");
  EXPECT_EQ(match(R"([^\w\s]+)", "\xC2\xB2 "), "\xC2\xB2");
  EXPECT_EQ(match(R"([\]\-\\^]+)", R"(]-\^a)"), R"(]-\^)");
  EXPECT_EQ(match("[a-]+", "a-b"), "a-");
  EXPECT_EQ(match(R"(\x41\u00e9\x{1F600})", "A\xC3\xA9\xF0\x9F\x98\x80"), "A\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(match(".+", "ab\nc"), "ab");
  EXPECT_EQ(match("(a(?:b))+", "ababx"), "abab");
  EXPECT_EQ(match("a{1000}", std::string(1000, 'a')), std::string(1000, 'a'));
}

TEST(Pattern, Refused) {
  auto reason = [](const std::string& pattern) -> std::string {
    try {
      CompilePattern(pattern);
      return "";
    } catch (const PatternError& e) {
      return e.reason;
    }
  };
  for (const char* pattern : {"(?<=a)b",    "(?<!a)b",   "a(?!bc)", "(?>a)",       "^a",
                              "a*",         "",          "(a",      "a)",          "[a",
                              "*a",         "a{1001}",   "a{3,2}",  "\\b",         "\\1",
                              "[z-a]",      "\\p{Nope}", "\\p{L",   "(?:ab)++",    "(?:a?)*b",
                              "(?:a|b*)+c", "a{2}?",     "(?=a)*b", "\\",          "\\x{110000}",
                              "(?<n>a)",    "[]a]",      "a{",      "[[:punct:]]", "(?:(?:a{1000}){1000}){1000}",
                              "\xFF"}) {
    EXPECT_NE(reason(pattern), "") << pattern;
  }
  EXPECT_NE(reason(std::string(300, '(') + "a" + std::string(300, ')')), "");
}

// Random patterns and texts over a small alphabet.
class RandomPattern {
 public:
  explicit RandomPattern(uint32_t seed) : random_(seed) {}
  std::string Pattern(int depth = 0) {
    std::string out;
    const size_t alternatives = 1 + Below(depth < 3 ? 3 : 1);
    for (size_t i = 0; i < alternatives; ++i) {
      if (i > 0) out += "|";
      const size_t parts = 1 + Below(3);
      for (size_t j = 0; j < parts; ++j) out += Part(depth);
      if (Below(6) == 0) out += Pick({"(?!a)", "(?=b)", "$", "(?!\\s)", "(?=[^b])"});
    }
    return out;
  }
  std::string Text() {
    std::string out;
    for (size_t n = Below(14); n > 0; --n) out += Pick({"a", "a", "b", "B", " ", "\n", "\xC3\xA9", "1"});
    return out;
  }

 private:
  size_t Below(size_t n) { return random_() % n; }
  std::string Pick(std::initializer_list<const char*> from) { return *(from.begin() + Below(from.size())); }
  std::string Part(int depth) {
    std::string atom;
    if (depth < 3 && Below(4) == 0) {
      atom = (Below(4) == 0 ? "(?i:" : "(?:") + Pattern(depth + 1) + ")";
      return atom + Pick({"", "", "?", "*", "+", "{1,2}", "??"});
    }
    atom = Pick({"a", "b", ".", "\\s", "[ab]", "[^a]", "\\p{L}", "[\\p{L}&&[^b]]", " ", "\\d", "\xC3\xA9"});
    return atom + Pick({"", "", "", "?", "*", "+", "{2}", "{1,3}", "??", "+?", "++", "?+", "*+"});
  }
  std::mt19937 random_;
};

TEST(Pattern, LikeABacktrackingMatcher) {
  size_t compared = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomPattern random(seed);
    const std::string pattern = random.Pattern();
    std::string table;
    try {
      table = CompilePattern(pattern);
    } catch (const PatternError&) {
      continue;
    }
    const PatternNode tree = ParsePattern(pattern);
    const Automaton automaton(table);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random.Text();
      uint64_t steps = 0;
      Matcher matcher(automaton, text, steps);
      for (size_t at = 0; at < text.size(); at += DecodeUtf8(text, at).bytes) {
        Backtracker backtracker(text, 5000);
        const std::optional<size_t> want = backtracker.Match(tree, at);
        if (backtracker.exhausted()) continue;
        ++compared;
        ASSERT_EQ(matcher.End(at), want.value_or(at)) << pattern << " at " << at << " of \"" << text << "\"";
      }
    }
  }
  EXPECT_GT(compared, 20000U);
}

// C07: a bounded number of steps a byte, on runs that each pattern looks far ahead in.
TEST(Pattern, LongRunsAreLinear) {
  std::vector<std::pair<std::string, std::vector<TokenizerStep>>> all;
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "tekken", "gpt-4o", "kimi-k2", "falcon",
                          "deepseek-llm", "deepseek-coder", "deepseek-v3", "command-r"}) {
    GgufFamily family;
    ASSERT_TRUE(FindGgufFamily(pre, family)) << pre;
    all.emplace_back(pre, family.cuts);
  }
  for (const char* pattern : {"a+b", "a*b|a", "(?:a|aa)*c|a", "a+$|a", "(?:ab?)*c|b", "[ab]*1|[ab]{3}"})
    all.emplace_back(pattern, std::vector<TokenizerStep>{PatternStep(pattern)});
  for (const auto& [name, steps] : all) {
    size_t bytes = 0;
    for (const TokenizerStep& step : steps) bytes += step.table.size();
    EXPECT_LE(bytes, kMaxAutomatonBytes) << name;
    for (const std::string unit : {"a", "A", " ", "-", "\n", "0", "'", " a", " \n", "  x", "ab", "\xE3\x81\x82",
                                   "\xE4\xB8\xAD\x41", "\xF0\x80", "'s"}) {
      std::string text;
      while (text.size() < 30000) text += unit;
      uint64_t work = 0;
      Cut(steps, text, &work);
      EXPECT_LE(work, text.size() * 200) << name << " on " << unit;
    }
  }
}

}  // namespace
}  // namespace llmc
