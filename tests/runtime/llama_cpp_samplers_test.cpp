// Penalties, DRY, XTC and mirostat against llama.cpp's samplers (tools/golden/sampler_llama_cpp.py).
#include <bit>
#include <cmath>
#include <map>
#include <sstream>

#include "runtime/dry.h"
#include "runtime/mirostat.h"
#include "runtime/penalties.h"
#include "runtime/sampler.h"
#include "runtime/xtc.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

struct Case {
  std::map<std::string, std::string> values;
  std::vector<std::string> steps;
  bool Has(const char* key) const { return values.contains(key); }
  double Number(const char* key, double otherwise = 0) const {
    return Has(key) ? std::stod(values.at(key)) : otherwise;
  }
};

std::vector<int32_t> Ids(const std::string& text) {
  std::vector<int32_t> ids;
  std::istringstream in(text);
  for (std::string id; text != "none" && std::getline(in, id, ',');) ids.push_back(std::stoi(id));
  return ids;
}

float Float(const std::string& hex) {
  return std::bit_cast<float>(static_cast<uint32_t>(std::stoul(hex, nullptr, 16)));
}

std::string Bytes(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

struct File {
  std::string tokenizer;  // section
  std::vector<std::vector<float>> rows;
  std::vector<Case> cases;
};

const File& Golden() {
  static const File* file = [] {
    auto* f = new File;
    TokenizerTables tables;
    tables.byte_ids.fill(-1);
    std::istringstream in(ReadFile(LLMC_SOURCE_DIR "/tests/data/sampler/llama_cpp.txt"));
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line.substr(std::min(line.size(), line.find(' ') + 1)));
      const std::string key = line.substr(0, line.find(' '));
      if (key == "token") {
        std::string hex;
        words >> hex;
        const std::string token = Bytes(hex);
        if (token.size() == 1)
          tables.byte_ids[static_cast<uint8_t>(token[0])] = static_cast<int32_t>(tables.tokens.size());
        tables.tokens.push_back(token);
        tables.token_flags.push_back(token[0] == '<' ? kTokenSpecial : kTokenInModel);
      } else if (key == "merge") {
        Merge merge;
        words >> merge.left >> merge.right >> merge.result;
        tables.merges.push_back(merge);
      } else if (key == "row") {
        f->rows.emplace_back();
        for (std::string hex; words >> hex;) f->rows.back().push_back(Float(hex));
      } else if (key == "case") {
        f->cases.emplace_back();
      } else if (key == "step") {
        f->cases.back().steps.push_back(words.str());
      } else {
        f->cases.back().values[key] = words.str();
      }
    }
    f->tokenizer = BuildTokenizerSection(tables);
    return f;
  }();
  return *file;
}

const std::vector<float>& Row(const std::string& number) { return Golden().rows.at(std::stoul(number)); }

Candidates CandidatesOf(const std::vector<float>& logits) {
  Candidates candidates;
  double highest = -1e9;
  for (const float v : logits) highest = std::max(highest, static_cast<double>(v));
  for (size_t i = 0; i < logits.size(); ++i)
    candidates.list.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i]) - highest, 0});
  return candidates;
}
std::vector<int32_t> IdsOf(const Candidates& candidates) {
  std::vector<int32_t> ids;
  for (const Candidate& c : candidates.list) ids.push_back(c.id);
  return ids;
}

// The changes that a case expects, to the last bit but one: there llama.cpp's compiler may fuse a product and a sum.
void ExpectScores(const Case& c, const std::vector<float>& scores) {
  std::vector<float> want = Row(c.values.at("logits"));
  std::istringstream in(c.values.at("scores"));
  for (std::string word; c.values.at("scores") != "none" && in >> word;)
    want[std::stoul(word)] = Float(word.substr(word.find(':') + 1));
  ASSERT_EQ(scores.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LE(std::abs(scores[i] - want[i]), std::abs(want[i]) * 0x1p-23f)
        << c.values.at("history") << ": id " << i << ": " << scores[i] << " for " << want[i];
}

// The last ids of a history, as a sampler hands them to a penalty.
std::span<const int32_t> Last(const Case& c, const std::vector<int32_t>& history) {
  const auto n = static_cast<size_t>(c.Number("last_n"));
  return std::span(history).last(n == 0 ? history.size() : std::min(n, history.size()));
}

TEST(LlamaCppSamplers, PresenceAndFrequency) {
  size_t cases = 0;
  for (const Case& c : Golden().cases) {
    if (!c.Has("presence")) continue;
    ++cases;
    const std::vector<int32_t> history = Ids(c.values.at("history"));
    std::vector<float> scores = Row(c.values.at("logits"));
    ApplyPenalties({static_cast<float>(c.Number("presence")), static_cast<float>(c.Number("frequency"))},
                   Last(c, history), scores);
    ExpectScores(c, scores);
  }
  EXPECT_EQ(cases, 28U);
}

TEST(LlamaCppSamplers, Dry) {
  const Tokenizer tokenizer(Golden().tokenizer);
  size_t cases = 0, changed = 0;
  for (const Case& c : Golden().cases) {
    if (!c.Has("dry_base")) continue;
    ++cases;
    changed += c.values.at("scores") != "none";
    const std::vector<int32_t> history = Ids(c.values.at("history"));
    DryOptions options{static_cast<float>(c.Number("dry_multiplier")), static_cast<float>(c.Number("dry_base")),
                       static_cast<uint32_t>(c.Number("dry_allowed_length"))};
    std::vector<std::string> texts;
    std::istringstream in(c.Has("breakers") ? c.values.at("breakers") : "");
    for (std::string hex; std::getline(in, hex, ',');) texts.push_back(Bytes(hex));
    options.breakers = DryBreakers(tokenizer, texts);
    std::vector<float> scores = Row(c.values.at("logits"));
    ApplyDry(options, Last(c, history), scores);
    ExpectScores(c, scores);
  }
  EXPECT_EQ(cases, 90U);
  EXPECT_EQ(changed, 29U);
}

TEST(LlamaCppSamplers, Xtc) {
  size_t cases = 0;
  for (const Case& c : Golden().cases) {
    if (!c.Has("xtc_threshold")) continue;
    ++cases;
    Candidates candidates = CandidatesOf(Row(c.values.at("logits")));
    ExcludeTopChoices(candidates, c.Number("xtc_threshold"));
    EXPECT_EQ(IdsOf(candidates), Ids(c.values.at("kept"))) << c.Number("xtc_threshold");
  }
  EXPECT_EQ(cases, 64U);
}

TEST(LlamaCppSamplers, MirostatFollowsWhatCame) {
  size_t cases = 0;
  for (const Case& c : Golden().cases) {
    if (!c.Has("mirostat_tau")) continue;
    ++cases;
    Mirostat mirostat(c.Number("mirostat_tau"), c.Number("mirostat_eta"));
    for (const std::string& step : c.steps) {
      std::istringstream in(step);
      std::string row, kept, came;
      std::getline(in, row, '/') && std::getline(in, kept, '/') && std::getline(in, came);
      Candidates candidates = CandidatesOf(Row(row));
      mirostat.Truncate(candidates);
      EXPECT_EQ(IdsOf(candidates), Ids(kept)) << step << ", mu " << mirostat.mu();
      const double sum = candidates.Sum();
      for (const Candidate& candidate : candidates.list) {
        if (candidate.id == std::stoi(came)) mirostat.Observe(candidate.weight / sum);
      }
    }
    EXPECT_EQ(c.steps.size(), 12U);
  }
  EXPECT_EQ(cases, 6U);
}

// The stages in a sampler: they see prompt and new ids, the last ones alone if so asked, and are off when left out.
TEST(Sampler, PenaltiesAndDryCountPromptAndNewIds) {
  SamplerOptions options;
  options.penalties.frequency = 1;
  const std::vector<int32_t> prompt = {2, 2, 2};
  const std::vector<float> logits = {0, 1.5f, 3.9f};
  Sampler sampler(options, prompt);
  EXPECT_EQ(sampler.Next(logits, 0), 1);  // 2 has 0.9
  EXPECT_EQ(sampler.Next(logits, 1), 2);  // 1 has 0.5
  options.penalty_last_n = 1;
  EXPECT_EQ(Sampler(options, prompt).Next(logits, 0), 2);
  options.penalty_last_n = 0;
  options.order = {SamplerStage::Dry};
  EXPECT_EQ(Sampler(options, prompt).Next(logits, 0), 2);
  options.dry.multiplier = 1;
  EXPECT_EQ(Sampler(options, prompt).Next(logits, 0), 2);  // 2.9
  options.dry.multiplier = 3;
  EXPECT_EQ(Sampler(options, prompt).Next(logits, 0), 1);  // 0.9
  options.dry.breakers = {{2}};
  EXPECT_EQ(Sampler(options, prompt).Next(logits, 0), 2);
}

TEST(Sampler, DryBeyondF32Excludes) {
  DryOptions options{3.5f, 2};
  const std::vector<int32_t> history(200, 1);
  std::vector<float> scores = {0, 5};
  ApplyDry(options, history, scores);
  EXPECT_EQ(scores[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(scores[0], 0);
  EXPECT_NE(ErrorOf([] { DryBreakers(Tokenizer(Golden().tokenizer), std::vector<std::string>{""}); }), "");
}

TEST(Sampler, XtcIsDrawn) {
  const std::vector<float> logits = {3, 2.9f, 2.8f, -5};
  SamplerOptions options;
  options.temperature = 1;
  options.xtc_threshold = 0.2;
  const auto kept = [&](double probability, int draws) {
    options.xtc_probability = probability;
    Sampler sampler(options);
    int dropped = 0;
    for (int i = 0; i < draws; ++i) {
      sampler.Next(logits, 0);
      dropped += sampler.Kept() == std::vector<int32_t>{2, 3};
      EXPECT_TRUE(sampler.Kept().size() == 4 || sampler.Kept() == (std::vector<int32_t>{2, 3}));
    }
    return dropped;
  };
  EXPECT_EQ(kept(0, 100), 0);
  EXPECT_EQ(kept(1, 100), 100);
  EXPECT_NEAR(kept(0.3, 10000), 3000, 200);
  // Of equals the last one stays, and what comes behind it in another order sees what is left.
  options.xtc_probability = 1;
  options.order = {SamplerStage::Xtc, SamplerStage::Temperature, SamplerStage::MinP};
  options.temperature = 1e-6;
  options.min_p = 0.5;
  Sampler sampler(options);
  EXPECT_EQ(sampler.Next(std::vector<float>{3, 3, 3, -50}, 0), 2);
}

TEST(Sampler, MirostatStandsForWhatChooses) {
  const std::vector<float> logits = {3, 2, 1, 0, -1, -2, -3, -4};
  SamplerOptions options;
  options.temperature = 2;
  options.mirostat_tau = 1.03;
  options.mirostat_eta = 0;
  const auto kept = [&] {
    Sampler sampler(options);
    sampler.Next(logits, 0);
    return sampler.Kept();
  };
  EXPECT_EQ(kept(), (std::vector<int32_t>{0, 1}));  // at temperature 2 their surprises are 1.32 and 2.04, under 2 tau
  options.temperature = 1;
  EXPECT_EQ(kept(), (std::vector<int32_t>{0}));  // 0.66 and 2.10
  options.temperature = 2;
  options.top_k = 1;
  options.xtc_probability = 1;
  EXPECT_EQ(kept(), (std::vector<int32_t>{0, 1}));
  // The mean surprise comes to tau.
  options.mirostat_tau = 1.5;
  options.mirostat_eta = 0.1;
  Sampler sampler(options);
  Candidates all = CandidatesOf(logits);
  for (Candidate& c : all.list) c.x /= options.temperature;
  const double sum = all.Sum();
  double bits = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto id = static_cast<size_t>(sampler.Next(logits, 0));
    double left = 0;
    for (const int32_t k : sampler.Kept()) left += all.list[static_cast<size_t>(k)].weight;
    EXPECT_LE(left, sum * 1.0000001);
    bits -= std::log2(all.list[id].weight / left);
  }
  EXPECT_NEAR(bits / 4000, 1.5, 0.05);
  for (const double bad : {-1.0, std::nan("")}) {
    options.mirostat_tau = bad;
    EXPECT_NE(ErrorOf([&] { Sampler s(options); }).find("mirostat_tau"), std::string::npos);
  }
}

}  // namespace
}  // namespace llmc
