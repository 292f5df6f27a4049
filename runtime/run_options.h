// llmc-run's options, in one table, for llmc-run and for `llmc run`.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Wrong use of the command line: exit status 2.
class RunUsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RunOptions {
  std::string plan;                   // the positional argument; empty: none
  std::optional<std::string> prompt;  // -p; with --bench a number of tokens
  std::optional<std::string> tokens;  // --tokens: ids, or @FILE
  std::optional<uint32_t> count;      // -n
  uint32_t threads = 0;               // 0: the physical cores
  uint32_t context = 0;               // 0: the plan's
  uint32_t chunk = 0;                 // 0: the plan's
  uint32_t repeats = 5;               // -r
  std::optional<double> temperature, top_p, min_p;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::optional<std::string> logits, perplexity;  // files
  bool all_positions = false, print_tokens = false, ignore_eos = false, self_test = false, bench = false, json = false,
       version = false, help = false;
};

// Arguments without the program's name. Throws RunUsageError: unknown option, missing or wrong value, options that
// exclude each other.
RunOptions ParseRunOptions(std::span<const std::string> arguments);

// For a command line that mixes these options with others: `--temp` and `--temp=1` are options, and `--temp` takes the
// next argument too.
bool IsRunOption(std::string_view argument);
bool RunOptionTakesValue(std::string_view argument);

// One line an option.
std::string RunOptionsHelp();

// "1,2,3" (commas, blanks or newlines between) or "@FILE". Throws RunUsageError for what isn't a list of ids, PlanError
// for a file that can't be read.
std::vector<int32_t> ParseTokens(const std::string& text);

}  // namespace llmc
