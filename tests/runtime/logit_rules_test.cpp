// Rules and filters of the sampler against Hugging Face's logits processors (tools/golden/sampler.py).
#include "runtime/logit_rules.h"

#include <bit>
#include <cmath>
#include <map>
#include <sstream>

#include "runtime/sampler.h"
#include "runtime/stop_strings.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

using Case = std::map<std::string, std::string>;

std::vector<Case> Cases() {
  std::istringstream in(ReadFile(LLMC_SOURCE_DIR "/tests/data/sampler/hugging_face.txt"));
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    if (line == "case") {
      cases.emplace_back();
    } else {
      cases.back()[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
    }
  }
  return cases;
}

std::vector<int32_t> Ids(const std::string& text, char separator = ',') {
  std::vector<int32_t> ids;
  std::istringstream in(text);
  for (std::string id; text != "none" && std::getline(in, id, separator);) ids.push_back(std::stoi(id));
  return ids;
}
std::vector<float> Floats(const std::string& text) {
  std::vector<float> values;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(std::stoul(word, nullptr, 16))));
  return values;
}

LogitRules RulesOf(const Case& c) {
  LogitRules rules;
  const auto with = [&](const char* key, auto f) {
    if (const auto found = c.find(key); found != c.end()) f(found->second);
  };
  with("repetition_penalty", [&](const std::string& v) { rules.repetition_penalty = std::stof(v); });
  with("no_repeat_ngram_size",
       [&](const std::string& v) { rules.no_repeat_ngram = static_cast<uint32_t>(std::stoi(v)); });
  with("min_new_tokens", [&](const std::string& v) { rules.min_new_tokens = static_cast<uint32_t>(std::stoi(v)); });
  with("forced_eos_token_id", [&](const std::string& v) { rules.forced_last = Ids(v); });
  with("limit", [&](const std::string& v) { rules.limit = static_cast<uint64_t>(std::stoi(v)); });
  with("suppress_tokens", [&](const std::string& v) { rules.suppress = Ids(v); });
  with("begin_suppress_tokens", [&](const std::string& v) { rules.begin_suppress = Ids(v); });
  with("stop_ids", [&](const std::string& v) { rules.stop_ids = Ids(v); });
  with("bad_words_ids", [&](const std::string& v) {
    std::istringstream in(v);
    for (std::string word; std::getline(in, word, ';');) rules.bad_words.push_back(Ids(word));
  });
  with("bias", [&](const std::string& v) {
    std::istringstream in(v);
    for (std::string word; std::getline(in, word, ',');)
      rules.bias.emplace_back(std::stoi(word), std::stof(word.substr(word.find('=') + 1)));
  });
  return rules;
}

// CASES E08 among them: the repetition penalty.
TEST(LogitRules, AreHuggingFaces) {
  size_t cases = 0;
  for (const Case& c : Cases()) {
    if (!c.contains("scores")) continue;
    ++cases;
    const LogitRules rules = RulesOf(c);
    std::vector<int32_t> ids = Ids(c.at("prompt"));
    const size_t prompt = ids.size();
    for (const int32_t id : Ids(c.at("new"))) ids.push_back(id);
    const LogitHistory history{ids, prompt};
    std::vector<float> scores = Floats(c.at("logits"));
    ApplyBias(rules, scores);
    ApplyRepetitionPenalty(rules, history, scores);
    ApplyNoRepeatNgram(rules, history, scores);
    ApplyBadWords(rules, history, scores);
    ApplyMinNewTokens(rules, history, scores);
    ApplyForcedLast(rules, history, scores);
    ApplySuppressed(rules, history, scores);
    const std::vector<float> expected = Floats(c.at("scores"));
    ASSERT_EQ(scores.size(), expected.size());
    for (size_t i = 0; i < scores.size(); ++i)
      EXPECT_EQ(std::bit_cast<uint32_t>(scores[i]), std::bit_cast<uint32_t>(expected[i]))
          << c.begin()->first << " " << c.begin()->second << ", id " << i;
  }
  EXPECT_EQ(cases, 48U);
}

TEST(Sampler, FiltersAreHuggingFaces) {
  size_t cases = 0;
  for (const Case& c : Cases()) {
    if (!c.contains("kept")) continue;
    ++cases;
    SamplerOptions options;
    const auto number = [&](const char* key, double otherwise) {
      return c.contains(key) ? std::stod(c.at(key)) : otherwise;
    };
    options.temperature = number("temperature", 1);
    options.top_k = static_cast<int32_t>(number("top_k", 0));
    options.top_p = number("top_p", 1);
    options.min_p = number("min_p", 0);
    options.typical_p = number("typical_p", 1);
    Sampler sampler(options);
    sampler.Next(Floats(c.at("logits")), 0);
    EXPECT_EQ(sampler.Kept(), Ids(c.at("kept"))) << c.begin()->first << " " << c.begin()->second;
  }
  EXPECT_EQ(cases, 51U);
}

TEST(Sampler, StagesGoInTheOrderAskedFor) {
  const std::vector<float> logits = {3, 2, 1, 0};
  SamplerOptions options;
  options.temperature = 10;
  options.min_p = 0.2;
  const auto kept = [&] {
    Sampler sampler(options);
    sampler.Next(logits, 0);
    return sampler.Kept().size();
  };
  EXPECT_EQ(kept(), 4U);  // at temperature 10 all are above a fifth
  options.order = {SamplerStage::MinP, SamplerStage::Temperature};
  EXPECT_EQ(kept(), 2U);
  options.order = {SamplerStage::Temperature};
  EXPECT_EQ(kept(), 4U);
  options.rules.suppress = {0};
  EXPECT_EQ(kept(), 4U);  // a stage that is left out does nothing
  options.order.push_back(SamplerStage::Suppressed);
  EXPECT_EQ(kept(), 3U);
}

TEST(Sampler, ARuleThatLeavesNothingIsAnError) {
  SamplerOptions options;
  options.rules.suppress = {0, 1};
  EXPECT_NE(
      ErrorOf([&] { Sampler(options).Next(std::vector<float>{1, 2}, 5); }).find("position 5: every id is excluded"),
      std::string::npos);
}

TEST(Sampler, NewIdsCountForTheRules) {
  SamplerOptions options;
  options.rules.no_repeat_ngram = 1;
  const std::vector<int32_t> prompt = {2};
  Sampler sampler(options, prompt);
  const std::vector<float> logits = {1, 2, 3, 0};
  EXPECT_EQ(sampler.Next(logits, 0), 1);
  EXPECT_EQ(sampler.Next(logits, 1), 0);
  EXPECT_EQ(sampler.Next(logits, 2), 3);
}

// Whatever the pieces are, the text ends before the first stop string, and nothing of one comes out.
TEST(StopStrings, AcrossPieces) {
  const std::string text = "one two</s>three";
  for (size_t size = 1; size <= text.size(); ++size) {
    StopStrings stops({"</s>", "<end>", "zzz"});
    std::string out;
    for (size_t at = 0; at < text.size(); at += size) {
      out += stops.Push(text.substr(at, size));
      EXPECT_EQ(out.find('<'), std::string::npos);
    }
    EXPECT_TRUE(stops.stopped());
    EXPECT_EQ(out + stops.Finish(), "one two");
  }
  StopStrings stops({"abab"});
  EXPECT_EQ(stops.Push("xaba"), "x");
  EXPECT_EQ(stops.Push("c"), "abac");
  EXPECT_EQ(stops.Push("ab"), "");
  EXPECT_EQ(stops.Finish(), "ab");
  EXPECT_FALSE(stops.stopped());
  StopStrings none({});
  EXPECT_EQ(none.Push("abc"), "abc");
}

}  // namespace
}  // namespace llmc
