// Assembles a plan from its text form, for tests that run llmc-run: plan_assemble TEXT PLAN. SHA-256 is a stand-in
// (tests/plan/support.h).
#include <cstdio>

#include "tests/plan/support.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    llmc::Assemble(llmc::ReadFile(argv[1]), argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
