// The table of options and the parser.
#include "runtime/run_options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>

#include <unistd.h>

#include "runtime/plan.h"
#include "runtime/plan_error.h"
#include "runtime/plan_io.h"

namespace llmc {
namespace {

struct Option {
  const char* name;
  const char* value;  // what its value is called; null: it takes none
  const char* help;
  void (*set)(RunOptions& options, const std::string& value);
  bool repeats = false;        // each time adds a value
  const char* ends = nullptr;  // the value may be left out, and one that is an argument of its own ends so
};

[[noreturn]] void WrongValue(const std::string& value, const char* what) {
  throw RunUsageError("\"" + value + "\" isn't " + what);
}

template <typename T>
T Number(const std::string& value, T low, T high, const char* what) {
  T number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  // NaN fails the comparison.
  if (error != std::errc() || end != value.data() + value.size() || !(number >= low && number <= high))
    WrongValue(value, what);
  return number;
}

uint32_t Count(const std::string& value) { return Number<uint32_t>(value, 1, 1u << 30, "a number from 1 to 2^30"); }
std::string File(const std::string& value) {
  if (value.empty()) WrongValue(value, "a file's name");
  return value;
}
// f(word) for each of "a,b,c".
template <class F>
void ForWords(const std::string& value, F f) {
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    f(value.substr(begin, end - begin));
    begin = end + 1;
  }
}
int32_t TokenId(const std::string& value) { return Number<int32_t>(value, 0, INT32_MAX, "a token id"); }

void SetBias(RunOptions& o, const std::string& value) {
  ForWords(value, [&](const std::string& word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) WrongValue(word, "ID=BIAS");
    const std::string bias = word.substr(equals + 1);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    o.logit_bias.emplace_back(TokenId(word.substr(0, equals)),
                              bias == "-inf" ? -kInfinity : Number<float>(bias, -1e6f, 1e6f, "a number or -inf"));
  });
}
void SetOrder(RunOptions& o, const std::string& value) {
  o.sampler_order.clear();
  ForWords(value, [&](const std::string& word) {
    const auto* stage = std::find_if(kSamplerOrder.begin(), kSamplerOrder.end(),
                                     [&](SamplerStage s) { return SamplerStageName(s) == word; });
    if (stage == kSamplerOrder.end()) WrongValue(word, "a stage of the sampler");
    if (std::find(o.sampler_order.begin(), o.sampler_order.end(), *stage) != o.sampler_order.end())
      throw RunUsageError(word + " is there twice");
    o.sampler_order.push_back(*stage);
  });
}

float Penalty(const std::string& value) {
  return Number<float>(value, -1e6f, 1e6f, "a number from -1000000 to 1000000");
}
double Unit(const std::string& value) { return Number<double>(value, 0, 1, "a number from 0 to 1"); }

constexpr Option kOptions[] = {
    {"-p", "TEXT", "prompt; with --bench the number of prompt tokens (default 512)",
     [](RunOptions& o, const std::string& v) { o.prompt = v; }},
    {"-f", "FILE|-", "prompt from a file, or from standard input; without any prompt a pipe or file there is read",
     [](RunOptions& o, const std::string& v) { o.file = File(v); }},
    {"--tokens", "1,2,3|@FILE", "prompt as ids", [](RunOptions& o, const std::string& v) { o.tokens = v; }},
    {"-n", "N", "most new tokens (default 256; with --bench 128)",
     [](RunOptions& o, const std::string& v) {
       o.count = Number<uint32_t>(v, 0, 1u << 30, "a number from 0 to 2^30");
     }},
    {"--chat", nullptr, "talk with the model (/help lists commands); with -p one answer; on a pipe one message a line",
     [](RunOptions& o, const std::string&) { o.chat = true; }},
    {"--messages", "FILE.json", "answer a conversation: an array of messages, or an object with messages, tools, ..",
     [](RunOptions& o, const std::string& v) { o.messages = File(v); }},
    {"--prompts", "FILE|-", "answer many prompts, a text a line (with --json a JSON string), in this order",
     [](RunOptions& o, const std::string& v) { o.prompts = File(v); }},
    {"--parallel", "N",
     "with --prompts: so many sequences at once (default 8), each of which has the text that it has alone; "
     "with --bench: measures so many too",
     [](RunOptions& o, const std::string& v) { o.parallel = Number<uint32_t>(v, 1, 1024, "a number from 1 to 1024"); }},
    {"--render", nullptr, "with --messages or --chat -p: print the prompt that the chat template makes, and no answer",
     [](RunOptions& o, const std::string&) { o.render = true; }},
    {"--parse-special", nullptr, "messages may spell control tokens",
     [](RunOptions& o, const std::string&) { o.parse_special = true; }},
    {"-t", "THREADS", "threads (default: the physical cores this process may use); results don't depend on it",
     [](RunOptions& o, const std::string& v) { o.threads = Number<uint32_t>(v, 1, 1024, "a number from 1 to 1024"); }},
    {"--context", "N", "most positions, at most the plan's (default)",
     [](RunOptions& o, const std::string& v) { o.context = Count(v); }},
    {"--chunk", "N", "rows of a prefill call, at most the plan's (default)",
     [](RunOptions& o, const std::string& v) { o.chunk = Count(v); }},
    {"--temp", "T", "temperature; 0: the likeliest token (default: the plan's, else 0)",
     [](RunOptions& o, const std::string& v) {
       o.temperature = Number<double>(v, 0, 1e6, "a number from 0 to 1000000");
     }},
    {"--top-k", "K", "sample from the K likeliest; 0: off",
     [](RunOptions& o, const std::string& v) { o.top_k = Number<int32_t>(v, 0, 1 << 30, "a number from 0 to 2^30"); }},
    {"--top-p", "P", "sample from the likeliest that together have probability P; 1: off",
     [](RunOptions& o, const std::string& v) { o.top_p = Unit(v); }},
    {"--min-p", "P", "drop tokens less likely than P times the likeliest; 0: off",
     [](RunOptions& o, const std::string& v) { o.min_p = Unit(v); }},
    {"--typical", "P", "sample from the tokens of typical information that have probability P; 1: off",
     [](RunOptions& o, const std::string& v) { o.typical_p = Unit(v); }},
    {"--repeat-penalty", "F", "divide positive logits of ids that were there by F, multiply others; 1: off",
     [](RunOptions& o, const std::string& v) {
       o.repetition_penalty = Number<double>(v, 1e-3, 1e6, "a number from 0.001 to 1000000");
     }},
    {"--presence-penalty", "F", "take F from the logits of ids that were there; 0: off",
     [](RunOptions& o, const std::string& v) { o.penalties.presence = Penalty(v); }},
    {"--frequency-penalty", "F", "take F for each time that an id was there; 0: off",
     [](RunOptions& o, const std::string& v) { o.penalties.frequency = Penalty(v); }},
    {"--penalty-last-n", "N", "last ids that count for these two and DRY; 0: all (default)",
     [](RunOptions& o, const std::string& v) {
       o.penalty_last_n = Number<uint32_t>(v, 0, 1u << 30, "a number from 0 to 2^30");
     }},
    {"--dry-multiplier", "M", "DRY: take M B^(n-L) from an id that makes a repetition of n ids longer; 0: off",
     [](RunOptions& o, const std::string& v) {
       o.dry.multiplier = Number<float>(v, 0, 1e6f, "a number from 0 to 1000000");
     }},
    {"--dry-base", "B", "of DRY (default 1.75)",
     [](RunOptions& o, const std::string& v) { o.dry.base = Number<float>(v, 1, 1e6f, "a number from 1 to 1000000"); }},
    {"--dry-allowed-length", "L", "of DRY (default 2)",
     [](RunOptions& o, const std::string& v) { o.dry.allowed_length = Count(v); }},
    {"--dry-breaker", "TEXT", "DRY follows no repetition over TEXT (default: line end, colon, quotation mark, star)",
     [](RunOptions& o, const std::string& v) {
       if (v.empty() || v.size() > kMostBreakerBytes) WrongValue(v, "a text of 1 to 40 bytes");
       if (!o.dry_breakers) o.dry_breakers.emplace();
       o.dry_breakers->push_back(v);
     },
     true},
    {"--xtc-probability", "P", "XTC: so often drop all tokens that have the threshold but the last; 0: off",
     [](RunOptions& o, const std::string& v) { o.xtc_probability = Unit(v); }},
    {"--xtc-threshold", "P", "of XTC (default 0.1; none above 0.5)",
     [](RunOptions& o, const std::string& v) { o.xtc_threshold = Unit(v); }},
    {"--mirostat", "TAU", "mirostat v2: keep the surprise at TAU bits a token, without top-k to XTC; 0: off",
     [](RunOptions& o, const std::string& v) {
       o.mirostat_tau = Number<double>(v, 0, 1e6, "a number from 0 to 1000000");
     }},
    {"--mirostat-eta", "E", "how fast mirostat learns (default 0.1)",
     [](RunOptions& o, const std::string& v) {
       o.mirostat_eta = Number<double>(v, 0, 1e6, "a number from 0 to 1000000");
     }},
    {"--best-of", "N", "draw N answers, print the one with the greatest mean log probability",
     [](RunOptions& o, const std::string& v) { o.best_of = Number<uint32_t>(v, 1, 1000, "a number from 1 to 1000"); }},
    {"--no-repeat-ngram", "N", "no N ids come twice in a row as they were; 0: off",
     [](RunOptions& o, const std::string& v) {
       o.no_repeat_ngram = Number<uint32_t>(v, 0, 1u << 30, "a number from 0 to 2^30");
     }},
    {"--min-new-tokens", "N", "no end before N new tokens",
     [](RunOptions& o, const std::string& v) {
       o.min_new_tokens = Number<uint32_t>(v, 0, 1u << 30, "a number from 0 to 2^30");
     }},
    {"--logit-bias", "ID=B,..", "add B to the logit of an id; -inf: it never comes", SetBias, true},
    {"--suppress", "ID,..", "ids that never come",
     [](RunOptions& o, const std::string& v) {
       ForWords(v, [&](const std::string& word) { o.suppress.push_back(TokenId(word)); });
     },
     true},
    {"--sampler-order", "A,B,..", "stages in another order (README of runtime); those left out are off", SetOrder},
    {"--grammar", "FILE", "the answer keeps to a grammar in GBNF",
     [](RunOptions& o, const std::string& v) { o.grammar = File(v); }},
    {"--json-schema", "FILE", "the answer is JSON that a schema allows",
     [](RunOptions& o, const std::string& v) { o.json_schema = File(v); }},
    {"--stop", "TEXT", "end the text before TEXT, which may be in several tokens",
     [](RunOptions& o, const std::string& v) {
       if (v.empty()) WrongValue(v, "a text");
       o.stop.push_back(v);
     },
     true},
    {"--logprobs", "N", "log probability of each new token, with the N likeliest: into --json, else to stderr by tabs",
     [](RunOptions& o, const std::string& v) { o.logprobs = Number<uint32_t>(v, 1, 100, "a number from 1 to 100"); }},
    {"--top-logits", "N", "print the N highest logits of the prompt's last token, and generate nothing",
     [](RunOptions& o, const std::string& v) {
       o.top_logits = Number<uint32_t>(v, 1, 1000, "a number from 1 to 1000");
     }},
    {"--seed", "S", "of the sampler (default: drawn, and printed)",
     [](RunOptions& o, const std::string& v) {
       o.seed = Number<uint64_t>(v, 0, UINT64_MAX, "a number from 0 to 2^64 - 1");
     }},
    {"--speculate", "off|ngram|PLAN",
     "verify guesses in calls of several rows: what followed before, or a small model of the same tokens; same text",
     [](RunOptions& o, const std::string& v) { o.speculate = File(v); }},
    {"--print-tokens", nullptr,
     "print the new ids, comma-separated, instead of text; with --messages those of the prompt, and no answer",
     [](RunOptions& o, const std::string&) { o.print_tokens = true; }},
    {"--ignore-eos", nullptr, "go on behind tokens that end a text",
     [](RunOptions& o, const std::string&) { o.ignore_eos = true; }},
    {"--logits", "OUT.npy", "write the prompt's last logits, f32[1, vocab], and generate nothing",
     [](RunOptions& o, const std::string& v) { o.logits = File(v); }},
    {"--all-positions", nullptr, "with --logits: those of every position",
     [](RunOptions& o, const std::string&) { o.all_positions = true; }},
    {"--hidden", "OUT.npy",
     "write the prompt's hidden rows behind the final norm, f32[tokens, width], and generate nothing",
     [](RunOptions& o, const std::string& v) { o.hidden = File(v); }},
    {"--embed", "[OUT.npy]",
     "print the embedding of the prompt, or of each line of -f or standard input: a JSON array a line; or write them "
     "all, "
     "f32[texts, width]",
     [](RunOptions& o, const std::string& v) {
       o.embed = true;
       if (!v.empty()) o.embed_file = v;
     },
     false, ".npy"},
    {"--pair", "TEXT", "with --hidden or --embed: a second text, of the other token type",
     [](RunOptions& o, const std::string& v) { o.pair = v; }},
    {"--pooling", "KIND", "with --embed: mean, cls (the first row) or last, in place of what the model's files say",
     [](RunOptions& o, const std::string& v) {
       if (!PoolingFromText(v)) WrongValue(v, "mean, cls or last");
       o.pooling = v;
     }},
    {"--prompt-name", "NAME", "with --embed: put this prompt of the model in front of each text",
     [](RunOptions& o, const std::string& v) { o.prompt_name = v; }},
    {"--perplexity", "FILE", "perplexity of a text, in windows of min(512, context) tokens whose first isn't scored",
     [](RunOptions& o, const std::string& v) { o.perplexity = File(v); }},
    {"--selftest", nullptr, "run the plan's self-test", [](RunOptions& o, const std::string&) { o.self_test = true; }},
    {"--bench", nullptr, "measure speed", [](RunOptions& o, const std::string&) { o.bench = true; }},
    {"-r", "R", "repetitions of --bench (default 5)",
     [](RunOptions& o, const std::string& v) { o.repeats = Number<uint32_t>(v, 1, 1000, "a number from 1 to 1000"); }},
    {"--json", nullptr, "print one JSON object instead", [](RunOptions& o, const std::string&) { o.json = true; }},
    {"--version", nullptr, "print the version", [](RunOptions& o, const std::string&) { o.version = true; }},
    {"--help", nullptr, "print this", [](RunOptions& o, const std::string&) { o.help = true; }},
};

const Option* Find(std::string_view argument) {
  const std::string_view name = argument.starts_with("--") ? argument.substr(0, argument.find('=')) : argument;
  const auto* found =
      std::find_if(std::begin(kOptions), std::end(kOptions), [&](const Option& option) { return name == option.name; });
  return found == std::end(kOptions) ? nullptr : found;
}

void CheckTogether(const RunOptions& o) {
  if (o.help || o.version) return;
  const int modes = o.logits.has_value() + o.hidden.has_value() + o.embed + o.perplexity.has_value() + o.self_test +
                    o.bench + (o.top_logits > 0 ? 1 : 0);
  if (modes > 1)
    throw RunUsageError(
        "--logits, --hidden, --embed, --top-logits, --perplexity, --selftest and --bench exclude each other");
  if (o.speculate != "off" && (modes > 0 || o.render))
    throw RunUsageError(
        "--speculate is for generating: it excludes --logits, --hidden, --embed, --top-logits, --perplexity, "
        "--selftest, "
        "--bench and --render");
  if (!o.stop.empty() && o.print_tokens) throw RunUsageError("--stop ends a text: it doesn't go with --print-tokens");
  if ((o.prompt ? 1 : 0) + (o.file ? 1 : 0) + (o.tokens ? 1 : 0) > 1)
    throw RunUsageError("-p, -f and --tokens exclude each other");
  if (o.all_positions && !o.logits) throw RunUsageError("--all-positions needs --logits");
  if ((o.logits || o.hidden || o.embed) && (o.count || o.print_tokens))
    throw RunUsageError(std::string(o.logits   ? "--logits"
                                    : o.hidden ? "--hidden"
                                               : "--embed") +
                        " generates nothing: it takes neither -n nor --print-tokens");
  if (o.pair && !((o.hidden || o.embed) && o.prompt)) throw RunUsageError("--pair needs -p and --hidden or --embed");
  if ((o.pooling || o.prompt_name) && !o.embed) throw RunUsageError("--pooling and --prompt-name need --embed");
  if (o.prompt_name && (o.tokens || o.pair)) throw RunUsageError("--prompt-name goes with a text alone");
  if (o.messages && (o.prompt || o.file || o.tokens || o.chat))
    throw RunUsageError("--messages excludes -p, -f, --tokens and --chat");
  if (o.chat && (o.tokens || modes > 0)) throw RunUsageError("--chat goes with -p or -f alone");
  if (o.messages && modes > 0)
    throw RunUsageError("--messages excludes --logits, --hidden, --embed, --perplexity, --selftest and --bench");
  if (o.render && !o.messages && !(o.chat && (o.prompt || o.file)))
    throw RunUsageError("--render needs --messages or --chat -p");
  if (o.render && (o.print_tokens || o.json)) throw RunUsageError("--render prints text alone");
  if (o.parse_special && !o.messages && !o.chat) throw RunUsageError("--parse-special needs --messages or --chat");
  if (o.chat && !o.prompt && !o.file && (o.json || o.print_tokens))
    throw RunUsageError("a conversation has no --json and no --print-tokens: they go with --chat -p or --messages");
  if (o.best_of > 1 && (modes > 0 || (o.chat && !o.prompt && !o.file)))
    throw RunUsageError("--best-of goes with one prompt that is answered");
  if (o.grammar && o.json_schema) throw RunUsageError("--grammar and --json-schema exclude each other");
  if ((o.grammar || o.json_schema) && (modes > 0 || o.ignore_eos))
    throw RunUsageError("--grammar and --json-schema go with answers, and not with --ignore-eos");
  if (o.prompts &&
      (o.prompt || o.file || o.tokens || o.messages || o.chat || modes > 0 || o.best_of > 1 || o.speculate != "off"))
    throw RunUsageError(
        "--prompts excludes -p, -f, --tokens, --messages, --chat, --speculate, --best-of and what doesn't answer");
  if (o.parallel && !o.prompts && !o.bench) throw RunUsageError("--parallel needs --prompts or --bench");
  if (o.prompts && o.logprobs > 0 && !o.json) throw RunUsageError("--logprobs with --prompts needs --json");
  const bool prompt = o.prompts || o.prompt || o.file || o.tokens || o.messages || o.chat;
  if ((o.perplexity || o.self_test) && prompt) throw RunUsageError("--perplexity and --selftest take no prompt");
  if (o.json && (o.logits || o.hidden || o.embed || o.self_test || o.top_logits > 0))
    throw RunUsageError("--json goes with a prompt, --perplexity or --bench");
  if (o.bench && (o.tokens || o.file))
    throw RunUsageError("--bench makes its own tokens: it takes -p N, neither --tokens nor -f");
}

}  // namespace

bool LacksPrompt(const RunOptions& o) {
  return !o.prompts && !o.prompt && !o.file && !o.tokens && !o.messages && !o.chat && !o.perplexity && !o.self_test &&
         !o.bench && !o.help && !o.version;
}

RunOptions ParseRunOptions(std::span<const std::string> arguments) {
  RunOptions options;
  std::set<const Option*> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      if (!options.plan.empty()) throw RunUsageError("\"" + argument + "\" is too much: the plan is " + options.plan);
      if (argument.empty()) throw RunUsageError("the plan's name is empty");
      options.plan = argument;
      continue;
    }
    const Option* option = Find(argument);
    if (option == nullptr) throw RunUsageError("option " + argument + " isn't known");
    if (!given.insert(option).second && option->value != nullptr && !option->repeats)
      throw RunUsageError(std::string(option->name) + " is given twice");
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    std::string value;
    if (option->value == nullptr) {
      if (equals != std::string::npos) throw RunUsageError(std::string(option->name) + " takes no value");
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (option->ends != nullptr) {
      if (i + 1 < arguments.size() && arguments[i + 1].ends_with(option->ends)) value = arguments[++i];
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      throw RunUsageError(argument + " needs a value: " + option->value);
    }
    try {
      option->set(options, value);
    } catch (const RunUsageError& error) {
      throw RunUsageError(std::string(option->name) + ": " + error.what());
    }
  }
  CheckTogether(options);
  return options;
}

bool IsRunOption(std::string_view argument) { return Find(argument) != nullptr; }

bool RunOptionTakesValue(std::string_view argument, std::string_view next) {
  const Option* option = Find(argument);
  return option != nullptr && option->value != nullptr && argument.find('=') == std::string_view::npos &&
         (option->ends == nullptr || next.ends_with(option->ends));
}

std::string RunOptionsHelp() {
  std::string help;
  for (const Option& option : kOptions) {
    std::string left =
        std::string("  ") + option.name + (option.value == nullptr ? "" : std::string(" ") + option.value);
    left.resize(std::max<size_t>(left.size() + 1, 26), ' ');
    help += left + option.help + "\n";
  }
  return help;
}

std::string ReadPromptFile(const std::string& file) {
  if (file != "-") return ReadWholeFile(file);
  constexpr size_t kMost = size_t{1} << 30;
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw PlanError(std::string("standard input: can't read: ") + std::strerror(errno));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMost) throw PlanError("standard input: more than " + std::to_string(kMost) + " bytes");
  }
}

std::string WithoutLineEnd(std::string text) {
  if (text.ends_with('\n')) text.resize(text.size() - (text.ends_with("\r\n") ? 2 : 1));
  return text;
}

std::vector<int32_t> ParseTokens(const std::string& text) {
  const bool from_file = text.starts_with("@");
  const std::string list = from_file ? ReadWholeFile(text.substr(1)) : text;
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const auto separates = [&](char c) { return c == ',' || blank(c); };
  std::vector<int32_t> ids;
  bool comma = true;  // the next one would have no id before it
  for (size_t at = 0; at < list.size();) {
    if (blank(list[at]) || (list[at] == ',' && !comma)) {
      comma = comma || list[at] == ',';
      ++at;
      continue;
    }
    comma = false;
    int32_t id = 0;
    const auto [end, error] = std::from_chars(list.data() + at, list.data() + list.size(), id);
    const size_t next = static_cast<size_t>(end - list.data());
    if (error != std::errc() || (next < list.size() && !separates(list[next]))) {
      const std::string rule =
          "byte " + std::to_string(at) + ": not a list of ids (32-bit numbers with commas between)";
      if (from_file) throw PlanError(text.substr(1) + ":" + rule);
      throw RunUsageError("--tokens: " + rule);
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

}  // namespace llmc
