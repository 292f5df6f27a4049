// llmc: the compiler's command line. Options are parsed here and nowhere else; the commands are in tools/cmd_*.cpp.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <system_error>

#include <CLI/CLI.hpp>

#include "backends/backend.h"
#include "ir/options.h"
#include "runtime/plan_error.h"
#include "runtime/report.h"
#include "runtime/run_options.h"
#include "tools/cli.h"

namespace llmc {
namespace {

const CLI::Validator kPositive(
    [](std::string& value) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool good = error == std::errc() && end == value.data() + value.size() && number > 0;
      return good ? std::string() : "\"" + value + "\" isn't a number from 1 to 2^63 - 1";
    },
    "");

// An option that may be repeated and takes one value each time, so that what follows the value is MODEL.
CLI::Option* AddList(CLI::App& app, const char* name, std::vector<std::string>& values, const char* help) {
  return app.add_option(name, values, help)->expected(1)->take_all()->allow_extra_args(false);
}

void AddModelOptions(CLI::App& app, ModelOptions& model, bool required = true) {
  CLI::Option* path = app.add_option("MODEL", model.model, "HF directory, config.json, GGUF file or llmc description");
  if (required) path->required();
  app.add_option("--weights", model.weights, "weights elsewhere than beside the description, or random:SEED")
      ->type_name("PATH|random:SEED");
  app.add_flag("--no-weights", model.no_weights, "no weights: for inspection only");
  app.add_flag("--no-chat-template", model.no_chat_template, "leave chat templates out; chat with the plan is refused");
  app.add_flag("--no-tokenizer", model.no_tokenizer, "leave the tokenizer out; text commands on the plan are refused");
  app.add_option("--context", model.context,
                 "positions to reserve cache for (default: the smaller of the model's maximum and 8192)")
      ->type_name("N")
      ->check(kPositive);
  app.add_option("--chunk", model.chunk, "most rows of one prefill call")->type_name("N")->check(kPositive);
  app.add_option("--quantize", model.quantize, "float matrices to block types: a mixture's name (README.md)")
      ->check(CLI::IsMember(OptionValues("quantize")));
  AddList(app, "--lora", model.lora, "merge this PEFT adapter, its scale times SCALE")->type_name("DIR[=SCALE]");
  app.add_option("--kv-type", model.kv_type, "element type of the KV cache")
      ->check(CLI::IsMember(OptionValues("kv_type")));
  app.add_option("--activations", model.activations,
                 "inputs of matrices (default: q8 for block types, f32 for float weights)")
      ->check(CLI::IsMember(OptionValues("activations")));
  app.add_flag("--allow-nonfinite", model.allow_nonfinite,
               "take weights that are NaN or infinite (no self-test where the logits aren't finite)");
  AddList(app, "--allow-unknown", model.allow_unknown, "pass over this unknown key of the config")->type_name("KEY");
}

void AddCompileOptions(CLI::App& app, CompileFlags& flags) {
  flags.backend = DefaultBackend();
  AddModelOptions(app, flags.model);
  app.add_option("--backend", flags.backend,
                 "who makes the code: llvm, onednn (matrix products by oneDNN), auto (the faster "
                 "one for each phase), reference (none)")
      ->check(CLI::IsMember({"llvm", "onednn", "auto", "reference"}));
  app.add_option(
         "--target-cpu", flags.target_cpu,
         "CPUs that the code is for, separated by commas: x86-64-v3, x86-64-v3-vnni, x86-64-v4, x86-64-v4-vnni, "
         "native (the best of them here); the loader takes the best that runs (default: " +
             std::string(kDefaultTargets) + "; of llmc run: native)")
      ->type_name("LIST");
  app.add_option("--dump-ir", flags.dump_ir, "write the IR after each pass that changed it into DIR")->type_name("DIR");
  AddList(app, "--print-after", flags.print_after, "print the IR after PASS (or all) to stderr")->type_name("PASS");
  AddList(app, "--print-before", flags.print_before, "print the IR before PASS to stderr")->type_name("PASS");
  app.add_option("--stop-after", flags.stop_after, "stop after PASS and write the IR to -o or stdout")
      ->type_name("PASS");
  AddList(app, "--disable-pass", flags.disable_pass, "leave out an optional pass")->type_name("PASS");
  app.add_flag("--remarks", flags.remarks, "say what each pass did, and what it did not and why");
  app.add_flag("--check", flags.check, "evaluate before and after each pass and compare");
  app.add_flag("--time-passes", flags.time_passes, "time of each pass to stderr");
  app.add_option("--from", flags.from, "start from this IR, with MODEL's weights and tokenizer")->type_name("FILE.ir");
  app.add_flag("--no-schedule", flags.no_schedule,
               "what is printed or dumped has no schedule, places and offsets: to read, not for --from");
  app.add_flag("--no-selftest", flags.no_selftest, "no self-test in the plan");
  app.add_option("-j", flags.jobs, "threads of the compiler")->type_name("N")->check(kPositive);
}

// What the workbench takes of compile's options.
void AddWorkbenchOptions(CLI::App& app, CompileFlags& flags) {
  flags.backend = DefaultBackend();
  AddModelOptions(app, flags.model);
  app.add_option("--backend", flags.backend, "llvm, onednn, auto, reference")
      ->check(CLI::IsMember({"llvm", "onednn", "auto", "reference"}));
  app.add_option("--target-cpu", flags.target_cpu, "as for compile")->type_name("LIST");
  AddList(app, "--disable-pass", flags.disable_pass, "leave out an optional pass")->type_name("PASS");
  app.add_option("-j", flags.jobs, "threads")->type_name("N")->check(kPositive);
}

void NoteGiven(const CLI::App& app, CompileFlags& flags) {
  const auto given = [&](const char* name) {  // the workbench has fewer options than compile
    const CLI::Option* option = app.get_option_no_throw(name);
    return option != nullptr && option->count() > 0;
  };
  flags.context_given = given("--context");
  flags.chunk_given = given("--chunk");
  flags.kv_type_given = given("--kv-type");
  flags.activations_given = given("--activations");
  flags.quantize_given = given("--quantize");
  flags.backend_given = given("--backend");
  flags.target_given = given("--target-cpu");
  flags.model.absorb =
      std::find(flags.disable_pass.begin(), flags.disable_pass.end(), "absorb-mla") == flags.disable_pass.end();
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name.starts_with("-") && name != "--context" && name != "--chunk")
      flags.compiling = name;
  }
}

// The arguments of `run` that are llmc-run's, taken out of `arguments`. --context and --chunk belong to the compiler
// here; CommandRun hands them on for a plan.
std::vector<std::string> TakeRunOptions(std::vector<std::string>& arguments) {
  std::vector<std::string> taken, rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool compiler = argument.starts_with("--context") || argument.starts_with("--chunk") ||
                          argument == "--help" || argument == "-h";
    if (i == 0 || compiler || !IsRunOption(argument)) {
      rest.push_back(argument);
      continue;
    }
    taken.push_back(argument);
    if (i + 1 < arguments.size() && RunOptionTakesValue(argument, arguments[i + 1])) taken.push_back(arguments[++i]);
  }
  arguments = std::move(rest);
  return taken;
}

int Dispatch(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::vector<std::string> run_arguments;
  if (!arguments.empty() && arguments[0] == "run") run_arguments = TakeRunOptions(arguments);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a vector

  CLI::App app("llmc: compiles language models for CPUs, ahead of time", "llmc");
  app.set_version_flag("--version", std::string("llmc " LLMC_VERSION));
  app.require_subcommand(1);

  CompileFlags compile;
  CLI::App* compile_app = app.add_subcommand("compile", "compile a model to a plan");
  AddCompileOptions(*compile_app, compile);
  compile_app->add_flag("--hidden", compile.model.hidden,
                        "a decoder's plan gives hidden rows and embeddings too (llmc-run --hidden, --embed): more "
                        "code, no more weights");
  compile_app->add_flag("--standalone", compile.standalone,
                        "a program that holds the plan and its loader, and needs no library");
  compile_app
      ->add_option("--emit", compile.emit,
                   "the phases' code for one target (default: native) in place of a plan, and beside it a C "
                   "header of its entries, OUT.h")
      ->check(CLI::IsMember({"obj", "so", "asm", "ll"}));
  compile_app->add_option("-o", compile.output, "the plan (with --stop-after: the IR; with --emit: the code)")
      ->type_name("OUT.plan");

  OptFlags opt;
  CLI::App* opt_app = app.add_subcommand("opt", "run passes on IR text; without passes: parse, verify, print");
  opt_app->add_option("FILE", opt.file, "IR text, - for stdin (the default where that isn't a terminal)");
  opt_app->add_option("--passes", opt.passes, "comma-separated");
  opt_app->add_option("-o", opt.output, "output, - for stdout");
  opt_app->add_flag("--list-passes", opt.list_passes, "list the passes");
  opt_app->add_flag("--flat", opt.flat, "expand repeat blocks");
  opt_app->add_flag("--remarks", opt.remarks, "say what each pass did");
  opt_app->add_flag("--verify-each", opt.verify_each,
                    "verify the module in front of each pass and behind it, and read back what it prints as");
  opt_app->add_flag("--time-passes", opt.time_passes, "time of each pass to stderr");
  opt_app->add_flag("--stats", opt.stats,
                    "ops, values, tensors and bytes, before and behind each pass, in place of the IR");
  opt_app->add_flag("--no-schedule", opt.no_schedule, "print without schedule, places and offsets");
  opt_app->add_flag("--json", opt.json, "--list-passes or --stats as JSON");

  DescribeFlags describe;
  CLI::App* describe_app = app.add_subcommand("describe", "print the flat description of a model");
  AddModelOptions(*describe_app, describe.model);
  describe_app->add_flag("--report", describe.report, "parameters, cache, multiply-adds and bytes, to stderr");
  describe_app->add_option("--prefill", describe.prefill, "rows of the prefill in the report")
      ->type_name("N")
      ->check(kPositive);

  InspectFlags inspect;
  std::string pass, function;
  CLI::App* inspect_app = app.add_subcommand("inspect", "show what a plan holds");
  inspect_app->add_option("PLAN", inspect.plan)->required();
  CLI::Option* ir =
      inspect_app->add_option("--ir", pass, "the IR: final, or after PASS")->expected(0, 1)->type_name("[PASS]");
  inspect_app->add_flag("--schedule", inspect.schedule,
                        "each phase's steps, and its kernel calls: what threads divide, make and read");
  CLI::Option* memory = inspect_app->add_flag(
      "--memory", inspect.memory, "what is mapped, peak by positions, states, and what lies in the arenas when");
  inspect_app->add_flag("--weights", inspect.weights, "every tensor: how it is made, type, layout, offset, hash");
  CLI::Option* code = inspect_app->add_flag("--code", inspect.code, "targets, entries and functions");
  inspect_app->add_flag("--recipe", inspect.recipe, "the command and the inputs that make this plan");
  inspect_app->add_flag("--text", inspect.text, "the plan as text, from which assemble makes the same bytes again");
  inspect_app->add_flag("--verify", inspect.verify, "check every byte by SHA-256");
  const std::vector<const char*> views = {"--ir",   "--schedule", "--memory", "--weights",
                                          "--code", "--recipe",   "--text",   "--verify"};
  for (const char* view : views)
    for (const char* other : views)
      if (view != other) inspect_app->get_option(view)->excludes(inspect_app->get_option(other));
  CLI::Option* assembly = inspect_app->add_option("--asm", function, "as instructions: all functions, or FUNCTION")
                              ->expected(0, 1)
                              ->type_name("[FUNCTION]")
                              ->needs(code);
  inspect_app->add_option("--target-cpu", inspect.target, "this target's code alone")->type_name("NAME")->needs(code);
  inspect_app->add_option("--threads", inspect.threads, "of the session (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->needs(memory);
  inspect_app->add_option("--context", inspect.context, "positions that are filled (default: the plan's context)")
      ->type_name("N")
      ->check(kPositive)
      ->needs(memory);
  inspect_app->add_flag("--json", inspect.json, "as JSON: any of these but --ir, --text, --verify; or the summary")
      ->excludes(ir)
      ->excludes(inspect_app->get_option("--text"))
      ->excludes(inspect_app->get_option("--verify"));

  ExplainFlags explain;
  CLI::App* explain_app =
      app.add_subcommand("explain", "what the passes decided for a plan; of a value or tensor: all that is known");
  explain_app->add_option("PLAN", explain.plan)->required();
  explain_app->add_option("NAME", explain.name, "%value or $global, as in the IR: '$b0.wqkv'");
  explain_app->add_flag("--json", explain.json, "as JSON");

  AssembleFlags assemble;
  CLI::App* assemble_app = app.add_subcommand("assemble", "a plan from its text (inspect --text; runtime/README.md)");
  assemble_app->add_option("FILE", assemble.file, "the text, - for stdin")->required();
  assemble_app->add_option("-o", assemble.output, "the plan")->type_name("OUT.plan")->required();

  TokenizeFlags tokenize;
  CLI::App* tokenize_app =
      app.add_subcommand("tokenize", "ids of a text, comma-separated, by the tokenizer of a model");
  tokenize_app
      ->add_option("PLAN|MODEL", tokenize.path,
                   "a plan, a model's folder, a tokenizer.json, a tokenizer.model or a GGUF file")
      ->required();
  CLI::Option* text = tokenize_app->add_option("-p", tokenize.text, "the text")->type_name("TEXT");
  CLI::Option* text_file = tokenize_app->add_option("-f", tokenize.file, "a file with the text; -: standard input");
  CLI::Option* decode =
      tokenize_app->add_option("--decode", tokenize.decode, "print the text of these ids")->type_name("1,2,3|@FILE");
  CLI::Option* pair =
      tokenize_app->add_option("--pair", tokenize.pair, "a second text, as the template puts it")->type_name("TEXT");
  CLI::Option* pieces = tokenize_app->add_flag("--pieces", tokenize.pieces, "a line a token: id, text");
  CLI::Option* bytes = tokenize_app->add_flag("--bytes", tokenize.bytes, "a line a token: id, bytes in hexadecimal");
  CLI::Option* offsets = tokenize_app->add_flag("--offsets", tokenize.offsets,
                                                "a line a token: id, begin and end in bytes of the text, text");
  tokenize_app->add_flag("--no-special", tokenize.no_special, "nothing around the text: no BOS, no post-processor");
  tokenize_app->add_flag("--no-parse-special", tokenize.no_parse_special,
                         "text that spells a control token stays text");
  text->excludes(text_file)->excludes(decode);
  text_file->excludes(decode);
  pair->excludes(decode);
  pieces->excludes(bytes)->excludes(offsets);
  bytes->excludes(offsets);

  VerifyFlags verify_flags;
  CLI::App* verify_app = app.add_subcommand("verify", "what each pass and the code did to the numbers");
  AddWorkbenchOptions(*verify_app, verify_flags.compile);
  verify_app->add_flag("--whole", verify_flags.whole, "every layer of a large model, not one of each kind");
  verify_app->add_flag("--json", verify_flags.json, "the table as JSON");

  BisectFlags bisect;
  CLI::App* bisect_app =
      app.add_subcommand("bisect", "the first pass, op, layer and element where the numbers leave what was promised");
  AddWorkbenchOptions(*bisect_app, bisect.compile);
  bisect_app->add_option("--stages", bisect.stages, "IR files of --dump-ir, perhaps edited, in place of the passes")
      ->type_name("DIR");
  bisect_app->add_option("--reference", bisect.reference, "logits f32[tokens, vocab] of another engine")
      ->type_name("LOGITS.npy");
  bisect_app->add_option("--tokens", bisect.tokens, "the ids of --reference")->type_name("IDS|@FILE");
  bisect_app->add_option("--against", bisect.against, "compare op by op with this plan or model")
      ->type_name("PLAN|MODEL");
  bisect_app->add_option("--tolerance", bisect.tolerance, "NMSE allowed (default: 0, bits; for --reference 0.01)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  bisect_app->add_option("--reduce", bisect.reduce, "write the smallest model that still breaks")->type_name("FILE");
  bisect_app->add_flag("--json", bisect.json, "the finding as JSON");

  TraceFlags trace;
  CLI::App* trace_app = app.add_subcommand("trace", "what every op of a run computed, by the interpreter");
  AddWorkbenchOptions(*trace_app, trace.compile);
  trace_app->add_option("-p", trace.text, "the prompt");
  trace_app->add_option("--tokens", trace.tokens, "the prompt as ids (default: eight seeded ones)")
      ->type_name("IDS|@FILE");
  trace_app->add_option("--stage", trace.stage, "of a model: after this pass (default: import)")->type_name("PASS");
  trace_app->add_option("--layer", trace.layer, "this layer alone")->type_name("N")->check(CLI::NonNegativeNumber);
  trace_app->add_option("--op", trace.op, "ops of this name, or this value, alone")->type_name("NAME");
  trace_app->add_option("--npy", trace.npy, "write each value as NPY into DIR")->type_name("DIR");
  trace_app->add_option("--compare", trace.compare, "compare with the NPY files in DIR, by name")->type_name("DIR");
  trace_app->add_option("--map", trace.map, "lines OURS THEIRS: which file is which value")->type_name("FILE");
  trace_app->add_option("--tolerance", trace.tolerance, "NMSE from which a value parts (default 0.001)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  trace_app->add_flag("--json", trace.json, "the rows as JSON");

  ProfileFlags profile;
  CLI::App* profile_app = app.add_subcommand("profile", "where the time of a prompt and of a token goes, by ops");
  profile_app->add_option("PLAN", profile.plan, "plan")->required();
  profile_app->add_option("-p", profile.prompt, "tokens of the prompt (default 256, or half of the context)")
      ->type_name("N")
      ->check(CLI::Range(1U, UINT32_MAX));
  profile_app->add_option("-n", profile.count, "measured decodes behind it (default 32)")
      ->type_name("N")
      ->check(CLI::Range(0U, UINT32_MAX));
  profile_app->add_option("-r", profile.repeats, "measured prompts (default 3)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  profile_app->add_option("-t", profile.threads, "threads (default: the physical cores this process may use)")
      ->type_name("THREADS")
      ->check(CLI::Range(1, 1024));
  profile_app->add_flag("--layers", profile.layers, "a row a layer too");
  profile_app->add_flag("--json", profile.json, "the tables as JSON");

  DiffFlags diff;
  CLI::App* diff_app = app.add_subcommand("diff", "what differs between two plans, IR texts or models");
  diff_app->add_option("A", diff.a, "plan, *.ir file or model")->required();
  diff_app->add_option("B", diff.b, "another")->required();
  diff_app->add_flag("--json", diff.json, "the changes as JSON");

  CompileFlags run;
  CLI::App* run_app =
      app.add_subcommand("run", "compile in memory and run; takes llmc-run's options (llmc-run --help) too");
  AddCompileOptions(*run_app, run);
  run_app->footer("llmc-run's options:\n" + RunOptionsHelp());

  const auto named = [&](const CLI::App* command) { return command->get_name() == arguments.back(); };
  if (!arguments.empty() && !arguments.back().starts_with("-") && app.get_subcommands(named).empty())
    throw UsageError("no command is called \"" + arguments.back() + "\" (llmc --help lists them)");

  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }
  if (compile_app->parsed()) {
    NoteGiven(*compile_app, compile);
    return CommandCompile(compile);
  }
  if (opt_app->parsed()) return CommandOpt(opt);
  if (describe_app->parsed()) return CommandDescribe(describe);
  if (inspect_app->parsed()) {
    if (ir->count() > 0) inspect.ir = pass;
    if (assembly->count() > 0) inspect.assembly = function;
    return CommandInspect(inspect);
  }
  if (explain_app->parsed()) return CommandExplain(explain);
  if (verify_app->parsed()) {
    NoteGiven(*verify_app, verify_flags.compile);
    return CommandVerify(verify_flags);
  }
  if (bisect_app->parsed()) return CommandBisect(bisect);
  if (diff_app->parsed()) return CommandDiff(diff);
  if (trace_app->parsed()) return CommandTrace(trace);
  if (profile_app->parsed()) return CommandProfile(profile);
  if (assemble_app->parsed()) return CommandAssemble(assemble);
  if (tokenize_app->parsed()) return CommandTokenize(tokenize);
  NoteGiven(*run_app, run);
  return CommandRun(run, run_arguments);
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over `ulimit -f` is an error like any other
  try {
    const int status = Dispatch(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "llmc: stdout: can't write: %s\n", std::strerror(errno));
    return std::max(status, 1);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "llmc: %s\n", error.what());
    return 2;
  } catch (const RunUsageError& error) {
    std::fprintf(stderr, "llmc: %s\n", error.what());
    return 2;
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  } catch (const PlanError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "llmc: out of memory\n");
    return 1;
  } catch (const std::system_error& error) {  // a full disk behind stdout, no more threads
    std::fprintf(stderr, "llmc: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmc: internal error: %s\n", error.what());
    return 3;
  }
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) { return llmc::Main(argc, argv); }
