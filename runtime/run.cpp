// RunMain: options, executable, session, and the command that the options name.
#include "runtime/run.h"

#include <cstdio>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/generate.h"
#include "runtime/report.h"

namespace llmc {
namespace {

// Standard input brings the prompt where no option does, if it is a pipe or a file and has something.
void TakeStandardInput(RunOptions& options) {
  struct stat info{};
  if (fstat(STDIN_FILENO, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode))) {
    std::string text = ReadPromptFile("-");
    if (!text.empty()) {
      options.prompt = std::move(text);
      options.file = "-";
    }
  }
  if (LacksPrompt(options)) throw RunUsageError("no prompt: give -p TEXT, -f FILE or --tokens IDS");
  options.prompt = WithoutLineEnd(std::move(*options.prompt));
}

void Run(const RunOptions& options, const ExecutableProvider& open, uint64_t start) {
  const Executable executable = open(options);
  if (options.render || (options.messages && options.print_tokens)) {
    PrintChatPrompt(executable, options);
    return;
  }
  SessionOptions session_options;
  session_options.threads = options.threads != 0 ? options.threads : UsableCores();
  session_options.context = options.context;
  session_options.chunk = options.chunk;
  Session session(executable, session_options);
  Speculator speculator(session, MakeProposer(options.speculate, executable, session));
  RunState run{executable, options, session, speculator, static_cast<double>(NowNanoseconds() - start) * 1e-6};
  if (options.bench) {
    RunBench(run);
  } else if (options.self_test) {
    RunSelfTest(run);
  } else if (options.perplexity) {
    RunPerplexity(run);
  } else if (options.top_logits > 0) {
    RunTopLogits(run);
  } else if (options.hidden) {
    RunHidden(run);
  } else if (options.embed) {
    RunEmbed(run);
  } else if (options.logits) {
    RunLogits(run);
  } else if (options.prompts) {
    RunParallel(run);
  } else if (options.chat && !options.prompt) {
    RunChat(run);
  } else {
    RunGenerate(run);
  }
}

}  // namespace

int RunMain(const std::vector<std::string>& arguments, const ExecutableProvider& open, const RunProgram& program) {
  const uint64_t start = NowNanoseconds();
  try {
    if (program.needs_plan && arguments.empty()) throw RunUsageError("no plan: give its file name, and -p TEXT");
    RunOptions options = ParseRunOptions(arguments);
    if (options.help) {
      WriteOut("usage: " + program.name + (program.needs_plan ? " PLAN" : "") + " [options]\n" + RunOptionsHelp());
      return 0;
    }
    if (options.version) {
      WriteOut(program.name + " " LLMC_VERSION "\n");
      return 0;
    }
    if (program.needs_plan && options.plan.empty()) throw RunUsageError("no plan: give its file name");
    if (!program.needs_plan && !options.plan.empty()) throw RunUsageError("\"" + options.plan + "\" is too much");
    if (options.file) options.prompt = WithoutLineEnd(ReadPromptFile(*options.file));
    if (LacksPrompt(options)) TakeStandardInput(options);
    Run(options, open, start);
    return 0;
  } catch (const RunUsageError& error) {
    std::fprintf(stderr, "%s: %s (--help lists the options)\n", program.name.c_str(), error.what());
    return 2;
  } catch (const PlanError& error) {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(), error.what());
    return 1;
  }
}

}  // namespace llmc
