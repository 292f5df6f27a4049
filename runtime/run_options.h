// llmc-run's options, in one table, for llmc-run and for `llmc run`.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/sampler.h"

namespace llmc {

// Wrong use of the command line: exit status 2.
class RunUsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RunOptions {
  std::string plan;                   // the positional argument; empty: none
  std::optional<std::string> prompt;  // -p; with --bench a number of tokens
  std::optional<std::string> file;    // -f: the prompt's text is in this file, "-" for standard input
  std::optional<std::string> tokens;  // --tokens: ids, or @FILE
  std::optional<uint32_t> count;      // -n
  uint32_t threads = 0;               // 0: the physical cores
  uint32_t context = 0;               // 0: the plan's
  uint32_t chunk = 0;                 // 0: the plan's
  uint32_t repeats = 5;               // -r
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty;
  std::optional<uint32_t> no_repeat_ngram, min_new_tokens;
  PenaltyOptions penalties;
  DryOptions dry;                                        // without breakers
  std::optional<std::vector<std::string>> dry_breakers;  // unset: DefaultDryBreakers
  uint32_t penalty_last_n = 0;
  double xtc_probability = 0, xtc_threshold = 0.1, mirostat_tau = 0, mirostat_eta = 0.1;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> suppress;
  std::vector<std::string> stop;  // strings that end the text
  std::vector<SamplerStage> sampler_order{kSamplerOrder.begin(), kSamplerOrder.end()};
  uint32_t logprobs = 0, top_logits = 0;  // 0: off
  uint32_t best_of = 1;
  std::optional<std::string> grammar, json_schema;  // files
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::optional<std::string> logits, perplexity, hidden;  // files
  bool embed = false;
  std::optional<std::string> embed_file;  // --embed OUT.npy
  std::optional<std::string> pair;        // --pair: the second text
  std::optional<std::string> pooling, prompt_name;
  std::optional<std::string> messages;  // --messages: a file with a conversation
  std::optional<std::string> prompts;   // --prompts: a file of prompts, "-" for standard input
  std::optional<uint32_t> parallel;     // sequences at once
  std::string speculate = "off";        // --speculate: off, ngram, mtp or a plan's file
  bool all_positions = false, print_tokens = false, ignore_eos = false, self_test = false, bench = false, json = false,
       version = false, help = false, chat = false, render = false, parse_special = false;
};

// Whether the options want a prompt and name none: standard input can bring it.
bool LacksPrompt(const RunOptions& options);

// Arguments without the program's name. Throws RunUsageError: unknown option, missing or wrong value, options that
// exclude each other.
RunOptions ParseRunOptions(std::span<const std::string> arguments);

// For a command line that mixes these options with others: `--temp` and `--temp=1` are options, and `--temp` takes the
// next argument too.
bool IsRunOption(std::string_view argument);
// next: the argument behind it; some take it only if it looks like their value.
bool RunOptionTakesValue(std::string_view argument, std::string_view next);

// One line an option.
std::string RunOptionsHelp();

// "1,2,3" (commas, blanks or newlines between) or "@FILE". Throws RunUsageError for what isn't a list of ids, PlanError
// for a file that can't be read.
std::vector<int32_t> ParseTokens(const std::string& text);

// The text of a prompt: a whole file, or standard input ("-"), of at most 1 GiB, as it is. Throws PlanError.
std::string ReadPromptFile(const std::string& file);
// The same without one line end at its end, if it has one.
std::string WithoutLineEnd(std::string text);

}  // namespace llmc
