// What llmc-run does with a session: generate, logits, perplexity, self-test, benchmark. Results go to stdout, the rest
// to stderr.
#pragma once
#include "runtime/executor.h"
#include "runtime/run_options.h"
#include "runtime/speculate.h"

namespace llmc {

struct RunState {
  const Executable& executable;
  const RunOptions& options;
  Session& session;
  Speculator& speculator;  // the session's
  double load_ms = 0;
};

// Throws PlanError when the output is the plan that is run.
void RefuseThePlan(const RunState& run, const std::string& file);
// Each throws PlanError (input at fault) or RunUsageError.
void RunGenerate(RunState& run);
// --prompts: an answer to each line, --parallel of them at once.
void RunParallel(RunState& run);
void RunTopLogits(RunState& run);
// The conversation's prompt as text (--render), or as ids (--messages with --print-tokens): needs no session.
void PrintChatPrompt(const Executable& executable, const RunOptions& options);
// --chat without a prompt: messages from the terminal, or from a pipe, one a line.
void RunChat(RunState& run);
void RunLogits(RunState& run);
void RunHidden(RunState& run);
void RunEmbed(RunState& run);
void RunPerplexity(RunState& run);
void RunSelfTest(RunState& run);
void RunBench(RunState& run);

}  // namespace llmc
