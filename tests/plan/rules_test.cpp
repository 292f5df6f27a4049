// The text of the sampler's rules: there and back, and what is refused.
#include "runtime/plan_rules.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

TEST(Rules, TextAndBack) {
  EXPECT_EQ(RulesText({}), "");
  EXPECT_EQ(ParseRules("", "x"), PlanRules{});
  PlanRules rules;
  rules.repetition_penalty = 1.1f;
  rules.typical_p = 0.9f;
  rules.no_repeat_ngram_size = 3;
  rules.min_new_tokens = 8;
  rules.forced_eos_token_id = {7};
  rules.suppress_tokens = {1, 2};
  rules.begin_suppress_tokens = {0};
  rules.bad_words_ids = {{1}, {2, 3}};
  rules.unused = {"num_beams = 4", "x = \"y\""};
  const std::string text =
      "repetition_penalty = 1.1\ntypical_p = 0.9\nno_repeat_ngram_size = 3\nmin_new_tokens = 8\n"
      "forced_eos_token_id = 7\nsuppress_tokens = 1,2\nbegin_suppress_tokens = 0\nbad_words_ids = 1;2,3\n"
      "unused: num_beams = 4\nunused: x = \"y\"\n";
  EXPECT_EQ(RulesText(rules), text);
  EXPECT_EQ(ParseRules(text, "x"), rules);
  CheckRules(rules, 8, "x");
}

TEST(Rules, WhatIsRefused) {
  for (const char* text : {"nothing = 1\n", "suppress_tokens\n", "suppress_tokens = \n", "suppress_tokens = 1,\n",
                           "min_new_tokens = -1\n", "repetition_penalty = 1.1x\n", "min_new_tokens = 99999999999\n"})
    EXPECT_NE(ErrorOf([&] { ParseRules(text, "where"); }).find("where: "), std::string::npos) << text;
  PlanRules rules;
  const auto refused = [&](const char* key) {
    EXPECT_NE(ErrorOf([&] { CheckRules(rules, 8, "where"); }).find(key), std::string::npos) << key;
    rules = {};
  };
  rules.suppress_tokens = {8};
  refused("suppress_tokens 8 isn't in 0..7");
  rules.bad_words_ids = {{1, -1}};
  refused("bad_words_ids -1");
  rules.repetition_penalty = 0;
  refused("repetition_penalty");
  rules.typical_p = 1.5f;
  refused("typical_p");
  rules.unused = {"a\x1b"};
  refused("printable");
}

}  // namespace
}  // namespace llmc
