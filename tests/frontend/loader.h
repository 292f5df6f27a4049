// A model on disk loaded as the commands do, and run by the interpreter on its imported graph.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/expect_error.h"

namespace llmc::test {

inline const std::vector<int32_t> kTokens = {3, 1, 4, 1, 5, 9, 2, 6};

struct Loader {
  ModelOptions options;
  std::vector<Diag> warnings;
  explicit Loader(const std::string& path) {
    options.model = path;
    options.kv_type = "f32";
  }
  Model Load() {
    options.sink = [this](const Diag& d) { warnings.push_back(d); };
    return LoadModel(options);
  }
  std::vector<float> Logits() {
    Model model = Load();
    Verify(model.module, "import");
    EXPECT_EQ(Print(Parse(Print(model.module), "t")), Print(model.module));
    return Interpreter(model.module, *model.weights).Run("forward", kTokens, 0, static_cast<int64_t>(kTokens.size()));
  }
};

// The message of the error with which loading the model fails.
inline std::string ErrorFor(DiagKind kind, const std::string& path) {
  return ErrorOf(kind, [&] { Loader(path).Load(); });
}

}  // namespace llmc::test
