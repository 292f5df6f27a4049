// Texts that the tests of the IR share: the smallest module with every op that import makes, and pieces to wrap
// statements in.
#pragma once
#include <functional>
#include <string>

#include "ir/diag.h"

namespace llmc::test {

// A module with two globals and `body` as the statements of @forward; lines of the body start at 10.
inline std::string Wrap(const std::string& body, const std::string& where = "") {
  return "module @tiny\n"
         "dim S = 1..64\n"
         "weight $embed : f32[40, 32]\n"
         "weight $w : f32[32, 32]\n"
         "weight $gain : f32[32]\n"
         "weight $table : f32[64, 8]\n"
         "state $k : f32[64, 2, 8] {kind = kv, window = none}\n"
         "state $v : f32[64, 2, 8] {kind = kv, window = none}\n"
         "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[])" +
         where + " {\n" + body + "}\n";
}

// The kind and place of what `run` throws: "SyntaxError 3:7"; "": nothing.
inline std::string Thrown(const std::function<void()>& run) {
  try {
    run();
  } catch (const InputError& error) {
    const std::string& at = error.diag().place.at;
    return std::string(DiagName(error.diag().kind)) + (at.empty() ? "" : " " + at);
  }
  return "";
}

}  // namespace llmc::test
