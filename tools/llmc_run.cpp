// llmc-run: runs a plan. All of it is runtime/run.h; this file opens plans and reports what isn't the input's fault.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/loader.h"
#include "runtime/plan_layout.h"
#include "runtime/report.h"
#include "runtime/run.h"

namespace {

// This program, when it holds a plan (llmc compile --standalone): by /proc, and where there is none by the name that it
// was started with. Empty: it holds none.
std::string OwnPlan() {
  // An integer is what the kernel's vector holds. NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  for (const char* path : {"/proc/self/exe", name}) {
    if (path == nullptr) continue;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat info{};
    const bool holds = fstat(fd, &info) == 0 && llmc::FindPlan(fd, static_cast<uint64_t>(info.st_size)).has_value();
    close(fd);
    return holds ? path : "";
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  llmc::OpenStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over `ulimit -f` is an error like any other
  try {
    std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const std::string own = OwnPlan();
    if (!own.empty()) arguments.push_back(own);
    return llmc::RunMain(arguments, [](const llmc::RunOptions& options) { return llmc::LoadPlan(options.plan); });
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "llmc-run: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmc-run: internal error: %s\n", error.what());
    return 3;
  }
}
