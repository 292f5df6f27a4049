// llmc-run's command line: what is printed where, exit statuses, and what is refused before work.
#include "runtime/run.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/npy.h"
#include "runtime/plan_hash.h"
#include "runtime/sampler.h"
#include "tests/runtime/cli.h"
#include "tests/runtime/support.h"

namespace llmc {
namespace {

using test::Cli;
using test::Outcome;

// Greedy continuation by the definition of the model.
std::vector<int32_t> Greedy(std::vector<int32_t> tokens, size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    ids.push_back(Argmax(HashLogits(tokens), 0));
    tokens.push_back(ids.back());
  }
  return ids;
}

std::string Joined(const std::vector<int32_t>& ids) {
  std::string text;
  for (int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

TEST(Run, GeneratesTheSameIdsForAnyThreads) {
  const HashModel model;
  const std::string want = Joined(Greedy({1, 2, 3}, 12)) + "\n";
  for (const char* threads : {"1", "2", "3", "4", "7"}) {
    const Outcome run = Cli({model.path(), "--tokens", "1,2,3", "-n", "12", "--temp", "0", "--print-tokens",
                             "--ignore-eos", "-t", threads});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, want);
    EXPECT_NE(run.err.find("stop: length"), std::string::npos) << run.err;
  }
  EXPECT_EQ(Cli({model.path(), "--tokens=1,2,3", "-n", "12", "--print-tokens", "--ignore-eos", "--chunk", "2"}).out,
            want);
}

TEST(Run, StopsAtAStopId) {
  const std::vector<int32_t> ids = Greedy({1, 2, 3}, 8);
  const size_t at = static_cast<size_t>(std::find(ids.begin(), ids.end(), ids[4]) - ids.begin());
  const HashModel model("stop_ids 5", "stop_ids 63," + std::to_string(ids[4]));
  Outcome run = Cli({model.path(), "--tokens", "1,2,3", "-n", "8", "--print-tokens"});
  EXPECT_EQ(run.out, Joined({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(at)}) + "\n");
  EXPECT_NE(run.err.find("stop: eos"), std::string::npos) << run.err;
  run = Cli({model.path(), "--tokens", "1,2,3", "-n", "8", "--print-tokens", "--ignore-eos"});
  EXPECT_EQ(run.out, Joined(ids) + "\n");
}

// CASES E01, E02: there is no shifting of the context; text ends at its limit.
TEST(Run, TheContextBoundsPromptAndNewTokens) {
  const HashModel model;
  const auto run = [&](int prompt) {
    std::string ids = "1";
    for (int i = 1; i < prompt; ++i) ids += ",2";
    return Cli({model.path(), "--tokens", ids, "-n", "10", "--context", "32", "--print-tokens", "--ignore-eos"});
  };
  const Outcome one = run(31), none = run(32), over = run(33);
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(std::count(one.out.begin(), one.out.end(), ','), 0);
  EXPECT_GE(one.out.size(), 2u);
  EXPECT_NE(one.err.find("stop: length"), std::string::npos);
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("stop: length"), std::string::npos);
  EXPECT_EQ(over.status, 1);
  EXPECT_NE(over.err.find("33 > 32"), std::string::npos) << over.err;
  EXPECT_EQ(over.out, "");
  EXPECT_EQ(Cli({model.path(), "--tokens", "1", "-n", "0", "--print-tokens"}).out, "");
}

TEST(Run, APrintedSeedRepeats) {
  const HashModel model;
  const std::vector<std::string> arguments = {model.path(), "--tokens",       "1,2",         "-n", "20", "--temp",
                                              "200",        "--print-tokens", "--ignore-eos"};
  const auto with_seed = [&](const std::string& seed) {
    std::vector<std::string> more = arguments;
    more.insert(more.end(), {"--seed", seed});
    return Cli(more);
  };
  const Outcome drawn = Cli(arguments);
  ASSERT_EQ(drawn.err.substr(0, 5), "seed ");
  const std::string seed = drawn.err.substr(5, drawn.err.find('\n') - 5);
  EXPECT_EQ(with_seed(seed).out, drawn.out);
  EXPECT_EQ(with_seed("18446744073709551615").status, 0);
  EXPECT_EQ(with_seed("4294967295").out, with_seed("4294967295").out);
  EXPECT_NE(with_seed("0").out, with_seed("1").out);
  // At temperature 0 the seed is nothing.
  EXPECT_EQ(Cli({model.path(), "--tokens", "1", "-n", "9", "--print-tokens", "--seed", "3"}).out,
            Cli({model.path(), "--tokens", "1", "-n", "9", "--print-tokens"}).out);
}

TEST(Run, SamplingDefaultsComeFromThePlan) {
  const HashModel model("stop_ids 5\n", "stop_ids 5\ndo_sample\ntemperature 200\ntop_k 2\n");
  const std::vector<std::string> base = {model.path(),     "--tokens",     "1,2",    "-n", "20",
                                         "--print-tokens", "--ignore-eos", "--seed", "7"};
  std::vector<std::string> explicit_values = base, greedy = base;
  explicit_values.insert(explicit_values.end(), {"--temp", "200", "--top-k", "2", "--top-p", "1", "--min-p", "0"});
  greedy.insert(greedy.end(), {"--temp", "0"});
  EXPECT_EQ(Cli(base).out, Cli(explicit_values).out);
  EXPECT_EQ(Cli(greedy).out, Joined(Greedy({1, 2}, 20)) + "\n");
  EXPECT_NE(Cli(base).out, Cli(greedy).out);
}

// Answer k is that of seed S + k; the one with the greatest mean log probability is printed, with its seed.
TEST(Run, BestOfSeveral) {
  const HashModel model;
  const std::vector<std::string> base = {
      model.path(), "--tokens",       "1,2",          "-n",         "6", "--temp",
      "300",        "--print-tokens", "--ignore-eos", "--suppress", "63"};  // behind 63 nothing is finite
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return Cli(more);
  };
  double best = -1e300;
  std::string want;
  int seed = 0;
  for (int s = 41; s < 46; ++s) {
    const Outcome one = with({"--seed", std::to_string(s)});
    std::vector<int32_t> tokens = {1, 2};
    double sum = 0;
    std::istringstream in(one.out);
    for (std::string id; std::getline(in, id, ',');) {
      sum -= NegativeLogLikelihood(HashLogits(tokens), std::stoi(id));
      tokens.push_back(std::stoi(id));
    }
    EXPECT_EQ(tokens.size(), 8U);
    if (sum / 6 > best) best = sum / 6, want = one.out, seed = s;
  }
  EXPECT_NE(seed, 41);  // else the first is taken for nothing
  const Outcome run = with({"--seed", "41", "--best-of", "5"});
  EXPECT_EQ(run.out, want);
  EXPECT_NE(run.err.find("best of 5: seed " + std::to_string(seed) + ","), std::string::npos) << run.err;
  const Outcome json = with({"--seed", "41", "--best-of", "5", "--json"});
  EXPECT_NE(json.out.find("\"seed\": " + std::to_string(seed)), std::string::npos) << json.out;
  EXPECT_NE(json.out.find("\"mean_logprob\": "), std::string::npos);
  EXPECT_EQ(with({"--seed", "40", "--best-of", "1"}).out, with({"--seed", "40"}).out);
  EXPECT_EQ(Cli({model.path(), "--tokens", "1", "--print-tokens", "--best-of", "2"}).status, 2);  // greedy
  EXPECT_EQ(Cli({model.path(), "--chat", "--best-of", "2"}).status, 2);
}

TEST(Run, SamplersOfTheCommandLine) {
  const HashModel model;
  const auto ids = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {model.path(),     "--tokens",     "1,2",    "-n", "30",
                                    "--print-tokens", "--ignore-eos", "--seed", "3"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome run = Cli(all);
    EXPECT_EQ(run.status, 0) << run.err;
    std::vector<int32_t> list;
    std::istringstream in(run.out);
    for (std::string id; std::getline(in, id, ',');) list.push_back(std::stoi(id));
    return list;
  };
  std::vector<int32_t> fresh = ids({"--presence-penalty", "100000"});
  std::sort(fresh.begin(), fresh.end());
  EXPECT_EQ(std::unique(fresh.begin(), fresh.end()), fresh.end());
  EXPECT_NE(ids({"--presence-penalty", "100000", "--penalty-last-n", "1"}), ids({"--presence-penalty", "100000"}));
  EXPECT_EQ(ids({"--presence-penalty", "100000", "--sampler-order", "dry"}), Greedy({1, 2}, 30));
  EXPECT_NE(ids({"--frequency-penalty", "100000"}), Greedy({1, 2}, 30));
  const std::vector<int32_t> warm = ids({"--temp", "300"});
  EXPECT_NE(ids({"--temp", "300", "--xtc-probability", "1", "--xtc-threshold", "0.001"}), warm);
  EXPECT_EQ(ids({"--temp", "300", "--xtc-threshold", "0.001"}), warm);
  EXPECT_NE(ids({"--temp", "300", "--mirostat", "0.5"}), warm);
  EXPECT_EQ(ids({"--temp", "300", "--mirostat", "0.5", "--top-k", "1"}), ids({"--temp", "300", "--mirostat", "0.5"}));
  EXPECT_EQ(ids({"--dry-multiplier", "2"}).size(), 30U);  // a plan without a tokenizer has no default breakers
  const Outcome run =
      Cli({model.path(), "--tokens", "1", "--print-tokens", "--dry-multiplier", "1", "--dry-breaker", "x"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("no tokenizer"), std::string::npos) << run.err;
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{{"--xtc-probability", "1.5"},
                                                                                     {"--mirostat", "-1"},
                                                                                     {"--dry-base", "0.9"},
                                                                                     {"--dry-allowed-length", "0"},
                                                                                     {"--dry-breaker", ""},
                                                                                     {"--presence-penalty", "nan"},
                                                                                     {"--best-of", "0"}}) {
    std::vector<std::string> all = {model.path(), "--tokens", "1", "--print-tokens"};
    all.insert(all.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(Cli(all).status, 2) << wrong[0];
  }
}

TEST(Run, WritesLogits) {
  const HashModel model;
  const std::vector<int32_t> tokens = {7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  WriteFile(model.folder() / "ids", "7, 8,9\n10,11 12\n13,14,15,16\n");
  EXPECT_EQ(
      Cli({model.path(), "--tokens", "@" + (model.folder() / "ids"), "--logits", model.folder() / "last.npy"}).status,
      0);
  const std::vector<float> last = HashLogits(tokens);
  std::string want = NpyHeader(1, 64) + std::string(reinterpret_cast<const char*>(last.data()), 256);
  EXPECT_EQ(ReadFile(model.folder() / "last.npy"), want);
  EXPECT_EQ(want.size() % 64, 0u);
  EXPECT_EQ(want.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  const Outcome all = Cli(
      {model.path(), "--tokens", Joined(tokens), "--logits", model.folder() / "all.npy", "--all-positions", "-t", "3"});
  EXPECT_EQ(all.out, "");
  want = NpyHeader(10, 64);
  for (size_t n = 1; n <= tokens.size(); ++n) {
    const std::vector<float> row = HashLogits(std::span(tokens).first(n));
    want += std::string(reinterpret_cast<const char*>(row.data()), 256);
  }
  EXPECT_EQ(ReadFile(model.folder() / "all.npy"), want);
  // A failure leaves nothing behind.
  EXPECT_EQ(Cli({model.path(), "--tokens", "99", "--logits", model.folder() / "bad.npy"}).status, 1);
  EXPECT_EQ(Cli({model.path(), "--tokens", "1", "--logits", model.folder() / "no/bad.npy"}).status, 1);
  EXPECT_EQ(model.folder().Count(), 4u);
}

TEST(Run, NamesTheStepOfANan) {
  const HashModel model;
  const Outcome run = Cli({model.path(), "--tokens", "1,63", "-n", "3", "--print-tokens"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("position 1: the logit of id 0 is NaN"), std::string::npos) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST(Run, SelfTest) {
  const std::vector<int32_t> ids = {4, 8, 15, 16, 23, 42, 1, 2};
  std::vector<float> all;
  for (size_t n = 1; n <= ids.size(); ++n) {
    const std::vector<float> row = HashLogits(std::span(ids).first(n));
    all.insert(all.end(), row.begin(), row.end());
  }
  char line[128];
  const unsigned long long last = Xxh3Of(all.data() + 7 * 64, 256), rows = Xxh3Of(all.data(), 4 * all.size());
  std::snprintf(line, sizeof(line), "self_test 4,8,15,16,23,42,1,2 %016llx %016llx %016llx\n", last, rows, rows);
  const std::string none = "self_test none 0000000000000000 0000000000000000 0000000000000000\n";
  const HashModel model(none, line);
  EXPECT_EQ(Cli({model.path(), "--selftest"}).out, "self-test passed\n");
  EXPECT_EQ(Cli({model.path(), "--selftest", "-t", "4"}).status, 0);
  std::snprintf(line, sizeof(line), "self_test 4,8,15,16,23,42,1,2 %016llx %016llx %016llx\n", last, rows, rows + 1);
  const HashModel broken(none, line);
  const Outcome run = Cli({broken.path(), "--selftest"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("self-test: score gives"), std::string::npos) << run.err;
  const HashModel without;
  EXPECT_NE(Cli({without.path(), "--selftest"}).err.find("no self-test"), std::string::npos);
}

TEST(Run, SelfTestOfAPlanThatIsntExact) {
  const std::vector<int32_t> ids = {4, 8, 15};
  const std::vector<float> last = HashLogits(ids);
  // `off` is added to score's logit of id 63.
  const auto text = [&](float off, const char* bound) {
    const auto row = [&](float more) {
      char values[64];
      std::snprintf(values, sizeof(values), " %.9g,%.9g", static_cast<double>(last[3]),
                    static_cast<double>(last[63] + more));
      return std::string(values);
    };
    std::string all = HashModelText();
    const auto swap = [&](const std::string& from, const std::string& to) {
      all.replace(all.find(from), from.size(), to);
    };
    swap("plan 1.0", "plan 1.1");
    swap("numerics \"exact\"", "numerics \"near\"");
    swap("self_test none 0000000000000000 0000000000000000 0000000000000000\n",
         "self_test 4,8,15 0000000000000000 0000000000000000 0000000000000000\nself_test_logits " + std::string(bound) +
             " 3,63" + row(0) + row(0) + row(off) + "\n");
    return all;
  };
  const TempFolder folder;
  Assemble(text(0, "0"), folder / "same.plan");
  EXPECT_EQ(Cli({folder / "same.plan", "--selftest", "-t", "3"}).out,
            "self-test passed: NMSE prefill 0.00e+00, decode 0.00e+00, score 0.00e+00 (at most 0.00e+00)\n");
  Assemble(text(1, "1e-05"), folder / "near.plan");
  const Outcome near = Cli({folder / "near.plan", "--selftest"});
  EXPECT_EQ(near.status, 0) << near.err;
  EXPECT_NE(near.out.find("(at most 1.00e-05)"), std::string::npos) << near.out;
  Assemble(text(100, "1e-05"), folder / "far.plan");
  const Outcome far = Cli({folder / "far.plan", "--selftest"});
  EXPECT_EQ(far.status, 1);
  EXPECT_NE(far.err.find("self-test: score is at NMSE "), std::string::npos) << far.err;
  EXPECT_NE(far.err.find("the plan allows 1.00e-05"), std::string::npos) << far.err;
}

// Text of ids, as the test tokenizer decodes it (special and missing ones are nothing).
std::string TextOf(const std::vector<int32_t>& ids) {
  std::string text;
  for (int32_t id : ids) text += id >= 1 && id < 59 ? std::string(1, static_cast<char>('@' + id)) : "";
  return text;
}

// A grammar's text, which ends the answer when nothing can follow; what is wrong with its file is named by place.
TEST(Run, AnswersKeepToAGrammar) {
  const HashModel model("stop_ids 5", "stop_ids none");
  Assemble(HashModelText() + "section tokenizer hex" + HexLines(HashTokenizer(false)) + "\nend\n", model.path());
  const auto with = [&](const std::string& option, const std::string& text, std::vector<std::string> more = {}) {
    WriteFile(model.folder() / "source", text);
    more.insert(more.begin(), {model.path(), "-p", "ABC", "-n", "40", option, model.folder() / "source"});
    return Cli(more);
  };
  Outcome run = with("--grammar", "root ::= word \"_\" [a-f]\nword ::= [X-Z]{4,20}");
  EXPECT_EQ(run.status, 0) << run.err;
  const size_t bar = run.out.find('_');
  ASSERT_NE(bar, std::string::npos) << run.out;
  EXPECT_TRUE(bar >= 4 && bar <= 20 && run.out.size() == bar + 3) << run.out;
  EXPECT_EQ(run.out.find_first_not_of("XYZ"), bar);
  EXPECT_NE(run.err.find("stop: grammar"), std::string::npos) << run.err;
  // The same for each of several, sampled ones, and as ids.
  run = with("--grammar", "root ::= [X-Z] [a-f]", {"--temp", "300", "--best-of", "3", "--print-tokens"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), ','), 1) << run.out;
  EXPECT_EQ(with("--json-schema", R"({"type": "array", "maxItems": 0})").out, "[]\n");
  EXPECT_EQ(with("--grammar", "root ::= \"\"").out, "");
  run = with("--grammar", "root ::= \"a\" $");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("source:1:14: "), std::string::npos) << run.err;
  run = with("--json-schema", R"({"type": "string", "pattern": "a"})");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("source: #/pattern: "), std::string::npos) << run.err;
  run = with("--grammar", "root ::= \"a!\"");  // the vocabulary has no !
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("position 3: every id is excluded, by the grammar"), std::string::npos) << run.err;
  EXPECT_EQ(Cli({model.path(), "-p", "A", "--grammar", model.folder() / "none"}).status, 1);
  EXPECT_EQ(Cli({model.path(), "-p", "A", "--grammar", "a", "--json-schema", "b"}).status, 2);
  EXPECT_EQ(Cli({model.path(), "-p", "A", "--grammar", "a", "--ignore-eos"}).status, 2);
  EXPECT_EQ(Cli({model.path(), "--tokens", "1", "--grammar", "a", "--top-logits", "3"}).status, 2);
}

TEST(Run, TextInAndOut) {
  const HashModel model("stop_ids 5", "stop_ids none"), with_bos("stop_ids 5", "stop_ids none");
  for (const auto& [plan, bos] : {std::pair(&model, false), std::pair(&with_bos, true)}) {
    Assemble(HashModelText() + "section tokenizer hex" + HexLines(HashTokenizer(bos)) + "\nend\n", plan->path());
  }
  Outcome run = Cli({model.path(), "-p", "ABC", "-n", "12", "--temp", "0", "--ignore-eos"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, TextOf(Greedy({1, 2, 3}, 12)) + "\n");
  run = Cli({model.path(), "-p", "ABC", "-n", "12", "--ignore-eos", "--json"});
  EXPECT_NE(run.out.find("{\"text\": \"" +
                         [](std::string text) {
                           for (size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at + 2))
                             text.insert(at, 1, '\\');
                           return text;
                         }(TextOf(Greedy({1, 2, 3}, 12))) +
                         "\""),
            std::string::npos)
      << run.out;
  EXPECT_EQ(Cli({with_bos.path(), "-p", "A", "-n", "3", "--print-tokens", "--ignore-eos"}).out,
            Joined(Greedy({60, 1}, 3)) + "\n");
  // An empty prompt is BOS where the model has one.
  EXPECT_EQ(Cli({with_bos.path(), "-p", "", "-n", "3", "--print-tokens", "--ignore-eos"}).out,
            Joined(Greedy({60}, 3)) + "\n");
  run = Cli({model.path(), "-p", "", "-n", "3"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("empty prompt"), std::string::npos) << run.err;
  EXPECT_EQ(Cli({model.path(), "-p", "A", "-n", "0"}).out, "");
}

TEST(Run, PerplexityCutsWindowsAndLeavesTheirFirstTokenOut) {
  const HashModel model;
  const std::vector<float> weights(kHashVocab, 0.00390625f);
  std::string plan = HashModelText();
  plan.replace(plan.find("section weights hex"), plan.find("section code") - plan.find("section weights hex"),
               "section weights hex" + HexLines({reinterpret_cast<const char*>(weights.data()), 256}) + "\nend\n");
  Assemble(plan + "section tokenizer hex" + HexLines(HashTokenizer(false)) + "\nend\n", model.path());
  const std::string text = "TheLastWindowIsShorterThanTheOthers";
  WriteFile(model.folder() / "text", text);
  double sum = 0;
  int scored = 0;
  for (size_t at = 0; at < text.size(); at += 16) {
    std::vector<int32_t> window;
    for (const char c : text.substr(at, 16)) {
      if (!window.empty()) {
        sum += NegativeLogLikelihood(HashLogits(window, weights[0]), c - '@');
        ++scored;
      }
      window.push_back(c - '@');
    }
  }
  const Outcome run = Cli({model.path(), "--perplexity", model.folder() / "text", "--context", "16", "-t", "2"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NEAR(std::log(std::stod(run.out)), sum / scored, 1e-5) << run.out;
  EXPECT_NE(run.err.find(std::to_string(scored) + " tokens scored in 3 windows"), std::string::npos) << run.err;
  WriteFile(model.folder() / "text", "T");
  EXPECT_NE(Cli({model.path(), "--perplexity", model.folder() / "text"}).err.find("needs at least 2"),
            std::string::npos);
}

TEST(Run, BenchAndJson) {
  const HashModel model;
  const Outcome bench = Cli({model.path(), "--bench", "-p", "16", "-n", "4", "-r", "2", "-t", "2", "--json"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  for (const char* key : {"load_ms", "ttft_ms", "prefill_tokens_per_second", "decode_tokens_per_second",
                          "peak_rss_bytes", "prompt_tokens\": 16", "generated_tokens\": 4", "threads\": 2", "cpu",
                          "stream_bytes_per_second", "weights_bytes\": 256"}) {
    EXPECT_NE(bench.out.find(std::string("\"") + key), std::string::npos) << key << ": " << bench.out;
  }
  EXPECT_EQ(std::count(bench.out.begin(), bench.out.end(), '\n'), 1);
  EXPECT_EQ(Cli({model.path(), "--bench", "-r", "1"}).status, 0);
  EXPECT_NE(Cli({model.path(), "--bench", "-p", "40", "-n", "9"}).err.find("49 > 48"), std::string::npos);
  const Outcome json = Cli({model.path(), "--tokens", "1,2", "-n", "3", "--print-tokens", "--ignore-eos", "--json"});
  std::string ids = Joined(Greedy({1, 2}, 3));
  for (size_t at = ids.find(','); at != std::string::npos; at = ids.find(',', at + 1)) ids.insert(at + 1, " ");
  EXPECT_NE(json.out.find("{\"tokens\": [" + ids + "], \"stop\": \"length\", \"load_ms\": "), std::string::npos)
      << json.out;
}

TEST(Run, WrongUseIsStatus2) {
  const HashModel model;
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);  // a pipe or a file would bring a prompt
  dup2(null, STDIN_FILENO);
  close(null);
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{}, "no plan"},
      {{"a"}, "no prompt"},
      {{"a", "--selftest", "--json"}, "--json goes with"},
      {{"a", "-p", "x", "--logits", ""}, "a file's name"},
      {{"--tokens", "1"}, "no plan"},
      {{"a", "b", "--tokens", "1"}, "\"b\" is too much"},
      {{"a", "--frobnicate"}, "--frobnicate isn't known"},
      {{"a", "-n"}, "-n needs a value"},
      {{"a", "-p", "x", "-n", "many"}, "\"many\" isn't a number"},
      {{"a", "-p", "x", "-n", "-1"}, "\"-1\" isn't a number"},
      {{"a", "-p", "x", "-t", "0"}, "\"0\" isn't a number from 1"},
      {{"a", "-p", "x", "--temp", "-1"}, "--temp: \"-1\""},
      {{"a", "-p", "x", "--temp", "nan"}, "--temp: \"nan\""},
      {{"a", "-p", "x", "--temp", "inf"}, "--temp: \"inf\""},
      {{"a", "-p", "x", "--top-p", "1.1"}, "--top-p: \"1.1\""},
      {{"a", "-p", "x", "--seed", "18446744073709551616"}, "--seed"},
      {{"a", "-p", "x", "--json=1"}, "--json takes no value"},
      {{"a", "-p", "x", "--tokens", "1"}, "-p, -f and --tokens exclude"},
      {{"a", "-p", "x", "-p", "y"}, "-p is given twice"},
      {{"a", "-f", "x", "--bench"}, "neither --tokens nor -f"},
      {{"a", "--tokens", "1", "--stop", "x", "--print-tokens"}, "--print-tokens"},
      {{"a", "-p", "x", "--logit-bias", "1"}, "ID=BIAS"},
      {{"a", "-p", "x", "--sampler-order", "warm"}, "a stage of the sampler"},
      {{model.path(), "--tokens", "1,,2", "--print-tokens"}, "byte 2: not a list of ids"},
      {{"a", "--bench", "--selftest"}, "exclude each other"},
      {{"a", "-p", "x", "--all-positions"}, "--all-positions needs --logits"},
      {{"a", "-p", "x", "--logits", "o", "-n", "3"}, "generates nothing"},
      {{"a", "--perplexity", "f", "-p", "x"}, "take no prompt"},
      {{model.path(), "--tokens", "1;2", "--print-tokens"}, "byte 0: not a list of ids"},
      {{model.path(), "--tokens", "99999999999", "--print-tokens"}, "not a list of ids"},
      {{model.path(), "--bench", "-p", "x"}, "a number of tokens, not \"x\""},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome run = Cli(arguments);
    EXPECT_EQ(run.status, 2) << message << ": " << run.err;
    EXPECT_NE(run.err.find(message), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(Run, InputAtFaultIsStatus1) {
  const HashModel model;
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"/none.plan", "--tokens", "1", "--print-tokens"}, "/none.plan: can't open"},
      {{model.path(), "--tokens", "", "--print-tokens"}, "empty prompt"},
      {{model.path(), "--tokens", "64", "--print-tokens"}, "token 0 is 64, not in 0..63"},
      {{model.path(), "--tokens", "-1", "--print-tokens"}, "token 0 is -1"},
      {{model.path(), "--tokens", "@/none", "--print-tokens"}, "/none: can't open"},
      {{model.path(), "--tokens", "1", "--context", "49", "--print-tokens"}, "49 positions is over the plan's 48"},
      {{model.path(), "-p", "text"}, "the plan has no tokenizer"},
      {{model.path(), "--perplexity", "/none"}, "the plan has no tokenizer"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome run = Cli(arguments);
    EXPECT_EQ(run.status, 1) << message;
    EXPECT_NE(run.err.find(message), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(Run, HelpAndVersion) {
  EXPECT_EQ(Cli({"--version"}).out, "llmc-run " LLMC_VERSION "\n");
  EXPECT_NE(Cli({"--help"}).out.find("--print-tokens"), std::string::npos);
  EXPECT_TRUE(IsRunOption("--temp"));
  EXPECT_TRUE(IsRunOption("--temp=1"));
  EXPECT_FALSE(IsRunOption("--activations"));
  EXPECT_FALSE(IsRunOption("PLAN"));
  EXPECT_TRUE(RunOptionTakesValue("-n", "5"));
  EXPECT_FALSE(RunOptionTakesValue("--temp=1", "5"));
  EXPECT_FALSE(RunOptionTakesValue("--json", "x.npy"));
}

}  // namespace
}  // namespace llmc
