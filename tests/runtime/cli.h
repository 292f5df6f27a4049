// llmc-run's command line inside a test.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/run.h"
#include "tests/runtime/support.h"

namespace llmc::test {

struct Outcome {
  int status = 0;
  std::string out, err;
};

inline Outcome Cli(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = RunMain(arguments, [](const RunOptions& options) { return LoadPlan(options.plan); });
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace llmc::test
