// PlanError: what the plan and runtime layers throw for input that is at fault (a damaged plan, a prompt over the
// context, a full disk).
#pragma once
#include <stdexcept>
#include <string>

namespace llmc {

// what() is the whole message, "file:place: rule, values"; the program prints it and exits with status 1.
class PlanError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace llmc
