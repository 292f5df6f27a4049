// Constraints by grammars: the tokens that may come are those of llguidance (tools/golden/constraints.py) and, for GBNF,
// llama.cpp (constraints_llama_cpp.py); what grammars and schemas match and refuse; how samplers and texts end.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "runtime/gbnf.h"
#include "runtime/json_schema.h"
#include "runtime/sampler.h"
#include "runtime/token_constraint.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

std::string Bytes(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// A byte-level tokenizer of these tokens, the first of which ends a text.
std::string Vocabulary(const std::vector<std::string>& tokens) {
  TokenizerTables tables;
  tables.byte_ids.fill(-1);
  for (const std::string& token : tokens) {
    tables.token_flags.push_back(tables.tokens.empty() ? kTokenSpecial : kTokenInModel);
    if (token.size() == 1) tables.byte_ids[static_cast<uint8_t>(token[0])] = static_cast<int32_t>(tables.tokens.size());
    tables.tokens.push_back(token);
  }
  return BuildTokenizerSection(tables);
}
constexpr int32_t kEnd[] = {0};

std::vector<bool> Allowed(TokenConstraint& constraint, size_t count) {
  std::vector<float> scores(count, 1);
  constraint.Apply(scores);
  std::vector<bool> allowed;
  for (const float score : scores) allowed.push_back(std::isfinite(score));
  return allowed;
}

std::string Difference(const std::vector<bool>& have, const std::vector<bool>& want,
                       const std::vector<std::string>& tokens) {
  std::string text;
  for (size_t i = 0; i < want.size(); ++i) {
    if (have[i] != want[i]) text += (have[i] ? " too much: \"" : " missing: \"") + tokens[i] + "\"";
  }
  return text;
}

// Goes along the walks of a file and returns how many masks it has.
size_t CheckMasks(const std::string& path) {
  std::istringstream in(ReadFile(path));
  std::vector<std::string> tokens;
  std::string section, source, text;
  std::optional<TokenConstraint> constraint;
  size_t masks = 0, faults = 0;
  for (std::string line; std::getline(in, line) && faults < 10;) {
    const std::string key = line.substr(0, line.find(' ')), rest = line.substr(std::min(line.size(), key.size() + 1));
    if (key == "token") {
      tokens.push_back(Bytes(rest));
    } else if (key == "gbnf" || key == "schema") {
      if (section.empty()) section = Vocabulary(tokens);
      source = Bytes(rest);
      constraint.emplace(key == "gbnf" ? ParseGbnf(source, "g") : GrammarOfJsonSchema(source, "s"), Tokenizer(section),
                         kEnd);
    } else if (key == "walk") {
      constraint->Reset();
      text.clear();
    } else {
      ++masks;
      const std::string mask = Bytes(key);
      std::vector<bool> want;
      for (size_t i = 0; i < tokens.size(); ++i) want.push_back((mask[i / 8] >> (i % 8) & 1) != 0);
      const std::vector<bool> have = Allowed(*constraint, tokens.size());
      if (have != want) {
        ++faults;
        ADD_FAILURE() << source << "\nbehind \"" << text << "\":" << Difference(have, want, tokens);
      }
      if (!rest.empty()) {
        constraint->Accept(std::stoi(rest));
        text += tokens[std::stoul(rest)];
      }
    }
  }
  return masks;
}

TEST(Constraint, MasksAreLlguidances) {
  EXPECT_GT(CheckMasks(LLMC_SOURCE_DIR "/tests/data/constraints/masks.txt"), 600U);
  // Another file of the same form, over a whole vocabulary for instance.
  const char* other = std::getenv("LLMC_MASKS");
  EXPECT_TRUE(other == nullptr || CheckMasks(other) > 0);
}
TEST(Constraint, MasksOfGbnfAreLlamaCpps) {
  EXPECT_EQ(CheckMasks(LLMC_SOURCE_DIR "/tests/data/constraints/gbnf.txt"), 300U);
}

// Texts that a grammar matches, by hand.
bool Matches(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher::Place place = matcher.start();
  for (const char c : text) place = matcher.Step(place, static_cast<uint8_t>(c));
  return matcher.Ends(place);
}
bool Begins(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher::Place place = matcher.start();
  for (const char c : text) place = matcher.Step(place, static_cast<uint8_t>(c));
  return place != GrammarMatcher::kDead;
}

TEST(Gbnf, Matches) {
  struct Case {
    const char* grammar;
    std::vector<std::string> yes, no;
  };
  const std::vector<Case> cases = {
      {"root ::= \"\"", {""}, {"a"}},
      {"# a comment\n\nroot::=\"a\"|\n  \"b\"  # more\r\n", {"a", "b"}, {"", "ab"}},
      {"root ::= (\"a\"\n | #x\n \"b\")* \"\"", {"", "abba"}, {"c"}},
      {"root ::= [a\\-c-]+", {"a-c"}, {"b", ""}},
      {"root ::= [^\\]\\\\\\\"]", {"[", "\xC3\xA9"}, {"]", "\\", "\"", "\xC3"}},
      {"root ::= \"\\t\\r\\n\\\\\\\"\\[\\]\\x41\\u00e9\\U0001F600\"", {"\t\r\n\\\"[]A\xC3\xA9\xF0\x9F\x98\x80"}, {""}},
      // Characters are whole ones of UTF-8: no overlong form, no surrogate, nothing over U+10FFFF.
      {"root ::= .",
       {"a", "\n", "\xDF\xBF", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"},
       {"", "ab", "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5", "\xE2\x82"}},
      {"root ::= [\xC3\xA0-\xC3\xBF\xE2\x82\xAC]{2}", {"\xC3\xA9\xE2\x82\xAC"}, {"\xC3\xA9", "\xC3\x9F\xC3\xA9"}},
      {"root ::= \"x\"{0} \"y\"{ 2 } \"z\"{1 , } \"w\"{0,2}", {"yyz", "yyzzzww"}, {"yz", "yyzwww", "xyyz"}},
      {"root ::= (\"a\" | \"b\"?)* \"c\"", {"c", "abac"}, {"a"}},
      {"root ::= (\"a\"*)* (\"b\"*)+ (\"c\"?){0,3}", {"", "aabbccc"}, {"ba", "cccc"}},
      {"root ::= a{2,3}\na ::= b | \"x\" a\nb ::= \"\"", {"", "x", "xxx"}, {"y"}},
      {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aaabbb"}, {"aab", "abb"}},
      {"root ::= pal\npal ::= \"a\" pal \"a\" | \"b\" pal \"b\" | [ab]?", {"abba", "ababa", "a", ""}, {"ab", "abb"}},
      {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"(\" e \")\" | [0-9]", {"1+(2+(3))", "4"}, {"1+", "(1", "1)"}},
      {"root ::= (a | b)*\na ::= \"foo\" | \"foobar\"\nb ::= \"bar\" | \"ba\"",
       {"ba", "foobarba", "foobabar", "foobarbar"},
       {"b", "fooba r"}},
      {"\xEF\xBB\xBFroot ::= \"a\"", {"a"}, {"b"}},
      // What leads nowhere is no text.
      {"root ::= \"a\" | \"b\" loop\nloop ::= \"c\" loop", {"a"}, {"b", "bc"}},
  };
  for (const Case& c : cases) {
    const Grammar grammar = ParseGbnf(c.grammar, "g");
    for (const std::string& text : c.yes) EXPECT_TRUE(Matches(grammar, text)) << c.grammar << ": " << text;
    for (const std::string& text : c.no) EXPECT_FALSE(Matches(grammar, text)) << c.grammar << ": " << text;
  }
  EXPECT_FALSE(Begins(ParseGbnf(cases.back().grammar, "g"), "b"));
}

TEST(Gbnf, RefusesWithThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "g.gbnf:1:1: no rule is named root"},
      {"a ::= \"x\"", "no rule is named root"},
      {"root ::= b\n", "g.gbnf:1:10: the rule b isn't defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "g.gbnf:2:1: the rule root is there twice"},
      {"root ::= root \"a\" | \"b\"", "g.gbnf:1:1: the rule root calls itself before any character (left recursion)"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", "calls itself before any character"},
      {"root ::= root", "matches no text"},
      {"root ::= \"a\" root", "g.gbnf:1:1: the rule root matches no text"},
      {"root ::= \"a", "g.gbnf:1:10: the text has no end"},
      {"root ::= [a", "g.gbnf:1:10: the class has no end"},
      {"root ::= []", "g.gbnf:1:10: a class without characters"},
      {"root ::= [z-a]", "g.gbnf:1:11: a range that goes down"},
      {"root ::= (\"a\"", "the group from 1:10 has no end"},
      {"root ::= \"a\")", "g.gbnf:1:13: \")\" can't stand here"},
      {"root ::= * \"a\"", "g.gbnf:1:10: nothing stands before *"},
      {"root ::= \"a\"{3,2}", "g.gbnf:1:13: at least 3 times, at most 2"},
      {"root ::= \"a\"{x}", "a number is missing"},
      {"root ::= \"a\"{1", "the repetition from 1:13 has no end"},
      {"root ::= \"a\"{99999999999}", "repeated over 65536 times"},
      {"root ::= \"\\q\"", "g.gbnf:1:11: an escape that GBNF doesn't have"},
      {"root ::= \"\\x4\"", "2 hex digits are missing"},
      {"root ::= \"\\uD800\"", "no character of Unicode"},
      {"root ::= \"\\U00110000\"", "no character of Unicode"},
      {"root ::= <think>", "terminals that are tokens aren't supported"},
      {"root ::= !<[5]>", "terminals that are tokens aren't supported"},
      {"root \"a\"", "g.gbnf:1:6: ::= is missing behind root"},
      {"ro_ot ::= \"a\"", "::= is missing"},
      {"root ::= \"\xFF\"", "g.gbnf:1:11: not text in UTF-8"},
      {"root ::= " + std::string(300, '(') + "\"a\"" + std::string(300, ')'), "nested over 200 levels deep"},
      {"root ::= \"a\"{65536} \"b\"{65536} \"c\"{65536} \"d\"{65536}", "g.gbnf: the grammar is too large"},
      // A set of states for each of 2^24 beginnings.
      {"root ::= [ab]* \"a\" [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] [ab] "
       "[ab] [ab] [ab] [ab] [ab]",
       "the grammar is too large"},
  };
  for (const auto& [text, message] : cases) {
    const std::string error = ErrorOf([&, &grammar = text] { ParseGbnf(grammar, "g.gbnf"); });
    EXPECT_NE(error.find(message), std::string::npos) << text << ": " << error;
    EXPECT_TRUE(error.starts_with("g.gbnf:")) << error;
  }
}

TEST(Gbnf, AmbiguityAndDepthAreBounded) {
  // Each rule calls the next from two places that go on apart.
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 24; ++i) {
    const std::string r = "r" + std::to_string(i), s = "s" + std::to_string(i), next = std::to_string(i + 1);
    text +=
        r + " ::= r" + next + " \"a\" | s" + next + " \"b\"\n" + s + " ::= r" + next + " \"c\" | s" + next + " \"d\"\n";
  }
  text += "r24 ::= \"x\"\ns24 ::= \"x\"\n";
  EXPECT_NE(ErrorOf([&] { Begins(ParseGbnf(text, "g"), "x"); }).find("ways"), std::string::npos);
  const Grammar nested = ParseGbnf("root ::= \"(\" root \")\" | \"x\"", "g");
  EXPECT_TRUE(Begins(nested, std::string(4000, '(')));
  EXPECT_FALSE(Begins(nested, std::string(5000, '(')));
  EXPECT_FALSE(Begins(ParseGbnf("root ::= (((\"a\"{1000}){1000}) \"b\"){60000}", "g"), "ab"));  // counts don't multiply
  // Recursion at the end of a rule costs no depth.
  EXPECT_TRUE(Matches(ParseGbnf("root ::= \"a\" root | \"b\"", "g"), std::string(100000, 'a') + "b"));
}

TEST(GrammarMatcher, ForgetsAndGoesOn) {
  GrammarMatcher matcher(ParseGbnf("root ::= \"(\" root \")\" | [a-z]{1,50} | \"\"", "g"));
  GrammarMatcher::Place place = matcher.start();
  for (int i = 0; i < 20; ++i) place = matcher.Forget(matcher.Step(place, '('));
  for (int i = 0; i < 5; ++i) place = matcher.Forget(matcher.Step(place, 'q'));
  EXPECT_FALSE(matcher.Ends(place));
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(matcher.Step(place, 'q') != GrammarMatcher::kDead, i > 0);
    place = matcher.Forget(matcher.Step(place, ')'));
    EXPECT_EQ(matcher.Ends(place), i == 19);
  }
  EXPECT_TRUE(matcher.Finished(place));
  EXPECT_EQ(matcher.Step(place, ')'), GrammarMatcher::kDead);
  EXPECT_EQ(matcher.Forget(GrammarMatcher::kDead), GrammarMatcher::kDead);
  EXPECT_EQ(matcher.Forget(matcher.start()), matcher.start());
  EXPECT_TRUE(matcher.Ends(matcher.start()));
}

TEST(JsonSchema, Matches) {
  struct Case {
    const char* schema;
    std::vector<std::string> yes, no;
  };
  const std::vector<Case> cases = {
      {"true",
       {"null", "[1, {\"a\": \"b\"}, []]", "-0.5e+10", "{}"},
       {"", "[1,2]", "01", "+1", ".5", "1.", "{\"a\":1}", " 1"}},
      {R"({"type": "string"})",
       {R"("")", R"("\u00e9\n\/")", R"("\ud83D\uDE00")", "\"\x7F\xC3\xA9\""},
       {R"("\ud83d")", R"("\ude00")", R"("\ud83d\ud83d")", R"("\x")", "\"\n\"", "\"", "null"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("\ud83d\ude00\n9")", "\"\xE2\x82\xAC\xE2\x82\xAC\""},
       {R"("a")", R"("abcd")"}},
      // Keywords of another type say nothing.
      {R"({"type": "string", "minLength": 2.0, "maxLength": 3e0})", {R"("ab")", R"("abc")"}, {R"("a")", R"("abcd")"}},
      {R"({"minLength": 2, "maxItems": 1})", {R"("ab")", "[]", "[1]", "7", "{}"}, {R"("a")", "[1, 2]"}},
      {R"({"type": "integer"})", {"0", "-0", "12"}, {"1.0", "1e3", "00"}},
      {R"({"enum": [1.5, "\u20ac", [true, {"k": null}], 12345678901234567890]})",
       {"1.5", "\"\xE2\x82\xAC\"", "[true, {\"k\": null}]", "12345678901234567890"},
       {"1", "[true, {\"k\":null}]"}},
      {R"({"enum": [1, "a", null, 2.0, 2.5], "type": ["integer", "null"]})", {"1", "null", "2.0"}, {"\"a\"", "2.5"}},
      {R"({"type": "object", "properties": {"x": {"type": "null"}, "y": false, "z": {"type": "boolean"}}, "required": ["z"], "additionalProperties": false})",
       {R"({"z": true})", R"({"x": null, "z": false})"},
       {"{}", R"({"x": null})", R"({"z": true, "x": null})", R"({"y": 1, "z": true})", R"({"z": true, "w": 1})",
        R"({"z": true, })"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}, "a": {"type": "null"}, "q\"": {"type": "null"}}})",
       {"{}", R"({"ab": null, "b": 1, "abc": 2})", R"({"": 1})", R"({"b": 1})", R"({"q\"": null, "x": 1})"},
       {R"({"ab": 1})", R"({"b": 1, "a": 2})", R"({"b": 1, "ab": null})", R"({"a": null, "ab": null})"}},
      {R"({"type": "object", "required": ["k", "l"], "additionalProperties": {"type": "integer"}})",
       {R"({"k": 1, "l": 2, "m": 3})"},
       {R"({"k": 1})", R"({"l": 1, "k": 2})", R"({"k": 1, "l": "2"})"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}, true], "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[null]", "[null, \"x\"]", "[null, 1, 2]"},
       {"[]", "[1]", "[null, 1, \"x\"]", "[null, 1, 2, 3]"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}], "items": false})",
       {"[]", "[null]"},
       {"[null, 1]", "[1]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a~1b%25"}], "$defs": {"a/b%": {"const": 7}}})",
       {"null", "7"},
       {"8"}},
      {R"({"$id": "x", "$schema": "y", "title": "t", "properties": {"c": {"$ref": "#"}}, "additionalProperties": false, "type": "object"})",
       {"{}", R"({"c": {"c": {}}})"},
       {R"({"c": 1})"}},
      {R"({"anyOf": [{"$ref": "#/anyOf/1/prefixItems/0"}, {"type": "array", "prefixItems": [{"const": "p"}]}]})",
       {"\"p\"", "[\"p\"]"},
       {"1"}},
  };
  for (const Case& c : cases) {
    const Grammar grammar = GrammarOfJsonSchema(c.schema, "s");
    for (const std::string& text : c.yes) EXPECT_TRUE(Matches(grammar, text)) << c.schema << ": " << text;
    for (const std::string& text : c.no) EXPECT_FALSE(Matches(grammar, text)) << c.schema << ": " << text;
  }
}

TEST(JsonSchema, RefusesWithThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "s.json:1:2: "},
      {"[]", "s.json: #: a schema is an object, true or false"},
      {"false", "s.json: #: the schema matches no text"},
      {R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}})",
       "s.json: #/properties/a/pattern: the keyword isn't supported"},
      {R"({"type": "string", "format": "date"})", "#/format: the keyword isn't supported"},
      {R"({"oneOf": [true]})", "#/oneOf: the keyword isn't supported"},
      {R"({"type": "integer", "minimum": 3})", "#/minimum: the keyword isn't supported"},
      {R"({"items": {"$id": "x"}, "type": "array"})", "#/items/$id: the keyword isn't supported"},
      {R"({"type": "text"})", "#/type: null, boolean"},
      {R"({"type": 3})", "#/type: null, boolean"},
      {R"({"enum": "a"})", "#/enum: not a list"},
      {R"({"enum": []})", "#/enum: no value is left"},
      {R"({"const": 1, "type": "string"})", "#/const: no value is left"},
      {R"({"const": 1, "enum": [1]})", "#/enum: can't stand beside const"},
      {R"({"enum": ["ab"], "minLength": 1})", "#/minLength: can't stand beside enum"},
      {R"({"anyOf": [true], "type": "string"})", "#/type: can't stand beside anyOf"},
      {R"({"$ref": "#/a", "properties": {}})", "#/properties: can't stand beside $ref"},
      {R"({"anyOf": []})", "#/anyOf: not a list of schemas"},
      {R"({"$ref": "http://x/y"})", "#/$ref: not a JSON pointer into this schema"},
      {R"({"$ref": "#/none"})", "#/$ref: there is nothing at #/none"},
      {R"({"$ref": "#/%4"})", "#/$ref: a % without two hex digits"},
      {R"({"$ref": "#"})", "s.json: #: the schema matches no text"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})",
       "the schema calls itself before any character (left recursion)"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "#/minItems: 3 is over maxItems 2"},
      {R"({"type": "array", "minItems": -1})", "#/minItems: not a number from 0 to 65536"},
      {R"({"type": "array", "minItems": 1.5})", "#/minItems: not a number from 0 to 65536"},
      {R"({"type": "string", "maxLength": 1.5})", "#/maxLength: not a number"},
      {R"({"type": "string", "maxLength": 99999999999999999999})", "#/maxLength: not a number"},
      {R"({"type": "array", "prefixItems": {}})", "#/prefixItems: not a list of schemas"},
      {R"({"type": "object", "properties": []})", "#/properties: not an object of schemas"},
      {R"({"type": "object", "required": "a"})", "#/required: not a list of names"},
      {R"({"type": "object", "required": ["a"], "additionalProperties": false})",
       "s.json: #: the schema matches no text"},
      {R"({"type": "object", "properties": {"a": 3}})", "#/properties/a: a schema is an object, true or false"},
      {R"({"type": "object", "properties": {")" + std::string(2000, 'a') + R"(": true}})",
       "s.json: #: a property's name has over 1000 characters"},
  };
  for (const auto& [text, message] : cases) {
    const std::string error = ErrorOf([&, &schema = text] { GrammarOfJsonSchema(schema, "s.json"); });
    EXPECT_NE(error.find(message), std::string::npos) << text << ": " << error;
  }
  std::string deep;
  for (int i = 0; i < 150; ++i) deep += R"({"type": "array", "items": )";
  EXPECT_TRUE(Matches(GrammarOfJsonSchema(deep.substr(0, 27 * 90) + "true" + std::string(90, '}'), "s"), "[[]]"));
  EXPECT_NE(ErrorOf([&] { GrammarOfJsonSchema(deep + deep + "true" + std::string(300, '}'), "s"); }).find("nested"),
            std::string::npos);
}

// A sampler's text is one of the grammar's whatever the logits are, and ends with it.
TEST(Constraint, EverySampledTextIsOfTheGrammar) {
  const std::vector<std::string> tokens = {"</s>", "a",  "b", "ab", "ba",  "(",    ")",    "((",      "))",
                                           "(a",   "b)", "+", "a+", ")+(", "\xC3", "\xA9", "\xC3\xA9"};
  const std::string section = Vocabulary(tokens);
  const Grammar grammar =
      ParseGbnf("root ::= e \"\xC3\xA9\"?\ne ::= t | t \"+\" e\nt ::= [ab]{1,3} | \"(\" e \")\"", "g");
  SamplerOptions options;
  options.temperature = 1;
  options.constraint = std::make_shared<TokenConstraint>(grammar, Tokenizer(section), kEnd);
  SamplerRandom random(3);
  size_t ended = 0;
  std::set<std::string> texts;
  for (int run = 0; run < 200; ++run) {
    options.seed = static_cast<uint64_t>(run);
    Sampler sampler(options);
    std::string text;
    for (int i = 0; i < 40; ++i) {
      std::vector<float> logits;
      for (size_t k = 0; k < tokens.size(); ++k) logits.push_back(static_cast<float>(random.NextUnit() * 6));
      const int32_t id = sampler.Next(logits, 0);
      if (id == 0) {
        EXPECT_TRUE(Matches(grammar, text)) << text;
        ++ended;
        break;
      }
      text += tokens[static_cast<size_t>(id)];
      EXPECT_TRUE(Begins(grammar, text)) << text;
      if (!sampler.finished()) continue;
      EXPECT_TRUE(text.ends_with("\xC3\xA9")) << text;
      ++ended;
      break;
    }
    texts.insert(text);
  }
  EXPECT_GT(ended, 150U);
  EXPECT_GT(texts.size(), 100U);
  // At temperature 0, and before a rule that would leave it: nothing may come.
  options.temperature = 0;
  std::vector<float> logits(tokens.size(), 0);
  logits[7] = 5;
  logits[8] = 9;
  Sampler sampler(options);
  EXPECT_EQ(sampler.Next(logits, 0), 7);
  options.rules.suppress = {1, 2, 3, 4, 5, 7, 9, 12};
  EXPECT_NE(ErrorOf([&] { Sampler(options).Next(logits, 4); }).find("position 4: every id is excluded, by the grammar"),
            std::string::npos);
}

// The first token of a text loses its blank with some tokenizers: what is printed is what keeps to the grammar.
TEST(Constraint, TheStartOfATextIsWhatIsPrinted) {
  TokenizerTables tables;
  tables.model = TokenizerModel::Unigram;
  tables.byte_ids.fill(-1);
  tables.tokens = {"</s>", " yes", "yes", " ", "no", " no"};
  tables.first_texts = {"", "yes", "yes", "", "no", "no"};
  tables.token_flags = {kTokenSpecial, kTokenInModel, kTokenInModel, kTokenInModel, kTokenInModel, kTokenInModel};
  tables.scores.assign(6, -1);
  tables.unk = 2;
  const auto allowed = [](const TokenizerTables& t, const std::vector<int32_t>& before) {
    const std::string section = BuildTokenizerSection(t);
    TokenConstraint constraint(ParseGbnf("root ::= \"yes\" \" no\"?", "g"), Tokenizer(section), kEnd);
    for (const int32_t id : before) constraint.Accept(id);
    std::vector<int32_t> ids;
    const std::vector<bool> bits = Allowed(constraint, 8);  // a model may have more rows than the tokenizer has tokens
    for (size_t i = 0; i < bits.size(); ++i) {
      if (bits[i]) ids.push_back(static_cast<int32_t>(i));
    }
    return ids;
  };
  EXPECT_EQ(allowed(tables, {}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(allowed(tables, {1}), (std::vector<int32_t>{0, 3, 5}));
  EXPECT_EQ(allowed(tables, {1, 3}), (std::vector<int32_t>{4}));
  EXPECT_EQ(allowed(tables, {1, 0}), (std::vector<int32_t>{}));
  tables.first_texts.clear();
  tables.strip_first = 1;
  EXPECT_EQ(allowed(tables, {}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(allowed(tables, {3}), (std::vector<int32_t>{2}));
}

}  // namespace
}  // namespace llmc
