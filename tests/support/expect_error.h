// Runs something that must throw an InputError of a kind, and gives its text for further checks.
#pragma once
#include <string>

#include <gtest/gtest.h>

#include "ir/diag.h"

namespace llmc::test {

template <class F>
std::string ErrorOf(DiagKind kind, F&& run) {
  try {
    run();
  } catch (const InputError& error) {
    EXPECT_EQ(DiagName(error.diag().kind), DiagName(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error, expected " << DiagName(kind);
  return "";
}

}  // namespace llmc::test
