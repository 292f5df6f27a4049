// What speculation gains on a plan, with the product's own sessions, lookup and policy.
//
//   speculate_bench PLAN THREADS ROUNDS rows               time of a call by its rows, in times of a decode
//   speculate_bench PLAN THREADS ROUNDS trace PROMPT TEXT   tokens a second of a text that is known
//
// PROMPT and TEXT are files of ids with commas between. A plan with random weights says nothing that could be looked up,
// so a recorded text stands in for what its sampler picks: each token is picked from its row as in a greedy run, and
// then TEXT's is taken. Ids beyond the vocabulary are numbered anew, the same id alike. Rounds alternate between one
// call a token and lookup; JSON goes to stdout, a line a round.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "runtime/loader.h"
#include "runtime/report.h"
#include "runtime/run_options.h"
#include "runtime/speculate.h"

namespace llmc {
namespace {

constexpr uint32_t kPosition = 256;  // of a call's first row

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Rows(const Executable& executable, uint32_t threads, int rounds) {
  SessionOptions options;
  options.threads = threads;
  Session session(executable, options);
  const uint32_t most = std::min(session.MostVerified(), DraftPolicy::kMostRows);
  std::vector<int32_t> prompt;
  for (uint32_t i = 0; i < kPosition; ++i) prompt.push_back(static_cast<int32_t>(i * 7919 % session.vocab()));
  session.Prefill(prompt);
  std::vector<std::vector<double>> times(most + 1);  // by rows; 0: decode
  for (int round = 0; round < rounds; ++round) {
    for (uint32_t rows = 0; rows <= most; ++rows) {
      const uint64_t start = NowNanoseconds();
      if (rows == 0) {
        session.Decode(prompt[1]);
      } else {
        session.Verify(std::span(prompt).first(rows));
      }
      times[rows].push_back(static_cast<double>(NowNanoseconds() - start) * 1e-6);
      session.Rewind(kPosition);
    }
  }
  const double one = Median(times[0]);
  JsonObject json;
  json.Text("cpu", CpuName()).Integer("threads", threads).Number("decode_ms", one);
  for (uint32_t rows = 1; rows <= most; ++rows) json.Number("rows_" + std::to_string(rows), Median(times[rows]) / one);
  WriteOut(json.Finish());
}

struct Run {
  double tokens_per_second = 0;
  SpeculationCounts counts;
};
// first: the logits behind the prompt, which the session holds.
Run Once(Session& session, std::unique_ptr<Proposer> proposer, const std::vector<int32_t>& prompt,
         const std::vector<int32_t>& text, std::span<const float> first) {
  if (!session.Rewind(static_cast<uint32_t>(prompt.size()))) throw PlanError("the session can't go back to the prompt");
  Speculator speculator(session, std::move(proposer));
  const Sampler sampler(SamplerOptions{});
  std::span<const float> logits = first;
  speculator.Begin(prompt);
  const uint64_t start = NowNanoseconds();
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    Argmax(logits, speculator.position() - 1);
    logits = speculator.Decode(text[i], static_cast<uint32_t>(text.size() - i - 2), sampler);
  }
  Argmax(logits, speculator.position() - 1);
  speculator.Settle();
  const double seconds = static_cast<double>(NowNanoseconds() - start) * 1e-9;
  return {static_cast<double>(text.size() - 1) / seconds, speculator.counts()};
}

void Trace(const Executable& executable, uint32_t threads, int rounds, std::vector<int32_t> prompt,
           std::vector<int32_t> text) {
  SessionOptions options;
  options.threads = threads;
  Session session(executable, options);
  const auto highest =
      std::max(*std::max_element(prompt.begin(), prompt.end()), *std::max_element(text.begin(), text.end()));
  if (static_cast<uint32_t>(highest) >= session.vocab()) {
    std::map<int32_t, int32_t> numbers;
    for (std::vector<int32_t>* ids : {&prompt, &text})
      for (int32_t& id : *ids) id = numbers.try_emplace(id, static_cast<int32_t>(numbers.size())).first->second;
  }
  const std::span<const float> logits = session.Prefill(prompt);
  const std::vector<float> first(logits.begin(), logits.end());
  for (int round = 0; round < rounds; ++round) {
    const Run plain = Once(session, nullptr, prompt, text, first);
    const Run lookup = Once(session, MakeNgramProposer(), prompt, text, first);
    JsonObject json;
    json.Text("cpu", CpuName())
        .Integer("threads", threads)
        .Integer("prompt", prompt.size())
        .Integer("tokens", text.size());
    json.Number("plain", plain.tokens_per_second).Number("lookup", lookup.tokens_per_second);
    json.Integer("proposed_tokens", lookup.counts.proposed)
        .Integer("accepted_tokens", lookup.counts.accepted)
        .Integer("verify_calls", lookup.counts.calls);
    WriteOut(json.Finish());
  }
}

int Main(const std::vector<std::string>& words) {
  const bool rows = words.size() == 4 && words[3] == "rows", trace = words.size() == 6 && words[3] == "trace";
  if (!rows && !trace) {
    std::fprintf(stderr, "usage: speculate_bench PLAN THREADS ROUNDS rows | trace PROMPT TEXT\n");
    return 2;
  }
  try {
    const Executable executable = LoadPlan(words[0]);
    const auto threads = static_cast<uint32_t>(std::atoi(words[1].c_str()));
    const int rounds = std::max(1, std::atoi(words[2].c_str()));
    if (rows) {
      Rows(executable, threads, rounds);
    } else {
      Trace(executable, threads, rounds, ParseTokens("@" + words[4]), ParseTokens("@" + words[5]));
    }
  } catch (const PlanError& error) {
    std::fprintf(stderr, "speculate_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) { return llmc::Main({argv + 1, argv + argc}); }
