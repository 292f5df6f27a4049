// llmc-run: runs a plan. All of it is runtime/run.h; this file opens plans and reports what isn't the input's fault.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "runtime/loader.h"
#include "runtime/report.h"
#include "runtime/run.h"

int main(int argc, char** argv) {
  llmc::OpenStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over `ulimit -f` is an error like any other
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return llmc::RunMain(arguments, [](const llmc::RunOptions& options) { return llmc::LoadPlan(options.plan); });
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "llmc-run: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmc-run: internal error: %s\n", error.what());
    return 3;
  }
}
